"""What the paper's text gets wrong, and what it should say."""

from dataclasses import dataclass

__all__ = ["ERRATA", "Erratum"]


@dataclass(frozen=True)
class Erratum:
    """One slip: its place, what is printed, and what is right."""

    place: str
    printed: str
    correct: str


#: In the order of the text.
ERRATA = (
    Erratum(
        "KL divergence to the uniform law",
        "It is called the entropy.",
        "It is the negative entropy.",
    ),
    Erratum(
        "Cumulative residual entropy",
        "It is labeled CKL once.",
        "CKL is the cumulative KL divergence, in which it is one term.",
    ),
    Erratum(
        "Proposition 2, proof",
        "ln(1 - x) in a denominator.",
        "1 - x. The result is right: CKL(u) = ∫ S ln S dx + E[(1 - u) ln(1 - u)] "
        "+ 1/2.",
    ),
    Erratum(
        "Proposition 3",
        "The gap of two order statistics stands without parentheses.",
        "Σ (n - i)/n · ln((n - i)/n) · (u_(i+1) - u_(i)) "
        "+ (1/n) Σ (1 - u_i) ln(1 - u_i) + 1/2.",
    ),
    Erratum(
        "Proposition 3, proof",
        "F stands for the survival function, and epsilon has the wrong sign.",
        "The empirical survival function is (n - i)/n between u_(i) and u_(i+1).",
    ),
    Erratum(
        "Algorithm 1",
        "It sorts inside its loop, and computes b from soft-sorted values.",
        "Sort once. The mean of (1 - u) ln(1 - u) needs no order, so raw values do.",
    ),
    Erratum(
        "Sorting",
        "Sorting is not differentiable, hence NeuralSort, with O(n²) time and memory.",
        "The sorted values are differentiable almost everywhere; the gradient is the "
        "permutation, and costs O(n log n).",
    ),
    Erratum(
        "Isotonic regression",
        "The argmin is over the wrong variable, and H stands for F once.",
        "It is over the increasing maps.",
    ),
    Erratum(
        "Calibration error",
        "(1/M) Σ (observed - p)², printed in %.",
        "The printed numbers are 100 times the sum, not the mean, over M = 20 levels: "
        "a mean of squares cannot be 121.60 %. M is not named; 20 fits the tables.",
    ),
    Erratum(
        "Moments of MC dropout",
        "mean = Σ m_i and variance = Σ s_i² + (1/T) Σ (s_i - mean)².",
        "mean = (1/T) Σ m_i and variance = (1/T) Σ s_i² + (1/T) Σ (m_i - mean)², where "
        "m_i and s_i are mean and standard deviation of pass i.",
    ),
    Erratum(
        "Data sets",
        "Numbers of input features.",
        "For 7 of the 10 sets the target is counted as a feature.",
    ),
    Erratum(
        "Splits",
        "5 splits.",
        "The tables fit 5 folds in file order without shuffling. Airfoil, concrete, "
        "yacht and Boston are sorted, so these are tests under shift. Boston with "
        "ensembles alone fits shuffled folds.",
    ),
    Erratum(
        "Tables 3 and 4",
        "Headings: two columns of calibration error, then two of recalibrated error.",
        "Each pair is before and after isotonic recalibration, for base and for QR.",
    ),
    Erratum(
        "Table 4, caption",
        "Base model is Dropout-VI.",
        "It is deep ensembles.",
    ),
)
