"""Spark's own Kafka connector, by Maven: of the installed Spark's version if it can be had, or else an older one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.peers.api import NotHere
from bench.peers.maven import Library, jars

_OLDER = ("4.2.0", "4.1.2", "4.1.1", "4.0.3", "4.0.0")
_TOKENS = ("4.0.0",)
"""Its part for Kerberos tokens, which a plain listener never asks: any version of it will do."""
_BESIDE = (
    Library("org.apache.kafka", "kafka-clients", "3.9.1"),
    Library("org.apache.commons", "commons-pool2", "2.12.1"),
    Library("org.scala-lang.modules", "scala-parallel-collections_2.13", "1.2.0"),
)


@dataclass(frozen=True, kw_only=True)
class Connector:
    """The connector's version, and its jars."""

    version: str
    paths: tuple[Path, ...]


def fetch(spark: str) -> Connector:
    """For this version of Spark. Raises NotHere, with what Maven said about the first wish."""
    refused: NotHere | None = None
    for version in (spark, *(older for older in _OLDER if older != spark)):
        for tokens in (version, *(one for one in _TOKENS if one != version)):
            try:
                return Connector(version=version, paths=jars(_libraries(version, tokens), alone=True))
            except NotHere as missing:
                refused = refused or missing
    assert refused is not None
    raise refused


def _libraries(version: str, tokens: str) -> tuple[Library, ...]:
    return (
        Library("org.apache.spark", "spark-sql-kafka-0-10_2.13", version),
        Library("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", tokens),
        *_BESIDE,
    )
