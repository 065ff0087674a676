"""Predictions against measurements: what was served, which rows count, how far off they are."""
