"""The answer as text and as JSON: one module per format, nothing printed here."""
