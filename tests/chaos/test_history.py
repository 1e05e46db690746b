"""Histories are recorded, stored and loaded again as they were."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from quorate.chaos.history import Action, BadHistory, History, Record, Recorder, load


def test_what_is_recorded_is_loaded_again(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        first = recorder.invoke("p1", Action.PRODUCE, topic="t", partition=2, value="a", once=True)
        second = recorder.invoke("r1", Action.READ, topic="t", partition=2, offset=0, stream="x")
        recorder.note("fault", kind="kill", phase="begin", text="node 1")
        recorder.ok(second, records=[Record(1, "a", 1700)])
        recorder.info(first, "timed out")
        recorder.fail(recorder.invoke("p1", Action.PRODUCE, topic="t", partition=0, value="b"), "NOT_LEADER")
        told = recorder.snapshot()
    again = load(path)
    assert again.operations == told.operations
    assert again.notes == told.notes
    assert [one.outcome for one in again.operations] == ["info", "ok", "fail"]
    assert again.operations[1].records == (Record(1, "a", 1700),)
    assert again.operations[0].maybe


def test_a_snapshot_does_not_grow() -> None:
    recorder = Recorder()
    number = recorder.invoke("p", Action.PRODUCE, topic="t", partition=0, value="a")
    before = recorder.snapshot()
    recorder.ok(number, offset=3)
    recorder.invoke("p", Action.PRODUCE, topic="t", partition=0, value="b")
    assert [one.outcome for one in before.operations] == ["open"]


def test_many_threads_leave_an_ordered_file(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:

        def work(name: str) -> None:
            for number in range(200):
                recorder.ok(
                    recorder.invoke(name, Action.PRODUCE, topic="t", partition=0, value=f"{name}-{number}"), offset=1
                )

        threads = [threading.Thread(target=work, args=(f"p{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    history = load(path)
    assert len(history.operations) == 800
    times = [one.began_ns for one in history.operations]
    assert times == sorted(times)
    assert all(one.ended_ns is not None and one.ended_ns >= one.began_ns for one in history.operations)


def test_a_last_line_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path) as recorder:
        recorder.invoke("p", Action.PRODUCE, topic="t", partition=0, value="a")
    path.write_text(path.read_text() + '{"kind":"ok","op":0,"ti')
    assert [one.outcome for one in load(path).operations] == ["open"]


@pytest.mark.parametrize(
    "lines",
    [
        "not json\n\n",
        '{"kind":"ok","op":0,"time":1}\n',
        '{"kind":"invoke","op":0,"time":1,"process":"p","do":"dance"}\n',
        '{"kind":"invoke","op":5,"time":1,"process":"p","do":"read"}\n',
        '{"kind":"invoke","op":0,"time":1,"process":"p","do":"read","colour":"red"}\n',
        '{"kind":"maybe","op":0,"time":1}\n',
        '{"time":1}\n',
        "[1]\n",
        '{"kind":"note","time":1}\n',
    ],
)
def test_what_is_no_history_is_refused_with_its_line(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(lines)
    with pytest.raises(BadHistory, match="line 1"):
        load(path)


def test_an_operation_is_completed_once() -> None:
    recorder = Recorder()
    number = recorder.invoke("p", Action.PRODUCE, topic="t", partition=0, value="a")
    recorder.ok(number, offset=1)
    with pytest.raises(BadHistory, match="twice"):
        recorder.info(number, "late")


def test_an_empty_history_has_no_anomalies() -> None:
    from quorate.chaos.checkers import CHECKERS, judge

    verdicts = judge(History(), CHECKERS.values())
    assert {verdict.word for verdict in verdicts} == {"nothing to judge"}
