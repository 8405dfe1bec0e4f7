"""What tests need that send signals to processes."""

# A process that was started in the background ignores SIGINT, and so do its children.
HEEDFUL = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
# So long may a test wait for a process that does not end.
HANGS = 100.0
