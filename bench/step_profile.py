"""Where the time of a training step goes: matrix products, other work, and calls.

Example: python -m bench.step_profile --members 5 --adversarial
"""

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from bench import plain
from bench.contests.training import STEPS, stack_epoch

EPOCHS = 10
PRODUCTS = ("aten::bmm", "aten::baddbmm")


def profiled(members: int, *, adversarial: bool) -> dict[str, Any]:
    """Profile some epochs: what a step consists of.

    Parameters
    ----------
    members
        Networks of the stack.
    adversarial
        With adversarial training and the regularizer.
    """
    strength = plain.STRENGTH if adversarial else 0.0
    epoch = stack_epoch(members=members, strength=strength, adversarial=adversarial)
    for _ in range(3):
        epoch()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(EPOCHS):
            epoch()
    steps = EPOCHS * STEPS
    events = {
        event.key: (event.self_cpu_time_total / 1000 / steps, event.count / steps)
        for event in found.key_averages()
    }
    total = sum(milliseconds for milliseconds, _ in events.values())
    ranked = sorted(events.items(), key=lambda item: -item[1][0])
    return {
        "members": members,
        "adversarial": adversarial,
        "products": sum(events[name][0] for name in PRODUCTS) / total,
        "calls": sum(count for name, (_, count) in events.items() if "aten" in name),
        "largest": [
            {"name": name, "calls": count, "share": milliseconds / total}
            for name, (milliseconds, count) in ranked[:10]
        ],
    }


def main() -> None:
    """Profile and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--adversarial", action="store_true", help="with QR")
    given = parser.parse_args()
    found = profiled(given.members, adversarial=given.adversarial)
    table = Table(title=f"A step of {given.members} networks", title_justify="left")
    for column in ("what", "calls", "share"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for each in found["largest"]:
        share = f"{100 * each['share']:.1f} %"
        table.add_row(each["name"], f"{each['calls']:.0f}", share)
    console = Console()
    console.print(table)
    console.print(
        f"matrix products {100 * found['products']:.0f} % of the time, "
        f"{found['calls']:.0f} calls of torch's operations in all"
    )


if __name__ == "__main__":
    main()
