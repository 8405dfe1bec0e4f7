"""The claims of the paper and our own questions, as text."""

from dataclasses import dataclass

__all__ = ["CLAIMS", "Claim"]

_COUNT = (
    "Holds if a signed-rank test over sets says {word}; fails if that says the "
    "opposite, or if more sets than allowed ({room}) are clearly the other way."
)
_NAMED = (
    "Holds if clearly {word} on more than half of the named sets that were run; fails "
    "if clearly otherwise on one of them."
)
_ALL = "On each of concrete, protein and year_msd that was run: "


@dataclass(frozen=True)
class Claim:
    """A claim: our words, the paper's words, and the rule in one line."""

    claim: str
    quote: str
    rule: str
    columns: tuple[str, str]


#: By the names of ``docs/verdicts.md``.
CLAIMS: dict[str, Claim] = {
    "qr-error": Claim(
        "Training with the quantile regularizer (QR) lowers the calibration error.",
        "the calibration error is smaller [...] quantile regularization decreases "
        "calibration error in 9/10 cases",
        _COUNT.format(
            word="lower", room="none with MC dropout, a tenth with ensembles"
        ),
        ("QR", "base"),
    ),
    "qr-nll": Claim(
        "QR improves the NLL on seven of ten sets as well.",
        "In 7/10 cases, even the NLL is better.",
        _COUNT.format(word="lower", room="three tenths"),
        ("QR", "base"),
    ),
    "qr-rmse": Claim(
        "What QR costs in RMSE is negligible: below 2 %.",
        "RMSE drops, if any, are almost negligible.",
        "RMSE of QR against 1.02 times that of base. "
        + _COUNT.format(word="lower", room="none"),
        ("QR", "1.02 x base"),
    ),
    "isotonic-worsens": Claim(
        "Isotonic recalibration on the training rows raises the calibration error on "
        "the sets that the paper stars.",
        "in 5/10 cases, post-processing worsens calibration error [...] Here it is "
        "even more worse cause 7/10 cases",
        _NAMED.format(word="higher"),
        ("base + isotonic", "base"),
    ),
    "isotonic-qr": Claim(
        "On these sets isotonic recalibration raises the error by less after training "
        "with QR.",
        "the amount of increase in miscalibration is smaller when the model is trained "
        "with Quantile Regularization",
        "Rise of the error with QR against that without. "
        + _NAMED.format(word="lower"),
        ("rise with QR", "rise without"),
    ),
    "qr-isotonic": Claim(
        "QR is consistently better calibrated than isotonic recalibration.",
        "Isotonic Calibration sometimes compound miscalibration whereas our method "
        "provides consistently better calibrations",
        _COUNT.format(word="lower", room="none"),
        ("QR", "base + isotonic"),
    ),
    "isotonic-large": Claim(
        "Isotonic recalibration works on large sets: kin8nm, protein, year_msd.",
        "Isotonic calibration works well on large [data sets] like Kin8nm[,] Protein "
        "Structure, Year Prediction MSD",
        _NAMED.format(word="lower"),
        ("base + isotonic", "base"),
    ),
    "ensemble-error": Claim(
        "Ensembles are much more miscalibrated than MC dropout.",
        "The amount of miscalibration is much more in case of Deep Ensembles when "
        "compared to MC dropout Model.",
        "Holds if a signed-rank test over sets says higher and the median ratio of "
        "errors is at least 1.5.",
        ("ensemble", "MC dropout"),
    ),
    "ensemble-isotonic": Claim(
        "Ensembles with isotonic recalibration are much more miscalibrated than MC "
        "dropout with it (the same sentence, read in its context).",
        "The amount of miscalibration is much more in case of Deep Ensembles when "
        "compared to MC dropout Model.",
        "Holds if a signed-rank test over sets says higher and the median ratio of "
        "errors is at least 1.5.",
        ("ensemble + isotonic", "MC dropout + isotonic"),
    ),
    "strength-error": Claim(
        "The calibration error falls gradually as the strength grows (Figure 2).",
        "Calibration error reduces gradually as we increase λ",
        _ALL + "the rank correlation of strength and error is clearly below 0, and the "
        "largest strength is not clearly worse than none.",
        ("largest strength", "strength 0"),
    ),
    "strength-rest": Claim(
        "RMSE and NLL hardly move with the strength (Figure 2).",
        "there is no significant change in NLL/RMSE",
        _ALL + "RMSE stays within 5 % and NLL within 0.1 of those at strength 0; fails "
        "if one is clearly outside.",
        ("RMSE furthest away", "RMSE at strength 0"),
    ),
    "curve": Claim(
        "With QR the calibration curve moves to the diagonal (Figure 1).",
        "",
        "Mean distance of the curve from the diagonal on concrete and protein. "
        + _NAMED.format(word="lower"),
        ("QR", "base"),
    ),
    "default-base": Claim(
        "Our default is better calibrated than MC dropout alone, at no worse NLL and "
        "CRPS.",
        "",
        _COUNT.format(word="lower", room="one fifth") + " Then NLL and CRPS, likewise.",
        ("our default", "base"),
    ),
    "default-qr": Claim(
        "Our default is better calibrated than MC dropout with QR, at no worse NLL and "
        "CRPS.",
        "",
        _COUNT.format(word="lower", room="one fifth") + " Then NLL and CRPS, likewise.",
        ("our default", "QR"),
    ),
    "default-isotonic": Claim(
        "Our default is better calibrated than MC dropout with isotonic recalibration, "
        "at no worse NLL and CRPS.",
        "",
        _COUNT.format(word="lower", room="one fifth") + " Then NLL and CRPS, likewise.",
        ("our default", "base + isotonic"),
    ),
    "regularizer": Claim(
        "The regularizer {regularizer} at strength {strength:g} lowers the calibration "
        "error.",
        "",
        _COUNT.format(word="lower", room="one fifth"),
        ("with it", "base"),
    ),
}
