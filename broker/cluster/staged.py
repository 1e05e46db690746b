"""Commits of staged records, as `@cluster` replicates them: which are decided, and what of them is not published yet.

A part of `ClusterState`. Each command is judged by the log alone, so alike on every node. See docs/adr/0006-staged-writes.md
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.values import Refused
from quorate.consensus.core import GroupId

NOW, BEFORE, BY_OTHERS = 0, 1, 2
"""What became of a commit: it is decided now; it was decided before, with these very stages; or with others."""
DROPPED_MS: Final = 24 * 60 * 60 * 1000
"""How long, in `@cluster`'s log time, it is remembered that a producer's stages were dropped. A commit that was begun before
is not judged so much later: see `CommitStages.until_ms`."""

CommitId = tuple[str, int]
"""Application and batch."""


class Application(NamedTuple):
    """The last batch that an application committed."""

    batch: int
    digest: str
    """Of the stages that were committed: whoever asks again finds out whether they were its own."""
    stamp: int


class StagedCommits:
    """Invariant: `pending` is in the order of the decisions and holds no empty commit; no producer in it is in `dropped`."""

    def __init__(self) -> None:
        self.applications: dict[str, Application] = {}
        self.pending: dict[CommitId, dict[GroupId, tuple[int, ...]]] = {}
        """What is decided and not published: by group, the producers whose stages it is made of."""
        self.dropped: dict[int, int] = {}
        """Producers whose stages can never be committed, with the log time of that decision, in order."""

    def judge(self, command: c.StagedCommand, stamp: int, groups: Collection[GroupId], next_producer: int) -> int:
        """Carry a command out. `stamp` is its log time, `groups` are those that there are. Raises Refused."""
        match command:
            case c.CommitStages():
                return self._commit(command, stamp, groups)
            case c.StagesPublished():
                return self._published(command)
            case c.DropStages():
                return self._drop(command, stamp, next_producer)
        raise Refused("unknown-command", f"{command.kind} is not known")

    def _commit(self, command: c.CommitStages, stamp: int, groups: Collection[GroupId]) -> int:
        known = self.applications.get(command.application)
        if known is not None and command.batch <= known.batch:
            return BEFORE if (command.batch, command.digest) == (known.batch, known.digest) else BY_OTHERS
        if stamp > command.until_ms:
            raise Refused("too-late", "the commit took so long that its stages may have expired; ask again")
        parts = {GroupId(group): producers for group, producers in command.parts}
        gone = parts.keys() - set(groups)
        if gone:
            raise Refused("unknown-queue", f"there is no group {min(gone)}")
        busy = self.producers()
        for producer in {producer for producers in parts.values() for producer in producers}:
            if producer in self.dropped:
                raise Refused("stage-dropped", f"the stage of producer {producer} was dropped")
            if producer in busy:
                raise Refused("stage-committed", f"the stage of producer {producer} is part of another commit")
        self.applications[command.application] = Application(command.batch, command.digest, stamp)
        if parts:
            self.pending[command.application, command.batch] = parts
        return NOW

    def _published(self, command: c.StagesPublished) -> int:
        over = 0
        for application, batch, groups in command.commits:
            for group in groups:
                over += self._forget((application, batch), GroupId(group))
        return over

    def _forget(self, commit: CommitId, group: GroupId) -> int:
        """One group is done with; whether the commit is over."""
        parts = self.pending.get(commit)
        if parts is None or parts.pop(group, None) is None or parts:
            return 0
        del self.pending[commit]
        return 1

    def _drop(self, command: c.DropStages, stamp: int, next_producer: int) -> int:
        if any(producer >= next_producer for producer in command.producers):
            raise Refused("bad-producer", f"producer {max(command.producers)} was never given out")
        busy, dropped = self.producers(), self.dropped
        while dropped and dropped[oldest := next(iter(dropped))] < stamp - DROPPED_MS:
            del dropped[oldest]
        for producer in command.producers:
            if producer not in busy:
                dropped.pop(producer, None)
                dropped[producer] = stamp
        return sum(producer not in busy for producer in command.producers)

    def forget_groups(self, groups: Collection[GroupId]) -> None:
        """A queue was deleted: what was to be published there never will be."""
        for commit in list(self.pending):
            for group in groups:
                self._forget(commit, group)

    # Reading.

    def producers(self) -> set[int]:
        """All whose stages are decided and not published."""
        return {one for parts in self.pending.values() for producers in parts.values() for one in producers}

    def of_group(self, group: GroupId) -> Iterator[tuple[CommitId, tuple[int, ...]]]:
        """What a group has to publish, in order."""
        for commit, parts in self.pending.items():
            if group in parts:
                yield commit, parts[group]

    def groups(self) -> set[GroupId]:
        """Those that have something to publish."""
        return {group for parts in self.pending.values() for group in parts}

    def is_published(self, application: str, batch: int) -> bool:
        """Whether a commit is decided, and all of it is visible."""
        known = self.applications.get(application)
        return known is not None and batch <= known.batch and (application, batch) not in self.pending

    # Snapshots.

    def save(self) -> dict[str, Any]:
        return {
            "applications": sorted([name, *one] for name, one in self.applications.items()),
            "pending": [[*commit, sorted(parts.items())] for commit, parts in self.pending.items()],
            "dropped": list(self.dropped.items()),
        }

    @classmethod
    def load(cls, said: dict[str, Any]) -> StagedCommits:
        """The inverse. Raises ValueError for what `save` did not write; what is no dict is another error."""
        staged = cls()
        for name, *one in said.get("applications", ()):
            staged.applications[name] = Application(*one)
        for application, batch, parts in said.get("pending", ()):
            staged.pending[application, batch] = {GroupId(group): tuple(producers) for group, producers in parts}
        staged.dropped = dict(said.get("dropped", ()))
        staged._check()
        return staged

    def _check(self) -> None:
        """Raise ValueError if something is not of its kind, or the parts contradict each other."""
        texts: list[object] = [text for name, one in self.applications.items() for text in (name, one.digest)]
        counts: list[object] = [count for one in self.applications.values() for count in (one.batch, one.stamp)]
        counts += [count for dropped in self.dropped.items() for count in dropped]
        for (_, batch), parts in self.pending.items():
            counts += [batch, *parts, *(producer for producers in parts.values() for producer in producers)]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("an application, or a digest, is no text")
        if not all(type(count) is int and count >= 0 for count in counts):
            raise ValueError("something that is counted is no count")
        known = self.applications
        if not all(parts and name in known and batch <= known[name].batch for (name, batch), parts in self.pending.items()):
            raise ValueError("a commit that is not published is empty, or was never decided")
        if self.producers() & self.dropped.keys() or list(self.dropped.values()) != sorted(self.dropped.values()):
            raise ValueError("a stage is committed and dropped, or they were dropped in another order")

    def check_invariants(self, groups: Collection[GroupId]) -> None:
        """Raise AssertionError if the parts contradict each other."""
        assert all(self.pending.values()), "a commit that is over is forgotten"
        assert self.groups() <= set(groups), "only groups that there are have something to publish"
        assert not self.producers() & self.dropped.keys(), "what is decided is not dropped"
        assert list(self.dropped.values()) == sorted(self.dropped.values())
        for application, batch in self.pending:
            assert batch <= self.applications[application].batch
