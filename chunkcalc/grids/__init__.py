"""Every chunk, batch and context at once."""
