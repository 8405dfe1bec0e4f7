"""Regression whose uncertainty can be trusted."""
