"""What the gate found, one file per format; prints nothing."""
