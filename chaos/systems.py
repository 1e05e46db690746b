"""Which systems there are to break, and which nemeses: found when they are asked for, because they need extras."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from quorate.broker.node.under_test import SABOTAGES
from quorate.chaos.api import System
from quorate.chaos.runner import MakeNemesis


class Missing(RuntimeError):
    """A part of chaos that cannot be used here. The text says what to install."""


def local_cluster(folder: Path, nodes: int, sabotage: str | None = None, *, faketime: bool = False) -> System:
    """A cluster of its own, one process per node, every link through toxiproxy. Raises Missing, and ValueError.

    With `sabotage` its nodes have a planted bug: for tests of chaos itself.
    """
    if sabotage is not None and sabotage not in SABOTAGES:
        raise ValueError(f"there is no bug {sabotage!r} to plant; there are {', '.join(SABOTAGES)}")
    module = _part("cluster")
    options = module.ClusterOptions(nodes=nodes, sabotage=sabotage, faketime=faketime)
    system: System = module.ClusterUnderTest(folder, options)
    return system


def running_cluster(bootstrap: str, folder: Path) -> System:
    """A cluster that runs already. Raises Missing."""
    system: System = _part("against").RunningCluster(bootstrap, folder)
    return system


def nemesis_maker() -> MakeNemesis:
    """What makes a nemesis from names and a seed. Raises Missing."""
    make: MakeNemesis = _part("nemesis").make_nemesis
    return make


def nemeses() -> dict[str, str]:
    """Every nemesis with a line about it; nothing where faults are not installed."""
    try:
        module = _part("nemesis")
    except Missing:
        return {}
    return {name: _summary(module.NEMESES.get(name)) for name in module.NAMES}


def _summary(faults: Sequence[object] | None) -> str:
    """What the faults of a nemesis say of themselves, each in its first sentence."""
    if faults is None:
        return "all of them, in turn"
    if not faults:
        return "nothing breaks"
    return " ".join((type(fault).__doc__ or "").split(". ")[0].split("\n")[0].rstrip(".") + "." for fault in faults)


def _part(name: str) -> Any:
    try:
        return import_module(f"quorate.chaos.{name}")
    except ImportError as error:
        raise Missing(f"faults cannot be used here: {error}. Try `pip install 'quorate[chaos]'`") from error
