"""A home for Spark whose Python processes start in half the time.

Spark gives a Python process 10 s to start and to call back, which cannot be set. It lets them import pyspark from a zip file
without compiled modules: most of a second of work, and on a busy machine more than 10 s. In this home there is no such file,
and the installed pyspark is found instead.
"""

from __future__ import annotations

from pathlib import Path

import pyspark


def spark_home(folder: Path) -> str:
    """A folder like pyspark's own, without its `python`. For the environment's SPARK_HOME, before Java starts."""
    home = folder / "spark-home"
    if not home.exists():
        home.mkdir(parents=True)
        for part in ("bin", "jars", "sbin"):
            (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    return str(home)
