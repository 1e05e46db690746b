"""Ports for clusters under test: never given twice, not even to two runs on one machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorate.chaos.ports import Ports


def test_two_runs_never_get_the_same_port(tmp_path: Path) -> None:
    """Nobody listens on any of them: so it is while the nodes of a run are down."""
    one, other = Ports(tmp_path), Ports(tmp_path)
    try:
        given = [ports.take() for _ in range(300) for ports in (one, other)]
        assert len(set(given)) == len(given)
    finally:
        one.close()
        other.close()


def test_blocks_of_ports_are_given_back(tmp_path: Path) -> None:
    held = [Ports(tmp_path) for _ in range(80)]
    for ports in held:
        ports.take()
    late = Ports(tmp_path)
    with pytest.raises(OSError, match="no free port"):
        late.take()
    held.pop().close()
    assert late.take() > 0
    for ports in (late, *held):
        ports.close()
