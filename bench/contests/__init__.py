"""Contests by subject. Each file has a list ``CONTESTS`` of functions that make one."""
