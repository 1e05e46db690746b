"""The checkers of groups: what was committed, and what the members were given."""

from __future__ import annotations

from tests.chaos.story import Story


def test_commit_back_flags_an_older_offset() -> None:
    story = Story()
    old, new = story.commit(5), story.commit(9)
    asked = story.committed(5)
    (anomaly,) = story.check("commit-back")
    assert anomaly.operations == (old, new, asked)


def test_commit_back_flags_a_commit_that_vanished() -> None:
    story = Story()
    story.commit(5)
    story.committed(-1)
    assert "no offset" in story.check("commit-back")[0].text


def test_commit_back_flags_what_nobody_committed_or_what_was_refused() -> None:
    story = Story()
    story.commit(5)
    story.commit(7, "fail")
    story.committed(6)
    story.committed(7)
    assert len(story.check("commit-back")) == 2


def test_commit_back_passes_what_is_or_may_be_committed() -> None:
    story = Story()
    story.committed(-1)
    story.commit(5)
    story.committed(5)
    story.commit(3, "info")
    story.commit(9)
    story.committed(9)
    story.committed(3)  # the one that timed out may come late
    story.committed(9)
    assert story.check("commit-back") == []


def test_commit_back_keeps_groups_apart() -> None:
    story = Story()
    story.commit(5)
    story.commit(9, group="other")
    story.committed(5)
    story.committed(-1, group="third")
    assert story.check("commit-back") == []


def test_group_skipped_flags_a_message_that_nobody_was_given() -> None:
    story = Story()
    story.read((1, "a"), group="g", process="m1")
    story.read((3, "c"), group="g", process="m2")
    commit = story.commit(4)
    story.final((1, "a"), (2, "b"), (3, "c"))
    (anomaly,) = story.check("group-skipped")
    assert anomaly.operations == (commit,)
    assert anomaly.text.endswith(": 2")


def test_group_skipped_passes_members_that_share_and_repeat() -> None:
    story = Story()
    story.read((1, "a"), group="g", process="m1")
    story.read((1, "a"), (3, "c"), group="g", process="m2")
    story.commit(4)
    story.commit(99, group="commits-only")
    story.final((1, "a"), (3, "c"), (4, "d"))
    assert story.check("group-skipped") == []


def test_false_fail_flags_a_refused_commit_that_is_there() -> None:
    story = Story()
    refused = story.commit(5, "fail")
    asked = story.committed(5)
    (anomaly,) = story.check("false-fail")
    assert anomaly.operations == (refused, asked)


def test_false_fail_passes_a_refused_commit_that_another_one_repeated() -> None:
    story = Story()
    story.commit(5, "fail")
    story.committed(-1)
    story.commit(5, "info")
    story.commit(7, "fail", group="other")
    story.committed(5)
    assert story.check("false-fail") == []
