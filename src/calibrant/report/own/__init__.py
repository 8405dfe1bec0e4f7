"""The report on a person's own data: one page, made of plain contents."""
