"""Records as something to read: tables, figures, and one page."""
