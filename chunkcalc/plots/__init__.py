"""Pictures of an answer, drawn by matplotlib, which the extra `[plot]` brings."""
