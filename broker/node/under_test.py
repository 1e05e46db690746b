"""`python -m quorate.broker.node.under_test FILE --insecure-test-mode ...`: a node with a wrong clock or a planted bug.

Chaos tests start nodes like this. No other code imports this module, and no setting of a node leads here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from quorate.broker.node import toml
from quorate.broker.node.parts import Parts, system_time
from quorate.broker.node.process import run_node
from quorate.broker.node.sabotage import MODES
from quorate.consensus.clock.shifted import ShiftedTime

SWITCH = "--insecure-test-mode"
SABOTAGES = tuple(MODES)
"""The bugs that can be planted."""


def main(arguments: Sequence[str]) -> int:
    """Run the node; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m quorate.broker.node.under_test", description=__doc__)
    parser.add_argument("file", type=Path, help="the node's TOML file")
    parser.add_argument(SWITCH, action="store_true", help="say that this node may lose data; nothing runs without it")
    parser.add_argument("--clock", type=Path, metavar="FILE", help="shift the wall clock as this file says")
    parser.add_argument("--sabotage", choices=SABOTAGES, help="plant a bug")
    said = parser.parse_args(arguments)
    if not said.insecure_test_mode:
        parser.error(f"a node under test may lose data: say {SWITCH} if that is meant")
    settings = toml.load(said.file)
    time = system_time(settings)
    parts = replace(MODES[said.sabotage] if said.sabotage else Parts(), time=time)
    if said.clock:
        parts = replace(parts, time=ShiftedTime(said.clock, time))
    if said.sabotage:
        print(f"sabotage: {said.sabotage}", file=sys.stderr, flush=True)
    return run_node(settings, parts=parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
