"""Contests by subject. Each file has a table ``CONTESTS``: name -> what makes it."""
