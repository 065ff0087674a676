"""The command line: options -> records -> one call -> a report -> an exit code. Only it prints."""
