"""One call for each command: what the command line does, without the printing."""
