"""Java libraries by Maven: a small project in the user's cache folder, whose dependencies Maven copies beside it, once."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.peers.api import NotHere

KAFKA_VERSION = "3.9.0"
_FETCH_S = 600.0

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>quorate.bench</groupId>
  <artifactId>peer</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>{0.group}</groupId><artifactId>{0.artifact}</artifactId><version>{0.version}</version>{1}
    </dependency>"""
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


@dataclass(frozen=True)
class Library:
    """What Maven calls coordinates."""

    group: str
    artifact: str
    version: str


def kafka(version: str = KAFKA_VERSION) -> tuple[Library, ...]:
    """Kafka of this version, its tools among it."""
    return Library("org.apache.kafka", "kafka_2.13", version), Library("org.apache.kafka", "kafka-tools", version)


def cache_folder() -> Path:
    """Where fetched things are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quorate"


def java() -> str:
    """The path of `java`. Raises NotHere."""
    path = shutil.which("java")
    if path is None:
        raise NotHere("there is no `java` here (on Debian and Ubuntu: sudo apt install default-jre-headless)")
    return path


def classpath(libraries: tuple[Library, ...]) -> str:
    """A Java class path with these libraries and all that they need at run time. Raises NotHere."""
    return f"{_fetched(libraries, alone=False)}/*"


def jars(libraries: tuple[Library, ...], *, alone: bool) -> tuple[Path, ...]:
    """The files of these libraries, `alone` without what they need: then the list must be complete. Raises NotHere."""
    return tuple(sorted(_fetched(libraries, alone=alone).glob("*.jar")))


def _fetched(libraries: tuple[Library, ...], *, alone: bool) -> Path:
    """The folder of the jars."""
    java()
    name = "+".join(f"{library.artifact}-{library.version}" for library in libraries[:2])
    folder = cache_folder() / name
    if not (folder / "complete").exists():
        _fetch(folder, libraries, alone=alone)
    return folder / "jars"


def _fetch(folder: Path, libraries: tuple[Library, ...], *, alone: bool) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NotHere("there is no `mvn` here to fetch it with (on Debian and Ubuntu: sudo apt install maven)")
    folder.mkdir(parents=True, exist_ok=True)
    pom = folder / "pom.xml"
    pom.write_text(
        _POM.format(dependencies="\n".join(_DEPENDENCY.format(library, _ALONE if alone else "") for library in libraries))
    )
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"]
    try:
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), *goal], capture_output=True, text=True, timeout=_FETCH_S, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise NotHere(f"Maven did not fetch it within {_FETCH_S:.0f} s") from late
    if done.returncode != 0:
        said = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr.strip() or "no reason given")
        raise NotHere(f"Maven could not fetch it: {said[:300]}")
    (folder / "complete").touch()
