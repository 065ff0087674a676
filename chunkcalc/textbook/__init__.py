"""The published equations, and what they say of a deployment."""
