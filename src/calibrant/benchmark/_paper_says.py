"""What the paper's own numbers say about its claims, counted and not typed."""

from calibrant.benchmark.published import (
    ENSEMBLE,
    ISOTONIC,
    MC_DROPOUT,
    PAPER_DATA,
    Count,
    PublishedArm,
    count,
    lookup,
    starred,
)

__all__ = ["LARGE", "NEGLIGIBLE", "paper_says", "rises_less", "rmse_rises"]

#: Sets that the paper calls large.
LARGE = ("kin8nm", "protein", "year_msd")
#: A rise of the RMSE up to this share is negligible.
NEGLIGIBLE = 0.02
_ERROR = "calibration_error"
# Above this many standard errors two means of five repeats differ: t with 8 degrees of
# freedom at 5 %, two-sided.
_CLEAR = 2.3
_FIGURE = "A figure without printed numbers."


def paper_says(name: str, network: str) -> str:
    """Say what the paper's tables say about a claim.

    Parameters
    ----------
    name
        Of the claim.
    network
        ``"mc_dropout"`` or ``"deep_ensemble"``; not used where both are compared.

    Examples
    --------
    >>> paper_says("qr-error", "deep_ensemble")
    'Lower on 9 of 10 sets, by more than 2.3 standard errors on 6.'
    """
    ways = {
        "qr-error": _qr_error,
        "qr-nll": _qr_nll,
        "qr-rmse": _qr_rmse,
        "isotonic-worsens": _isotonic_worsens,
        "isotonic-qr": _isotonic_qr,
        "qr-isotonic": _qr_isotonic,
        "isotonic-large": _isotonic_large,
    }
    if name in ("ensemble-error", "ensemble-isotonic"):
        return _ensemble("none" if name == "ensemble-error" else ISOTONIC)
    return ways[name](network) if name in ways else _FIGURE


def rmse_rises(network: str) -> dict[str, float]:
    """Return the relative change of the printed RMSE with QR, for each set.

    Examples
    --------
    >>> round(rmse_rises("mc_dropout")["yacht"], 2)
    0.55
    """
    rises = {}
    for data in PAPER_DATA:
        base = lookup(data, PublishedArm(network), "rmse")
        qr = lookup(data, PublishedArm(network, "qr"), "rmse")
        if base is not None and qr is not None:
            rises[data] = qr.mean / base.mean - 1
    return rises


def rises_less(network: str) -> tuple[str, ...]:
    """Return starred sets where isotonic raises the printed error by less with QR.

    Examples
    --------
    >>> len(rises_less("deep_ensemble"))
    7
    """
    return tuple(
        data
        for data in starred(network)
        if _rise(data, network, "qr") < _rise(data, network, "base")
    )


def _rise(data: str, network: str, training: str) -> float:
    after = lookup(data, PublishedArm(network, training, ISOTONIC), _ERROR)
    before = lookup(data, PublishedArm(network, training), _ERROR)
    return after.mean - before.mean if after and before else 0.0


def _qr_error(network: str) -> str:
    arms = PublishedArm(network, "qr"), PublishedArm(network)
    counts = count(*arms, _ERROR)
    clear = len(count(*arms, _ERROR, standard_errors=_CLEAR).lower)
    return (
        f"Lower on {len(counts.lower)} of {counts.total} sets, by more than {_CLEAR} "
        f"standard errors on {clear}."
    )


def _three(counts: Count) -> str:
    return (
        f"Better on {len(counts.lower)} sets, equal on {len(counts.equal)}, worse on "
        f"{len(counts.higher)}"
    )


def _qr_nll(network: str) -> str:
    counts = count(PublishedArm(network, "qr"), PublishedArm(network), "nll")
    return f"{_three(counts)}."


def _qr_rmse(network: str) -> str:
    counts = count(PublishedArm(network, "qr"), PublishedArm(network), "rmse")
    rises = rmse_rises(network)
    largest = sorted(rises, key=lambda data: -rises[data])[:3]
    listed = ", ".join(f"{data} {rises[data]:+.0%}" for data in largest)
    return f"{_three(counts)}; the largest changes: {listed}."


def _isotonic_worsens(network: str) -> str:
    found = {
        training: count(
            PublishedArm(network, training, ISOTONIC),
            PublishedArm(network, training),
            _ERROR,
        )
        for training in ("base", "qr")
    }
    base, qr = (len(found[training].higher) for training in ("base", "qr"))
    return f"Higher on {base} of 10 sets, after training with QR on {qr}."


def _isotonic_qr(network: str) -> str:
    return (
        f"By less on {len(rises_less(network))} of the {len(starred(network))} starred "
        "sets."
    )


def _qr_isotonic(network: str) -> str:
    other = PublishedArm(network, "base", ISOTONIC)
    counts = count(PublishedArm(network, "qr"), other, _ERROR)
    return f"Lower on {len(counts.lower)} of {counts.total} sets."


def _isotonic_large(network: str) -> str:
    parts = []
    for data in LARGE:
        before = lookup(data, PublishedArm(network), _ERROR)
        after = lookup(data, PublishedArm(network, "base", ISOTONIC), _ERROR)
        if before is not None and after is not None:
            parts.append(f"{data} {before.mean:g} to {after.mean:g}")
    return f"{', '.join(parts)}."


def _ensemble(recalibration: str) -> str:
    ensemble = PublishedArm(ENSEMBLE, "base", recalibration)
    counts = count(ensemble, PublishedArm(MC_DROPOUT, "base", recalibration), _ERROR)
    return f"Higher on {len(counts.higher)} of {counts.total} sets."
