"""The ten data sets of the paper by name. No file is read here."""

from calibrant.data.info import DataSetInfo
from calibrant.registry import Table

__all__ = ["DATA_SETS"]

CC_BY = "CC BY 4.0"
UCI = "https://archive.ics.uci.edu/dataset"

_ENTRIES = (
    DataSetInfo(
        name="airfoil",
        title="Airfoil Self-Noise",
        rows=1503,
        features=5,
        target="scaled_sound_pressure_level",
        description=(
            "Sound of NACA 0012 airfoil blades in a wind tunnel, in decibels. Rows "
            "come in blocks, a sweep of frequencies for each configuration, so that "
            "unshuffled folds hold out whole configurations."
        ),
        license=CC_BY,
        citation=(
            "Brooks, T., Pope, D. and Marcolini, M. (1989). Airfoil Self-Noise. UCI "
            "Machine Learning Repository. https://doi.org/10.24432/C5VW2C"
        ),
        source=f"{UCI}/291/airfoil+self+noise",
        csv_sha256="283b701f82312f05e2d7b49c408d84a7a45a4501bdeaecc4462e7b05cf906ce4",
    ),
    DataSetInfo(
        name="boston",
        title="Boston housing",
        rows=506,
        features=13,
        target="medv",
        description=(
            "Median value of homes in 506 census tracts around Boston in 1970, in "
            "thousands of dollars, cut off at 50. Contested: column b is a function of "
            "the share of Black residents, made on the premise that racial "
            "self-segregation raises or lowers prices, and scikit-learn and UCI have "
            "withdrawn the set. It is here only because the paper uses it; do not "
            "build anything on it."
        ),
        license="no explicit license (StatLib, treated as public domain)",
        citation=(
            "Harrison, D. and Rubinfeld, D. L. (1978). Hedonic housing prices and the "
            "demand for clean air. Journal of Environmental Economics and Management, "
            "5(1), 81-102. https://doi.org/10.1016/0095-0696(78)90006-2"
        ),
        source="http://lib.stat.cmu.edu/datasets/boston",
        csv_sha256="24ec814c9b6c5bb1cae0f6d203636413195ade13a34b62920787599f63eefd7e",
    ),
    DataSetInfo(
        name="concrete",
        title="Concrete compressive strength",
        rows=1030,
        features=8,
        target="compressive_strength",
        description=(
            "Compressive strength of concrete in MPa, from its ingredients in kg per "
            "cubic meter and its age in days. 25 rows are repetitions of others."
        ),
        license=CC_BY,
        citation=(
            "Yeh, I.-C. (1998). Concrete Compressive Strength. UCI Machine Learning "
            "Repository. https://doi.org/10.24432/C5PK67"
        ),
        source=f"{UCI}/165/concrete+compressive+strength",
        csv_sha256="eb2a1f2a871cd01cbca7a96df487416fb6a1c3598bbda61687923e2207a9bc1b",
    ),
    DataSetInfo(
        name="fish",
        title="QSAR fish toxicity",
        rows=908,
        features=6,
        target="lc50",
        description=(
            "Toxicity of 908 chemicals to the fathead minnow, as the negative "
            "logarithm of the concentration that kills half of the fish (mol/L), "
            "from six molecular descriptors. One row is a repetition."
        ),
        license=CC_BY,
        citation=(
            "Ballabio, D., Cassotti, M., Consonni, V. and Todeschini, R. (2019). QSAR "
            "fish toxicity. UCI Machine Learning Repository. "
            "https://doi.org/10.24432/C5JG7B"
        ),
        source=f"{UCI}/504/qsar+fish+toxicity",
        csv_sha256="85c2c24a0df8d0b9d59d45ceacc2fcbe9f84cc75da6e07b96fa46a7106431795",
    ),
    DataSetInfo(
        name="kin8nm",
        title="kin8nm",
        rows=8192,
        features=8,
        target="y",
        description=(
            "Distance of the end of a simulated robot arm of eight links from a "
            "target, from the angles of the joints: highly nonlinear, medium noise. "
            "From the kin family of DELVE."
        ),
        license="public (DELVE; OpenML 189)",
        citation=(
            "Rasmussen, C. E., Neal, R. M., Hinton, G., van Camp, D., Revow, M., "
            "Ghahramani, Z., Kustra, R. and Tibshirani, R. (1996). Data for Evaluating "
            "Learning in Valid Experiments (DELVE), University of Toronto: the kin "
            "family."
        ),
        source="https://www.openml.org/d/189",
        csv_sha256="1577b2911398afa9382c8c853f0271350d734cd2087c2c6a7b992f8de8c117e4",
    ),
    DataSetInfo(
        name="protein",
        title="Protein tertiary structure",
        rows=45730,
        features=9,
        target="rmsd",
        description=(
            "Size of the residue of predicted protein structures (CASP 5 to 9), in "
            "angstroms, from nine physicochemical properties. 1,711 rows are "
            "repetitions of others."
        ),
        license=CC_BY,
        citation=(
            "Rana, P. (2013). Physicochemical Properties of Protein Tertiary "
            "Structure. UCI Machine Learning Repository. "
            "https://doi.org/10.24432/C5QW3H"
        ),
        source=(f"{UCI}/265/physicochemical+properties+of+protein+tertiary+structure"),
        csv_sha256="f5189c59ec7075c9b83f43a7ff510dae8bdf92d5bf00397a5f95b95047841638",
    ),
    *(
        DataSetInfo(
            name=f"{color}_wine",
            title=f"Wine quality, {color}",
            rows=rows,
            features=11,
            target="quality",
            description=(
                f"Grades of Portuguese {color} wines (vinho verde) by tasters, whole "
                f"numbers, from eleven chemical measurements. {repeated} rows are "
                "repetitions of others."
            ),
            license=CC_BY,
            citation=(
                "Cortez, P., Cerdeira, A., Almeida, F., Matos, T. and Reis, J. (2009). "
                "Wine Quality. UCI Machine Learning Repository. "
                "https://doi.org/10.24432/C56S3T"
            ),
            source=f"{UCI}/186/wine+quality",
            csv_sha256=sha256,
        )
        for color, rows, repeated, sha256 in (
            (
                "red",
                1599,
                240,
                "76bb397799995e9bdf3eafaefc25fbf74b0fbc3d278059eacd0daf6d440555f8",
            ),
            (
                "white",
                4898,
                937,
                "7fc083b18376b1d6e02e7d00b1a4e85979535e8cc8e2b8eb111fea44486ba8a3",
            ),
        )
    ),
    DataSetInfo(
        name="yacht",
        title="Yacht hydrodynamics",
        rows=308,
        features=6,
        target="residuary_resistance",
        description=(
            "Residuary resistance of sailing yachts, measured on models of 22 hulls at "
            "Delft. Rows come in sweeps of 14 Froude numbers for each hull, so that "
            "unshuffled folds hold out whole hulls."
        ),
        license=CC_BY,
        citation=(
            "Gerritsma, J., Onnink, R. and Versluis, A. (1981). Yacht Hydrodynamics. "
            "UCI Machine Learning Repository. https://doi.org/10.24432/C5XG7R"
        ),
        source=f"{UCI}/243/yacht+hydrodynamics",
        csv_sha256="a767e2387c0db312c9bfb039bfdef76ac1b22d821f71ea0a4f0a695e67dac0fd",
    ),
    DataSetInfo(
        name="year_msd",
        title="Year Prediction MSD",
        rows=515345,
        features=90,
        target="year",
        description=(
            "Year of release of songs, mostly western and commercial, from 12 means "
            "and 78 covariances of timbre. Not bundled: calibrant.data.fetch downloads "
            "it. The first 463,715 rows are for training and the last 51,630 for "
            "testing, so that no artist stands in both."
        ),
        license=CC_BY,
        citation=(
            "Bertin-Mahieux, T. (2011). Year Prediction MSD. UCI Machine Learning "
            "Repository. https://doi.org/10.24432/C50K61"
        ),
        source=f"{UCI}/203/yearpredictionmsd",
    ),
)


def _table() -> Table[DataSetInfo]:
    table: Table[DataSetInfo] = Table("data set", {})
    for entry in _ENTRIES:
        table[entry.name] = entry
    return table


#: Name to what is known of the set, in alphabetical order.
DATA_SETS = _table()
