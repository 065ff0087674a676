"""Many requests: waiting, a rank while prompts arrive, closed loops, arrivals, a scheduler stepped over them."""
