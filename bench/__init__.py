"""Benchmarks: this library against its peers, and against the machine's own limits.

    python -m bench            # all contests, into results/bench
    python -m bench --list

``make bench`` installs what they need, runs them and writes ``docs/benchmarks.md``.
"""
