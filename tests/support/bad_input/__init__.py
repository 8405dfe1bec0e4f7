"""Kinds of bad input, each with its command: what the tests run and the docs list."""

from bad_input.case import Case
from bad_input.fitting import FITTING
from bad_input.measuring import MEASURING
from bad_input.predicting import PREDICTING
from bad_input.reading import READING
from bad_input.strangers import STRANGERS

__all__ = ["CASES", "GROUPS", "Case"]

#: By the headings of the docs, in their order.
GROUPS = {
    "Files": READING,
    "Training": FITTING,
    "Predicting": PREDICTING,
    "Measuring": MEASURING,
    "Models of strangers": STRANGERS,
}
CASES = tuple(case for cases in GROUPS.values() for case in cases)
