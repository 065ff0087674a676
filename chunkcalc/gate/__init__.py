"""The gate: deployment files and limits -> findings, each by a rule with a stable id."""
