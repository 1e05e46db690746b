"""The end of a run: every partition read whole from its leader, up to a last message that proves that it leads.

A leader that was deposed and does not know it yet would give an old log. So a message is written first; the leader that
acknowledges it has a majority behind it, and everything up to that message is the committed log.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence

from quorate.chaos.api import System
from quorate.chaos.clients.outcome import produce_failed
from quorate.chaos.clients.raw import Cluster, NodeClient, Refused, Unanswered, Unreached
from quorate.chaos.history import Action, Place, Record, Recorder

PATIENCE_S = 90.0
_AGAIN_S = 0.3
_ASK_S = 10.0
_PROCESS = "end"


class Finisher:
    """Reads from a system that has been healed."""

    def __init__(self, system: System, recorder: Recorder) -> None:
        self._recorder = recorder
        self.clients = {node: NodeClient(one.kafka, timeout_s=_ASK_S) for node, one in system.nodes.items()}
        self._leaders: dict[str, NodeClient] = {}
        self._numbers = itertools.count()

    def close(self) -> None:
        for client in (*self.clients.values(), *self._leaders.values()):
            client.close()

    def _client(self, address: str) -> NodeClient:
        """By the address that the cluster gives: a running one is known by that alone."""
        return self._leaders.setdefault(address, NodeClient(address, timeout_s=_ASK_S))

    async def metadata(self) -> Cluster:
        """From whichever node answers first. Raises TimeoutError."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for client in self.clients.values():
                try:
                    return await client.metadata()
                except (Refused, Unreached, Unanswered) as error:
                    last = error
            if time.monotonic() > deadline:
                raise TimeoutError(f"no node answers: {last}")
            await asyncio.sleep(_AGAIN_S)

    async def read_all(self, places: Sequence[Place]) -> None:
        """A final read of every partition. One that cannot be read is recorded as such."""
        for place in places:
            number = self._recorder.invoke(_PROCESS, Action.FINAL, topic=place.topic, partition=place.partition)
            try:
                records, end = await self._read(place)
            except TimeoutError as error:
                self._recorder.info(number, str(error))
            else:
                self._recorder.ok(number, records=records, offset=end)

    async def _read(self, place: Place) -> tuple[list[Record], int]:
        deadline = time.monotonic() + PATIENCE_S
        last: Exception | None = None
        while time.monotonic() < deadline:
            try:
                cluster = await self.metadata()
                leader = cluster.topics.get(place.topic, {}).get(place.partition)
                if leader is not None and leader.node in cluster.nodes:
                    client = self._client(cluster.nodes[leader.node])
                    end = await self._prove(client, place) + 1
                    return await self._read_to(client, place, end), end
            except (Refused, Unreached, Unanswered) as error:
                last = error
            await asyncio.sleep(_AGAIN_S)
        raise TimeoutError(f"{place} could not be read within {PATIENCE_S:.0f} s: {last or 'nobody leads it'}")

    async def _prove(self, client: NodeClient, place: Place) -> int:
        value = f"{_PROCESS}-{next(self._numbers)}"
        what = {"topic": place.topic, "partition": place.partition, "value": value, "once": True}
        number = self._recorder.invoke(_PROCESS, Action.PRODUCE, **what)
        try:
            offset = await client.produce(place, value)
        except Refused as error:
            (self._recorder.fail if produce_failed(error.code) else self._recorder.info)(number, str(error))
            raise
        except Unreached as error:
            self._recorder.fail(number, str(error))
            raise
        except Unanswered as error:
            self._recorder.info(number, str(error))
            raise
        self._recorder.ok(number, offset=offset)
        return offset

    async def _read_to(self, client: NodeClient, place: Place, end: int) -> list[Record]:
        records: list[Record] = []
        at, deadline = 0, time.monotonic() + PATIENCE_S
        while at < end:
            fetched = await client.fetch(place, at)
            records += fetched.records
            at = fetched.next_offset
            if time.monotonic() > deadline:
                raise Unanswered(f"{place} has no message at {at}, and ends at {end}")
        return [record for record in records if record.offset < end]
