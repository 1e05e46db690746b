"""Requests between nodes, over real sockets: answers, refusals, silence, and answers that belong to nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from quorate.broker.cluster.calls import ANSWER, Body, CallFailed, Calls
from quorate.consensus.core import NodeId
from quorate.consensus.runtime import new_event_loop
from tests.support.cluster import Cluster, until

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
SHORT_S = 0.2
LONG_S = 20.0


class Pair(Cluster):
    """Two nodes that can ask each other."""

    def __init__(self) -> None:
        super().__init__(2)
        self.calls: dict[NodeId, Calls] = {}
        self.heard: list[bytes] = []

    async def __aenter__(self) -> Pair:
        for node in self.ids:
            calls = self.calls[node] = Calls(node, lambda to, note, node=node: self.running[node].tell(to, note))  # type: ignore[misc]
            config = replace(self.config(node), on_note=self._hearing(calls))
            await self.start(node, config)
        await until(lambda: all(runtime.network.connected for runtime in self.running.values()), "they are connected")
        return self

    def _hearing(self, calls: Calls) -> Callable[[NodeId, bytes], None]:
        def hear(node: NodeId, note: bytes) -> None:
            self.heard.append(note)
            calls.hear(node, note)

        return hear

    async def __aexit__(self, *_: object) -> None:
        for calls in self.calls.values():
            await calls.close()
        for node in list(self.running):
            await self.crash(node)


def run(body: Callable[[Pair], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Pair() as pair:
            await body(pair)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())


async def double(node: NodeId, body: Body) -> Body:
    return {"twice": 2 * body["number"], "for": node}


async def refuse(node: NodeId, body: Body) -> Body:
    raise CallFailed("not-now", "later, please", definite=bool(body["definite"]))


async def never(node: NodeId, body: Body) -> Body:
    await asyncio.Event().wait()
    return {}


def test_an_answer_belongs_to_its_question() -> None:
    async def body(pair: Pair) -> None:
        pair.calls[TWO].on("double", double)
        asked = [pair.calls[ONE].ask(TWO, "double", {"number": number}, LONG_S) for number in range(100)]
        assert await asyncio.gather(*asked) == [{"twice": 2 * number, "for": ONE} for number in range(100)]
        large = await pair.calls[ONE].ask(TWO, "double", {"number": "x" * 300_000}, LONG_S)
        assert len(large["twice"]) == 600_000

    run(body)


@pytest.mark.parametrize("asked", [ONE, TWO])
@pytest.mark.parametrize("definite", [True, False])
def test_a_refusal_is_told_with_its_certainty(asked: NodeId, definite: bool) -> None:
    async def body(pair: Pair) -> None:
        pair.calls[asked].on("refuse", refuse)
        with pytest.raises(CallFailed, match="later, please") as caught:
            await pair.calls[ONE].ask(asked, "refuse", {"definite": definite}, LONG_S)
        assert (caught.value.code, caught.value.definite) == ("not-now", definite)

    run(body)


@pytest.mark.parametrize("asked", [ONE, TWO])
def test_silence_is_not_certain_and_a_verb_that_nobody_knows_is(asked: NodeId) -> None:
    async def body(pair: Pair) -> None:
        pair.calls[asked].on("never", never)
        with pytest.raises(CallFailed) as silent:
            await pair.calls[ONE].ask(asked, "never", {}, SHORT_S)
        assert (silent.value.code, silent.value.definite) == ("no-answer", False)
        with pytest.raises(CallFailed) as unknown:
            await pair.calls[ONE].ask(asked, "sing", {}, LONG_S)
        assert (unknown.value.code, unknown.value.definite) == ("unknown-verb", True)

    run(body)


def test_a_node_that_is_away_was_certainly_not_asked() -> None:
    async def body(pair: Pair) -> None:
        with pytest.raises(CallFailed) as caught:
            await pair.calls[ONE].ask(THREE, "double", {}, LONG_S)
        assert (caught.value.code, caught.value.definite) == ("unreachable", True)

    run(body)


def test_only_the_node_that_was_asked_can_answer_and_nonsense_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        sent: list[bytes] = []

        def tell(node: NodeId, note: bytes) -> bool:
            sent.append(note)
            return True

        calls = Calls(ONE, tell)
        asking = asyncio.ensure_future(calls.ask(TWO, "double", {}, LONG_S))
        await until(lambda: bool(sent), "it was asked")
        number = json.loads(sent[0][1:])[0]
        calls.hear(THREE, ANSWER + json.dumps([number, {"from": 3}, None]).encode())
        # What an earlier life of this node may have asked, when it began to count.
        for old in range(100):
            calls.hear(TWO, ANSWER + json.dumps([old, {"from": "before"}, None]).encode())
        for nonsense in (
            b"A",
            b"C",
            b"Anull",
            b"A[1]",
            b"C[1,2]",
            b'C["x","y",{}]',
            b"A\xff",
            b"C{}",
            b"C" + b"[" * 100_000,
        ):
            calls.hear(TWO, nonsense)
        for answer in ("[%d,[],null]", "[%d,null,[1,2,3]]", '[%d,null,["code"]]', "[%d,null,null]", "[%d,{},{}]"):
            calls.hear(TWO, ANSWER + (answer % number).encode())
        calls.hear(TWO, ANSWER + json.dumps([number, {"from": 2}, None]).encode())
        assert await asking == {"from": 2}
        await calls.close()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())
    assert "cannot be read" in caplog.text
