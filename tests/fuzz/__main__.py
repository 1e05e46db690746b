"""`python -m tests.fuzz batch [libFuzzer options]`: fuzz a target with atheris, beginning from its corpus.

For example `python -m tests.fuzz batch -max_total_time=300`. What is found new is kept in .fuzz/batch/, a crash in
.fuzz/batch.crash-*; neither is in the repository. A crash is worth a file in the corpus, and a test.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import atheris

from tests.fuzz.targets import TARGETS, target

HERE = Path(__file__).parent


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        raise SystemExit(f"usage: python -m tests.fuzz {{{','.join(TARGETS)}}} [libFuzzer options]")
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=["quorate"]):
        fuzzed = target(name)
    new = HERE.parents[1] / ".fuzz" / name
    new.mkdir(parents=True, exist_ok=True)
    # The first folder is the one that libFuzzer writes to.
    arguments = [
        sys.argv[0],
        *options,
        "-max_len=4096",
        f"-artifact_prefix={new}.",
        str(new),
        str(HERE / "corpus" / name),
    ]
    logging.disable(logging.CRITICAL)
    atheris.Setup(arguments, fuzzed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
