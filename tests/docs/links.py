"""Relative links of Markdown pages: which there are, and which lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_REFERENCE = re.compile(r"^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def broken_links(page: Path, root: Path) -> list[str]:
    """Every relative link of `page` that names a file, or a heading of one, that is not there (or not below `root`)."""
    text = _FENCE.sub("", page.read_text())
    prose = _CODE.sub("", text)
    targets = _LINK.findall(prose) + _REFERENCE.findall(prose)
    return [target for target in targets if not _ELSEWHERE.match(target) and not _resolves(target, page, root)]


def _resolves(target: str, page: Path, root: Path) -> bool:
    path, _, heading = target.partition("#")
    found = (page.parent / path).resolve() if path else page.resolve()
    if not found.exists() or not found.is_relative_to(root.resolve()):
        return False
    return not heading or (found.suffix == ".md" and heading in _headings(found))


def _headings(page: Path) -> set[str]:
    """The names under which a page's headings can be linked to, as GitHub makes them."""
    titles = _HEADING.findall(_FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
