"""Find the engine processes in deployment files, each flag with its line; nothing is executed or fetched."""
