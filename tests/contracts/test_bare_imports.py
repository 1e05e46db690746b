"""A folder is imported as `quorate.<folder>` only: ruff refuses the bare name, and relative imports with it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("broker", "consensus", "client", "spark", "chaos", "cli")
RUFF_CHECK = (sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise")
DEADLINE_S = 60


def complaints(code: str, filename: str) -> str:
    """What ruff says about a piece of code that would lie in the given file of this repository."""
    done = subprocess.run(
        [*RUFF_CHECK, "--stdin-filename", filename, "-"],
        cwd=ROOT,
        input=code,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(
    "code",
    [
        "import {0}\n\nprint({0})\n",
        "import {0}.inner\n\nprint({0})\n",
        "from {0} import inner\n\nprint(inner)\n",
        "from {0}.inner import thing\n\nprint(thing)\n",
        "import {0} as other\n\nprint(other)\n",
    ],
)
def test_a_bare_import_is_refused(folder: str, code: str) -> None:
    said = complaints(code.format(folder), "cli/example.py")
    assert "TID251" in said
    assert f"import quorate.{folder}" in said


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_full_name_is_fine(folder: str) -> None:
    code = f"import quorate.{folder}\nfrom quorate.{folder} import inner\n\nprint(quorate, inner)\n"
    assert "TID" not in complaints(code, "tests/example.py")


@pytest.mark.parametrize("line", ["from . import inner", "from .inner import thing", "from ..broker import thing"])
def test_a_relative_import_is_refused(line: str) -> None:
    assert "TID252" in complaints(f"{line}\n", "cli/example.py")


def test_the_package_has_one_relative_link_per_folder() -> None:
    links = {path.name: str(path.readlink()) for path in (ROOT / "quorate").iterdir() if path.is_symlink()}
    assert links == {folder: f"../{folder}" for folder in FOLDERS}
