"""Small files of a pipeline's own, in any file system that Spark can reach: who an output belongs to, and how far it is.

Through the driver's Hadoop classes, so that `hdfs://` and `s3a://` work like a local path. One writer at a time.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from pyspark.sql import SparkSession

from quorate.spark.pipelines.errors import PipelineError

OWN = "_quorate"
"""The folder for them inside an output. Readers of Parquet pass over names that begin with an underscore."""
_IDENTITY = "identity.json"


class Files:
    """The files below one folder."""

    def __init__(self, session: SparkSession, folder: str) -> None:
        self.folder = folder.rstrip("/") or "/"
        jvm: Any = session.sparkContext._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._read_all = jvm.org.apache.commons.io.IOUtils.toByteArray
        self._system = self._path(self.folder).getFileSystem(session.sparkContext._jsc.hadoopConfiguration())

    def at(self, name: str) -> str:
        return f"{self.folder}/{name}"

    def exists(self, name: str = "") -> bool:
        return bool(self._system.exists(self._path(self.at(name) if name else self.folder)))

    def names(self, name: str = "") -> list[str]:
        """What lies in a folder; nothing if there is no such folder."""
        if not self.exists(name):
            return []
        found = self._system.listStatus(self._path(self.at(name) if name else self.folder))
        return sorted(str(one.getPath().getName()) for one in found)

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON object; None if there is no such file."""
        if not self.exists(name):
            return None
        stream = self._system.open(self._path(self.at(name)))
        try:
            text = bytes(self._read_all(stream)).decode()
        finally:
            stream.close()
        try:
            said: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise PipelineError(f"{self.at(name)} is damaged: it holds no JSON") from error
        return said

    def write(self, name: str, value: dict[str, Any]) -> None:
        """Whole or not at all: written aside, then renamed."""
        aside = self._path(self.at(f"{name}.{uuid.uuid4().hex[:8]}.tmp"))
        stream = self._system.create(aside, True)
        try:
            stream.write(bytearray(json.dumps(value, sort_keys=True).encode()))
            stream.hsync()
        finally:
            stream.close()
        self.remove(name)
        if not self._system.rename(aside, self._path(self.at(name))):
            raise PipelineError(f"{self.at(name)} could not be written: the file system refused to rename it")

    def remove(self, name: str) -> None:
        self._system.delete(self._path(self.at(name)), False)


class Marks:
    """A number that only rises, as a file per value: there is always a whole one."""

    def __init__(self, files: Files, name: str) -> None:
        self._files = files
        self._name = name

    def last(self) -> int:
        """-1: none yet."""
        return max((int(name) for name in self._names()), default=-1)

    def put(self, number: int, value: dict[str, Any]) -> None:
        self._files.write(f"{self._name}/{number:010d}", value)
        for name in self._names():
            if int(name) < number:
                self._files.remove(f"{self._name}/{name}")

    def value(self) -> dict[str, Any]:
        """What was put with the last number."""
        last = self.last()
        return (self._files.read(f"{self._name}/{last:010d}") if last >= 0 else None) or {}

    def _names(self) -> list[str]:
        return [name for name in self._files.names(self._name) if name.isdigit()]


def belongs_together(checkpoint: Files, output: Files | None, kind: str) -> str:
    """The id that a checkpoint shares with its output; made for a new pair. Raises PipelineError if they do not match.

    Without the checkpoint that it was made with, an output would get everything a second time, and its batches, which are
    numbered from 0 on again, would replace those that it has. The id is also what a sink knows this run by: it dies with the
    checkpoint, so that a new one is never taken for the old one.
    """
    ours = checkpoint.read(_IDENTITY)
    theirs = output.read(f"{OWN}/{_IDENTITY}") if output is not None else None
    for found, where in ((ours, checkpoint.folder), (theirs, output.folder if output is not None else "")):
        if found is not None and found.get("kind") != kind:
            raise PipelineError(f"{where} belongs to another pipeline ({found.get('kind')}); name another folder")
    if ours is None and theirs is not None and output is not None and _has_data(output):
        raise PipelineError(
            f"{output.folder} was written with a checkpoint that is not at {checkpoint.folder}. Name that checkpoint, or a "
            "new folder: to go on without it would write messages a second time"
        )
    if ours is not None and output is not None and theirs is None and checkpoint.exists("commits"):
        raise PipelineError(
            f"the checkpoint {checkpoint.folder} was made with another output than {output.folder}, which would begin in "
            "the middle. Name that output, or a new checkpoint"
        )
    if ours is not None and theirs is not None and ours["id"] != theirs["id"]:
        raise PipelineError(
            f"the checkpoint {checkpoint.folder} was not made with the output that is in {output and output.folder}"
        )
    identity = ours or theirs or {"id": uuid.uuid4().hex, "kind": kind}
    if output is not None and theirs is None:
        output.write(f"{OWN}/{_IDENTITY}", identity)
    if ours is None:
        checkpoint.write(_IDENTITY, identity)
    return str(identity["id"])


def _has_data(output: Files) -> bool:
    return any(not name.startswith(("_", ".")) for name in output.names())
