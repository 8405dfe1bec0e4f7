"""One file for each command: the Python function and its command-line form."""
