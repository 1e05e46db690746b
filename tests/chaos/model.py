"""A model of a right system that tells histories: producers, readers, committers and an honest log, in random order."""

from __future__ import annotations

import itertools
from random import Random

from quorate.chaos.history import Action, History, Record, Recorder

TOPIC, PARTITIONS, NODES = "t", 2, (1, 2, 3)


class Model:
    """Each step is one event of one process. Operations overlap, and some are never answered."""

    def __init__(self, random: Random) -> None:
        ticks = itertools.count(0, 50_000_000)
        self.recorder = Recorder(clock=lambda: next(ticks))
        self._random = random
        self._logs: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        self._ends = [0] * PARTITIONS
        self._stamp = 1_000
        self._waiting: list[tuple[int, int, str]] = []
        self._late: list[tuple[int, str]] = []
        """Produced, given up by their clients, and perhaps still to be appended."""
        self._positions: dict[tuple[str, int], int] = {}
        self._commit: dict[int, int] = {}
        self._values = itertools.count()

    def tell(self, steps: int) -> History:
        """So many steps, and the end."""
        moves = (
            self._send,
            self._send,
            self._answer,
            self._answer,
            self._read,
            self._latest,
            self._group,
            self._append_late,
        )
        for _ in range(steps):
            self._random.choice(moves)()
        self._finish()
        return self.recorder.snapshot()

    def _send(self) -> None:
        partition, value = self._random.randrange(PARTITIONS), f"v{next(self._values)}"
        number = self.recorder.invoke("p", Action.PRODUCE, topic=TOPIC, partition=partition, value=value, once=True)
        self._waiting.append((number, partition, value))

    def _answer(self) -> None:
        if not self._waiting:
            return
        number, partition, value = self._waiting.pop(self._random.randrange(len(self._waiting)))
        fate = self._random.choice(("ok", "ok", "ok", "info-there", "info-late", "fail"))
        if fate == "fail":
            self.recorder.fail(number, "NOT_ENOUGH_REPLICAS")
        elif fate == "info-late":
            self._late.append((partition, value))
            self.recorder.info(number, "timed out")
        else:
            offset = self._append(partition, value)
            if fate == "ok":
                self.recorder.ok(number, offset=offset)
            else:
                self.recorder.info(number, "timed out")

    def _append_late(self) -> None:
        if self._late:
            self._append(*self._late.pop(0))

    def _append(self, partition: int, value: str) -> int:
        if self._random.random() < 0.1:
            self._ends[partition] += 1  # a control batch
        self._stamp += self._random.choice((0, 1, 7))
        offset = self._ends[partition]
        self._ends[partition] += 1
        self._logs[partition].append(Record(offset, value, self._stamp))
        return offset

    def _read(self) -> None:
        process, partition = self._random.choice(("r1", "r2", "m1")), self._random.randrange(PARTITIONS)
        at = self._positions.get((process, partition), 0)
        records = [one for one in self._logs[partition] if one.offset >= at][: self._random.randint(1, 5)]
        group = "readers" if process == "m1" else ""
        number = self.recorder.invoke(process, Action.READ, topic=TOPIC, partition=partition, offset=at, group=group)
        if records:
            self._positions[process, partition] = records[-1].offset + 1
        self.recorder.ok(number, records=records)

    def _latest(self) -> None:
        partition = self._random.randrange(PARTITIONS)
        number = self.recorder.invoke("r1", Action.LATEST, topic=TOPIC, partition=partition, node=1)
        self.recorder.ok(number, offset=self._ends[partition])

    def _group(self) -> None:
        partition = self._random.randrange(PARTITIONS)
        what = {"topic": TOPIC, "partition": partition, "group": "readers"}
        if self._random.random() < 0.5:
            number = self.recorder.invoke("m1", Action.COMMITTED, **what)
            self.recorder.ok(number, offset=self._commit.get(partition, -1))
            return
        offset = self._positions.get(("m1", partition), 0)
        number = self.recorder.invoke("m1", Action.COMMIT, **what, offset=offset)
        fate = self._random.choice(("ok", "ok", "info", "fail"))
        if fate == "fail":
            self.recorder.fail(number, "ILLEGAL_GENERATION")
            return
        if fate == "ok" or self._random.random() < 0.5:
            self._commit[partition] = offset
        if fate == "ok":
            self.recorder.ok(number)
        else:
            self.recorder.info(number, "timed out")

    def _finish(self) -> None:
        for partition, log in enumerate(self._logs):
            number = self.recorder.invoke("end", Action.FINAL, topic=TOPIC, partition=partition)
            self.recorder.ok(number, records=log, offset=self._ends[partition])
            for node in NODES:
                commit = self._ends[partition] - 1 - (self._random.randint(0, 2) if log else 0)
                number = self.recorder.invoke("end", Action.REPLICA, topic=TOPIC, partition=partition, node=node)
                batches = [(one.offset, f"digest of {one.value}", one.offset) for one in log]
                self.recorder.ok(number, records=batches, offset=commit)
