"""Repeat the paper: plans, a ledger of finished cells, tables of numbers, verdicts.

``run(plan, ledger)`` trains what is missing; all that comes after it reads records.
"""
