"""The command line: parse, call one function, print. One file for each command."""

import sys

from calibrant.cli._app import app, run
from calibrant.cli.compare import compare
from calibrant.cli.datasets import datasets
from calibrant.cli.evaluate import evaluate
from calibrant.cli.fit import fit
from calibrant.cli.info import info
from calibrant.cli.methods import methods
from calibrant.cli.predict import predict
from calibrant.cli.recalibrate import recalibrate
from calibrant.cli.reproduce import reproduce

__all__ = ["app", "main"]

# In the order in which a new user needs them.
_COMMANDS = (fit, predict, evaluate, recalibrate, compare, info, datasets)
for _command in (*_COMMANDS, reproduce, methods):
    app.command()(_command)


def main() -> None:
    """Run the command line."""
    sys.exit(run())
