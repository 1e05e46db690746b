"""The example on docs/kafka.md does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker.node.test_local_cluster import free_base, up

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kafka.md"


@pytest.mark.timeout(120)
def test_the_example_works_as_it_stands(tmp_path: Path) -> None:
    [example] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    with up(tmp_path / "c", free_base(3), 3) as cluster:
        address = cluster["bootstrap"].split(",")[0]
        program = example.replace("127.0.0.1:9092", address)
        assert address in program
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert ended.stdout == "b'hello'\n", ended.stderr
