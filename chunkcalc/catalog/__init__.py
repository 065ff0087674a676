"""Names -> records: models and GPUs by what people call them, profiles, configs, weight formats."""
