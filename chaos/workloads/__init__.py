"""The workloads: what clients do while things break. One file each; `api` is their seam."""

from collections.abc import Callable
from typing import NamedTuple

from quorate.chaos.workloads.api import Stage, Workload
from quorate.chaos.workloads.groups import GroupsWorkload
from quorate.chaos.workloads.log import LogWorkload
from quorate.chaos.workloads.metadata import MetadataWorkload


class Offer(NamedTuple):
    """A workload that can be asked for by name."""

    summary: str
    make: Callable[[], Workload]


WORKLOADS: dict[str, Offer] = {
    "log": Offer("unique messages with acks=all; readers by offset, from every node", LogWorkload),
    "groups": Offer("members join, commit, leave and resume, while messages flow", GroupsWorkload),
    "metadata": Offer("topics are created, grown and deleted, while others write and read", MetadataWorkload),
}

__all__ = ["WORKLOADS", "Offer", "Stage", "Workload"]
