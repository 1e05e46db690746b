"""One client for each process and cluster. Spark makes a reader anew for every task, and keeps its worker processes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Protocol

from quorate.client import Client, ClientSettings, Closed, Fetched, FoundOffset, TopicInfo, TopicPartition


class Cluster(Protocol):
    """What planning asks of a cluster: a `Client`, or a fake one in tests."""

    def topics(self, names: Collection[str] | None = None) -> dict[str, TopicInfo]:
        """See Client."""
        ...

    def offsets(self, wishes: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        """See Client."""
        ...

    def closed_time(
        self, parts: Collection[TopicPartition], *, at_least: int = -1, max_wait_ms: int = 0
    ) -> dict[TopicPartition, Closed]:
        """See Client."""
        ...

    def fetch(self, part: TopicPartition, offset: int, *, max_bytes: int) -> Fetched:
        """See Client."""
        ...

    def commit_group_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """See Client."""
        ...


# The only state of a module here: a connection for each of thousands of tasks would cost more than many of them do.
_clients: dict[tuple[int, ClientSettings], Client] = {}


def shared_client(settings: ClientSettings) -> Client:
    """This process's client of that cluster. It lives as long as the process does."""
    here = (os.getpid(), settings)
    client = _clients.get(here)
    if client is None:
        # After a fork the parent's are of no use; theirs are the connections.
        client = _clients[here] = Client(settings)
    return client
