"""The metadata as a node uses it: read here, changed through whoever leads `@cluster`."""

from __future__ import annotations

import asyncio
import time
import uuid

from quorate.broker.cluster import commands as c
from quorate.broker.cluster.calls import Body, CallFailed, Calls
from quorate.broker.cluster.state import ClusterState, Refused, Result
from quorate.broker.cluster.values import CLUSTER_GROUP
from quorate.consensus.core import NodeId, node_of
from quorate.consensus.runtime import MultiRaft, OperationFailed

_LOOK_AGAIN_S = 0.02
_CALL_S = 5.0


def new_token() -> str:
    """What a command is recognized by."""
    return uuid.uuid4().hex


class Metadata:
    """Proposes commands, and waits until this node's own copy has them."""

    def __init__(self, runtime: MultiRaft, calls: Calls, state: ClusterState) -> None:
        self._runtime = runtime
        self._calls = calls
        self.state = state
        self._results: dict[str, asyncio.Future[Result]] = {}
        state.listeners.append(self._applied)
        calls.on("propose", self._asked_to_propose)

    @property
    def leader(self) -> NodeId | None:
        """The node that leads `@cluster`, as far as is known here."""
        leader = self._runtime.status(CLUSTER_GROUP).leader
        return node_of(leader) if leader else None

    async def change(self, command: c.Command, timeout_s: float) -> int:
        """Carry a command out, wherever `@cluster` is led; returns when it counts on this node too.

        Raises Refused (it changed nothing) or CallFailed (see `definite`).
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        future: asyncio.Future[Result] = loop.create_future()
        self._results[command.token] = future
        try:
            await self._send(command, deadline)
            async with asyncio.timeout_at(deadline):
                result = await future
        except TimeoutError as error:
            raise CallFailed("no-answer", f"{command.kind} was not confirmed in {timeout_s} s", definite=False) from error
        finally:
            del self._results[command.token]
        if isinstance(result, Refused):
            raise result
        return result

    async def _send(self, command: c.Command, deadline: float) -> None:
        """Get it into the log. Tries again as long as it has certainly not happened."""
        loop = asyncio.get_running_loop()
        body = {"command": c.encode(command).decode()}
        while True:
            leader = self.leader
            failure = CallFailed("no-leader", "the cluster's metadata has no leader just now", definite=True)
            if leader is not None:
                try:
                    await self._calls.ask(leader, "propose", body, max(0.01, min(_CALL_S, deadline - loop.time())))
                except CallFailed as error:
                    failure = error
                else:
                    return
            if loop.time() + _LOOK_AGAIN_S > deadline or not failure.definite:
                raise failure
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _asked_to_propose(self, node: NodeId, body: Body) -> Body:
        try:
            command = c.decode(str(body["command"]).encode())
            await self._runtime.propose(CLUSTER_GROUP, c.to_batch(command, int(time.time() * 1000)), 1)
        except (KeyError, c.BadCommand) as error:
            raise CallFailed("bad-command", str(error), definite=True) from error
        except OperationFailed as error:
            raise CallFailed("not-appended", str(error), definite=error.definite) from error
        return {}

    def _applied(self, command: c.Command, result: Result) -> None:
        future = self._results.get(command.token)
        if future is not None and not future.done():
            future.set_result(result)
