"""The code of docs/client.md, block after block, against a cluster of real processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.node_processes import Nodes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "client.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(300)
def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    with Nodes(tmp_path) as nodes:
        for text in BLOCKS:
            text = re.sub(r'^BOOTSTRAP = ".*"$', f'BOOTSTRAP = "{nodes.bootstrap}"', text, flags=re.MULTILINE)
            exec(compile(text, str(PAGE), "exec"), names)
    assert names["values"] == [b"apples", b"pears", b"plums"]


def test_there_is_code_on_the_page() -> None:
    assert len(BLOCKS) == 5
