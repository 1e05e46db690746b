"""The package as a zip file, for `spark-submit --py-files`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

_PARTS = (
    "broker/__init__.py",
    "broker/protocol",
    "client",
    "consensus/__init__.py",
    "consensus/batch",
    "consensus/core",
    "spark",
)
"""What a Spark program imports, and no more: no node runs in there."""


def write_package(path: Path) -> int:
    """Write it; how many files it has. The same code gives the same bytes."""
    # The package's folder, by which all its parts can be reached; a part's own folder is only linked there.
    root = Path(__file__).parents[2]
    files = sorted(_files(root))
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for file in files:
            package.writestr(zipfile.ZipInfo(f"quorate/{file.relative_to(root)}"), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return len(files)


def _files(root: Path) -> Iterator[Path]:
    yield from root.glob("*.py")
    for part in _PARTS:
        found = root / part
        yield from [found] if found.is_file() else found.rglob("*.py")
