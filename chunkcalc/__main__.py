"""`python -m chunkcalc`."""

from chunkcalc.cli.main import main

main()
