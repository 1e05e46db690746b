"""The wheel as a user gets it: built from a copy of the tree, installed in an empty venv, every module imported.

The copy keeps build leftovers out of the repository.
"""

import configparser
import os
import shutil
import stat
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("broker", "consensus", "client", "spark", "chaos", "cli")
COPIED = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "quorate", "pyspark_quorate", *FOLDERS)
DEADLINE_S = 240

# Dependencies may have to be downloaded on a fresh machine. One worker runs them all, so the wheel is built once.
pytestmark = [pytest.mark.timeout(2 * DEADLINE_S), pytest.mark.xdist_group("wheel")]

IMPORT_EVERYTHING = """
import importlib, sys, quorate

print(quorate.__file__)
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        print(name)
    except ModuleNotFoundError as missing:
        print(name, missing.name.partition(".")[0])
"""
EXTRAS = {"quorate.chaos": {"confluent_kafka", "toxiproxy"}, "quorate.spark": {"numpy", "pyarrow", "pyspark"}}
"""What these need beyond the package's own dependencies; nothing else may need more."""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside the repository's reach; fail with everything it said."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def version() -> str:
    """The version that setup.cfg states."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "setup.cfg")
    return settings["metadata"]["version"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built in isolation from a copy of what it is made of."""
    source = tmp_path_factory.mktemp("source")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", out, source, cwd=source)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An otherwise empty venv that the wheel and its dependencies are installed in; its bin folder."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    # The pip of the test environment installs into the empty one, which saves making a pip for it.
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-warn-script-location", wheel, cwd=home)
    return home / "bin"


def modules_in_the_tree() -> set[str]:
    """Every module below quorate, by name, as the repository holds it."""
    names = set()
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            parts = file.relative_to(ROOT).with_suffix("").parts
            names.add(".".join(("quorate", *parts)).removesuffix(".__init__"))
    return names


def test_the_wheel_holds_the_package_and_nothing_beside_it(wheel: Path, version: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert tops == {"quorate", "pyspark_quorate", f"quorate-{version}.dist-info"}


def test_the_wheel_holds_files_and_no_links(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        links = [entry.filename for entry in archive.infolist() if stat.S_ISLNK(entry.external_attr >> 16)]
        assert links == []
        assert archive.read("quorate/cli/main.py") == (ROOT / "cli" / "main.py").read_bytes()


def test_the_wheel_says_that_it_is_typed_and_brings_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "quorate/py.typed" in names
    assert any(name.endswith("/LICENSE") for name in names)


def test_every_module_imports_from_the_installed_wheel(installed: Path) -> None:
    names = sorted(modules_in_the_tree())
    where, *said = run(installed / "python", "-I", "-c", IMPORT_EVERYTHING, *names, cwd=installed).splitlines()
    assert Path(where).is_relative_to(installed.parent)
    assert [one.partition(" ")[0] for one in said] == names
    for name, missing in (one.split() for one in said if " " in one):
        assert missing in EXTRAS.get(".".join(name.split(".")[:2]), set()), f"{name} cannot do without {missing}"


def test_the_command_runs(installed: Path, version: str) -> None:
    assert run(installed / "quorate", "--version", cwd=installed).strip() == f"quorate, version {version}"
    said = run(installed / "quorate", "info", cwd=installed)
    assert "broker" in said
    assert "make test" not in said  # there is no Makefile beside an installed package
