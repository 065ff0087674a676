"""How many GPUs: what one unit carries, the shapes a fleet can have, the cheapest."""
