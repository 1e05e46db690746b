"""The import contracts of setup.cfg hold on the real tree, and each of them can fail.

To show the second, a skeleton of the repository is built with the same folders, links and contracts, one offending
import is planted in it, and exactly the contract that guards against it has to break.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("broker", "consensus", "client", "spark", "chaos", "cli")
DEADLINE_S = 60

# The names in setup.cfg, by what a test calls them.
CORE = "consensus.core imports the standard library only, and no I/O"
CONSENSUS = "consensus imports none of the parts above it"
BROKER = "broker imports consensus, and none of the parts above it"
CLIENT = "client imports broker.protocol and no other part"
SPARK = "spark imports client and no other part"
CHAOS = "chaos imports any part but cli"
ALL = {CORE, CONSENSUS, BROKER, CLIENT, SPARK, CHAOS}

# Written out a second time on purpose: dropping a name from setup.cfg makes a test fail.
# fmt: off
FORBIDDEN_IN_CORE = (
    "_thread", "asyncio", "concurrent", "ctypes", "datetime", "importlib", "io", "logging", "mmap", "multiprocessing",
    "os", "pathlib", "posix", "random", "runpy", "sched", "secrets", "select", "selectors", "shutil", "signal",
    "socket", "socketserver", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "uuid",
)
# fmt: on


def lint_imports(root: Path) -> dict[str, bool]:
    """Run lint-imports in a folder; return for each contract whether it was kept."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "200", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    verdicts = dict(re.findall(r"^(.+?) (KEPT|BROKEN)\b", done.stdout, re.MULTILINE))
    assert set(verdicts) == ALL, done.stdout + done.stderr
    kept = {name: verdict == "KEPT" for name, verdict in verdicts.items()}
    assert (done.returncode == 0) == all(kept.values()), done.stdout + done.stderr
    return kept


def broken(root: Path) -> set[str]:
    return {name for name, kept in lint_imports(root).items() if not kept}


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    """Folders, links and contracts as in the repository, with no code in them."""
    shutil.copy(ROOT / "setup.cfg", tmp_path)
    shutil.copytree(ROOT / "tests" / "contracts", tmp_path / "tests" / "contracts")
    plant(tmp_path, "tests/__init__.py", "")
    plant(tmp_path, "quorate/__init__.py", "")
    for folder in FOLDERS:
        plant(tmp_path, f"{folder}/__init__.py", "")
        (tmp_path / "quorate" / folder).symlink_to(f"../{folder}")
    for package in ("broker/protocol", "broker/manager", "consensus/core"):
        plant(tmp_path, f"{package}/__init__.py", "")
    return tmp_path


def plant(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_all_contracts_hold_on_the_real_tree() -> None:
    assert broken(ROOT) == set()


def test_what_is_allowed_breaks_nothing(skeleton: Path) -> None:
    plant(skeleton, "consensus/core/log.py", "import struct\nfrom collections.abc import Mapping\n")
    plant(skeleton, "consensus/core/raft.py", "from quorate.consensus.core.log import Mapping\n")
    plant(skeleton, "consensus/runtime.py", "import asyncio\nimport time\nfrom quorate.consensus.core import raft\n")
    plant(skeleton, "broker/protocol/wire.py", "import struct\n")
    plant(skeleton, "broker/node.py", "from quorate.consensus import runtime\nimport quorate.broker.protocol.wire\n")
    plant(skeleton, "client/api.py", "import asyncio\nfrom quorate.broker.protocol import wire\nimport rich\n")
    plant(skeleton, "spark/source.py", "from quorate.client import api\n")
    plant(skeleton, "chaos/run.py", "from quorate import broker, client, consensus, spark\n")
    plant(skeleton, "cli/main.py", "from quorate import broker, chaos, client, consensus, spark\n")
    assert broken(skeleton) == set()


@pytest.mark.parametrize(
    ("file", "line", "expected"),
    [
        ("consensus/bad.py", "import quorate.broker", {CONSENSUS}),
        ("consensus/bad.py", "from quorate.broker.protocol import wire", {CONSENSUS}),
        ("consensus/bad.py", "from quorate import client", {CONSENSUS}),
        ("consensus/bad.py", "from quorate import spark", {CONSENSUS}),
        ("consensus/bad.py", "from quorate import chaos", {CONSENSUS}),
        ("consensus/bad.py", "from quorate import cli", {CONSENSUS}),
        ("broker/manager/bad.py", "from quorate import client", {BROKER}),
        ("broker/bad.py", "from quorate import spark", {BROKER}),
        ("broker/bad.py", "def late():\n    from quorate import chaos", {BROKER}),
        ("broker/bad.py", "from quorate import cli", {BROKER}),
        ("client/bad.py", "from quorate import broker", {CLIENT}),
        ("client/bad.py", "from quorate.broker import manager", {CLIENT}),
        ("client/bad.py", "import quorate.consensus", {CLIENT}),
        ("client/bad.py", "from quorate.consensus import core", {CLIENT}),
        ("client/bad.py", "from quorate import spark", {CLIENT}),
        ("client/bad.py", "from quorate import chaos", {CLIENT}),
        ("client/bad.py", "from quorate import cli", {CLIENT}),
        ("spark/bad.py", "from quorate.broker import protocol", {SPARK}),
        ("spark/bad.py", "from quorate import consensus", {SPARK}),
        ("spark/bad.py", "from quorate import chaos", {SPARK}),
        ("spark/bad.py", "from quorate import cli", {SPARK}),
        ("chaos/bad.py", "from quorate import cli", {CHAOS}),
        ("consensus/core/bad.py", "import quorate.consensus", {CORE}),
        ("consensus/core/bad.py", "import quorate", {CORE}),
        ("consensus/core/bad.py", "from quorate import broker", {CORE, CONSENSUS}),
        ("consensus/core/bad.py", "import click", {CORE}),
        ("consensus/core/deeper/bad.py", "import msgspec", {CORE}),
        ("consensus/core/bad.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import random", {CORE}),
    ],
)
def test_an_offending_import_breaks_its_contract(skeleton: Path, file: str, line: str, expected: set[str]) -> None:
    if "deeper" in file:
        plant(skeleton, "consensus/core/deeper/__init__.py", "")
    plant(skeleton, "broker/protocol/wire.py", "")
    plant(skeleton, file, f"{line}\n")
    assert broken(skeleton) == expected


def test_a_chain_of_imports_breaks_the_contract_too(skeleton: Path) -> None:
    plant(skeleton, "quorate/between.py", "from quorate import broker\n")
    plant(skeleton, "consensus/bad.py", "from quorate import between\n")
    assert broken(skeleton) == {CONSENSUS}


@pytest.mark.parametrize("module", FORBIDDEN_IN_CORE)
def test_the_core_may_not_import(skeleton: Path, module: str) -> None:
    plant(skeleton, "consensus/core/bad.py", f"import {module}\n")
    assert broken(skeleton) == {CORE}


def test_a_module_inside_a_forbidden_one_is_forbidden_too(skeleton: Path) -> None:
    plant(skeleton, "consensus/core/bad.py", "from concurrent.futures import Future\nfrom os import path\n")
    assert broken(skeleton) == {CORE}
