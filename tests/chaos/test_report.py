"""The report: one well-formed page that needs nothing from elsewhere and shows what was found."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random
from xml.etree import ElementTree

from quorate.chaos.history import Action, History, Recorder
from quorate.chaos.report import render, write_report
from quorate.chaos.runner import check_again
from quorate.chaos.timeline import draw, faults_of, scale_of
from tests.chaos.model import Model
from tests.chaos.story import replaced


def _wrong() -> History:
    """A model's history whose first acknowledged message is lost in the end."""
    history = Model(Random(3)).tell(300)
    finals = [replace(one, records=one.records[1:]) for one in history.of(Action.FINAL)]
    return replaced(history, finals)


def test_the_page_shows_verdicts_anomalies_and_operations() -> None:
    history = _wrong()
    result = check_again(history)
    page = render(history, result)
    lost = next(verdict for verdict in result.verdicts if verdict.name == "lost")
    assert lost.found.anomalies
    assert lost.found.anomalies[0].text in page
    assert f"#{lost.found.anomalies[0].operations[0]} " in page
    assert "shows an anomaly" in page


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = render(_wrong(), check_again(_wrong()))
    assert not re.search(r"""(src|href)\s*=|url\(|@import|<script""", page)


def test_the_picture_is_well_formed_also_of_nothing_and_of_strange_names() -> None:
    recorder = Recorder()
    recorder.note("begin")
    recorder.note("fault", kind='<a&"b>', phase="begin", text="node <1>")
    recorder.note("leader", topic="<t>", partition=0, node=2, epoch=5)
    recorder.ok(recorder.invoke("<p&q>", Action.PRODUCE, topic="<t>", partition=0, value="<v>"), offset=1)
    for history in (History(), recorder.snapshot(), _wrong()):
        tree = ElementTree.fromstring(draw(history, [0] if history.operations else []))
        assert tree.tag.endswith("svg")
    assert "<p&q>" not in render(recorder.snapshot(), check_again(recorder.snapshot()))


def test_faults_are_paired_and_open_ones_last_to_the_end() -> None:
    ticks = iter(range(0, 100_000_000_000, 1_000_000_000))
    recorder = Recorder(clock=lambda: next(ticks))
    recorder.note("begin")
    for phase, text in (("begin", "node 1"), ("begin", "node 2"), ("end", "node 2"), ("failed", "node 3: it is gone")):
        recorder.note("fault", kind="kill", phase=phase, text=text)
    history = recorder.snapshot()
    bands = [(band.text, band.first_s, band.last_s) for band in faults_of(history, scale_of(history))]
    assert bands == [("node 1", 1.0, 4.0), ("node 2", 2.0, 3.0), ("node 3: it is gone", 4.0, 4.0)]


def test_it_is_written_beside_the_history(tmp_path: Path) -> None:
    history = Model(Random(5)).tell(50)
    assert write_report(tmp_path, history, check_again(history)).read_text().startswith("<!doctype html>")
