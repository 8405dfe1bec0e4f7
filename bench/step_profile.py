"""Where the time of a training step goes: matrix products, other work, and calls.

Example: python -m bench.step_profile --members 5 --adversarial
"""

import argparse
from collections import defaultdict

from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from bench import plain
from bench.contests.training import STEPS, stack_epoch

EPOCHS = 10
PRODUCTS = ("aten::bmm", "aten::baddbmm")


def main() -> None:
    """Profile some epochs and print the time of each kind of call in a step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--members", type=int, default=5)
    parser.add_argument("--adversarial", action="store_true", help="with QR")
    parser.add_argument("--rows", type=int, default=12, help="lines of the table")
    given = parser.parse_args()
    epoch = stack_epoch(
        members=given.members,
        strength=plain.STRENGTH if given.adversarial else 0.0,
        adversarial=given.adversarial,
    )
    for _ in range(3):
        epoch()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(EPOCHS):
            epoch()
    steps = EPOCHS * STEPS
    times: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for event in found.key_averages():
        times[event.key][0] += event.self_cpu_time_total / 1000 / steps
        times[event.key][1] += event.count / steps
    total = sum(milliseconds for milliseconds, _ in times.values())
    products = sum(times[name][0] for name in PRODUCTS)
    calls = sum(count for name, (_, count) in times.items() if "aten::" in name)
    table = Table(title=f"A step of {given.members} networks", title_justify="left")
    for column in ("what", "calls", "ms", "share"):
        table.add_column(column, justify="left" if column == "what" else "right")
    ranked = sorted(times.items(), key=lambda item: -item[1][0])
    for name, (milliseconds, count) in ranked[: given.rows]:
        share = f"{100 * milliseconds / total:.1f} %"
        table.add_row(name, f"{count:.0f}", f"{milliseconds:.3f}", share)
    console = Console()
    console.print(table)
    console.print(
        f"matrix products {100 * products / total:.0f} % of the time, in {calls:.0f} "
        "calls of torch's operations in all"
    )


if __name__ == "__main__":
    main()
