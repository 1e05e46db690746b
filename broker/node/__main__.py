"""`python -m quorate.broker.node FILE`: one node, as `quorate up` starts it."""

import sys
from pathlib import Path

from quorate.broker.node import toml
from quorate.broker.node.process import run_node

if __name__ == "__main__":
    sys.exit(run_node(toml.load(Path(sys.argv[1]))))
