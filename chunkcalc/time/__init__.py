"""How long a step takes: rooflines of kernels, the step, a prompt cut into chunks, a service; exact searches."""
