"""The checkers of the end: replicas on their disks, and topics."""

from __future__ import annotations

from quorate.chaos.history import Action
from tests.chaos.story import Story


def test_replicas_flags_different_bytes_and_different_batches() -> None:
    story = Story()
    one = story.replica(1, 9, (0, "x", 0), (1, "a", 4), (5, "b", 9))
    story.replica(2, 9, (0, "x", 0), (1, "a", 4), (5, "c", 9))
    story.replica(3, 9, (0, "x", 0), (1, "a", 9))
    anomalies = story.check("replicas")
    assert len(anomalies) == 3
    assert anomalies[0].operations[0] == one
    assert "node 1 has batch 5-9 (b), node 2 has batch 5-9 (c)" in anomalies[0].text


def test_replicas_flags_one_that_lacks_what_it_calls_committed() -> None:
    story = Story()
    story.replica(1, 9, (0, "x", 0), (1, "a", 9))
    story.replica(2, 9, (0, "x", 0))
    assert "nothing more" in story.check("replicas")[0].text


def test_replicas_passes_uncommitted_ends_and_trimmed_beginnings() -> None:
    story = Story()
    story.replica(1, 9, (0, "x", 0), (1, "a", 4), (5, "b", 9), (10, "u", 12))
    story.replica(2, 4, (0, "x", 0), (1, "a", 4), (5, "old", 6))
    story.replica(3, 9, (5, "b", 9))
    assert story.check("replicas") == []


def test_metadata_flags_what_is_undone() -> None:
    story = Story()
    story.change(Action.CREATE, "gone", 3)
    story.change(Action.CREATE, "small", 1)
    story.change(Action.GROW, "small", 4)
    story.change(Action.CREATE, "back", 1)
    story.change(Action.DELETE, "back")
    story.topics(small=1, back=1)
    assert [one.text.split()[0] for one in story.check("metadata")] == ["gone", "small", "back"]


def test_metadata_passes_what_is_so_and_what_may_be() -> None:
    story = Story()
    story.change(Action.CREATE, "there", 3)
    story.change(Action.GROW, "there", 5, "info")
    story.change(Action.CREATE, "perhaps", 3, "info")
    story.change(Action.CREATE, "going", 3)
    story.change(Action.DELETE, "going", outcome="info")
    story.change(Action.CREATE, "never", 3, "fail")
    story.topics(there=3)
    story.topics(there=5, going=3, perhaps=3)
    assert story.check("metadata") == []


def test_false_fail_flags_a_topic_whose_creation_was_refused() -> None:
    story = Story()
    story.change(Action.CREATE, "never", 3, "fail")
    story.topics(never=3)
    assert len(story.check("false-fail")) == 1
