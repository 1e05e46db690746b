"""What a pipeline raises, and the one sentence in what Spark raises."""

from __future__ import annotations

import re

# The last line of a Python traceback inside a Java exception: `package.module.Name: what happened`. Ours say most.
_LAST_LINES = (
    re.compile(r"^quorate\.[\w.]*?([A-Z]\w*): (.+)$"),
    re.compile(r"^(?:[a-z_]\w*\.)*([A-Z]\w*(?:Error|Exception)): (.+)$"),
)
_JAVA = ("org.apache.spark", "py4j.", "java.", "scala.")


class PipelineError(Exception):
    """The pipeline cannot go on; the text is for its user."""


def reason(error: BaseException) -> str:
    """What went wrong, without the stack of Python in Java in Python. The whole is in the driver's log."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for pattern in _LAST_LINES:
        found = [match for line in lines if not line.startswith(_JAVA) and (match := pattern.match(line))]
        if found:
            return found[-1][2] if found[-1][1] == "PipelineError" else f"{found[-1][1]}: {found[-1][2]}"
    return lines[0] if lines else type(error).__name__
