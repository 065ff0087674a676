"""Why: the equations as symbols, with a deployment's numbers, term by term, and what moves the window."""
