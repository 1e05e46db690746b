"""What the figures were measured on: a figure without its machine says little."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The computer and the interpreter."""

    cpu: str
    cores: int
    load: float
    """The load average of the last minute when the run began: well above 0 means that others were at work."""
    system: str
    python: str


def describe(cpuinfo: Path = Path("/proc/cpuinfo")) -> Machine:
    """This machine, now."""
    return Machine(
        cpu=_cpu_model(cpuinfo),
        cores=os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 2),
        system=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
    )


def _cpu_model(cpuinfo: Path) -> str:
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
