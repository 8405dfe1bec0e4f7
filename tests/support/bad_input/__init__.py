"""Kinds of bad input, each with its command: what the tests run and the docs list."""

from bad_input.case import Case
from bad_input.fitting import FITTING
from bad_input.measuring import MEASURING
from bad_input.predicting import PREDICTING
from bad_input.reading import READING
from bad_input.strangers import STRANGERS

__all__ = ["CASES", "Case"]

#: In the order in which the docs list them.
CASES = (*READING, *FITTING, *PREDICTING, *MEASURING, *STRANGERS)
