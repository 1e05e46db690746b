"""The checkers of the log: what is written, read, and there in the end."""

from __future__ import annotations

from tests.chaos.story import Story


def test_lost_flags_an_acknowledged_message_that_is_gone() -> None:
    story = Story()
    story.wrote("a", 1)
    gone = story.wrote("b", 2)
    end = story.final((1, "a"))
    (anomaly,) = story.check("lost")
    assert anomaly.operations == (gone, end)
    assert "nowhere" in anomaly.text


def test_lost_flags_a_message_that_has_moved() -> None:
    story = Story()
    story.wrote("a", 1)
    story.final((2, "a"))
    assert "moved to 2" in story.check("lost")[0].text


def test_lost_passes_what_is_there_and_what_was_never_acknowledged() -> None:
    story = Story()
    story.wrote("a", 1)
    story.doubtful("b")
    story.refused("c")
    story.begin("d")
    story.final((1, "a"))
    assert story.check("lost") == []


def test_lost_does_not_judge_a_partition_that_was_not_read_in_the_end() -> None:
    story = Story()
    story.wrote("a", 1, partition=7)
    story.final()
    assert story.check("lost") == []


def test_duplicate_flags_a_message_that_is_there_twice() -> None:
    story = Story()
    story.wrote("a", 1)
    story.final((1, "a"), (3, "a"))
    assert "offset 1 and t/0 offset 3" in story.check("duplicate")[0].text


def test_duplicate_flags_an_unacknowledged_one_too() -> None:
    story = Story()
    story.doubtful("a")
    story.read((1, "a"))
    story.final((1, "a"), (2, "a"))
    assert len(story.check("duplicate")) == 1


def test_duplicate_passes_a_plain_producer_that_sent_again() -> None:
    story = Story()
    story.wrote("a", 3, once=False)
    story.wrote("b", 4)
    story.final((1, "a"), (3, "a"), (4, "b"))
    assert story.check("duplicate") == []


def test_two_values_flags_two_readers_that_disagree() -> None:
    story = Story()
    first, second = story.read((1, "a")), story.read((1, "b"), process="other")
    (anomaly,) = story.check("two-values")
    assert anomaly.operations == (first, second)


def test_two_values_flags_two_acknowledgements_of_one_offset() -> None:
    story = Story()
    story.wrote("a", 1)
    story.wrote("b", 1)
    assert len(story.check("two-values")) == 1


def test_two_values_passes_readers_that_agree() -> None:
    story = Story()
    story.wrote("a", 1)
    story.read((1, "a"))
    story.read((1, "a"), (2, "b"), process="other")
    story.final((1, "a"), (2, "b"))
    assert story.check("two-values") == []


def test_reader_flags_one_that_goes_back() -> None:
    story = Story()
    story.read((1, "a"), (2, "b"))
    again = story.read((2, "b"))
    (anomaly,) = story.check("reader")
    assert "went back" in anomaly.text
    assert again in anomaly.operations


def test_reader_flags_a_skipped_message_within_a_read_and_between_reads() -> None:
    story = Story()
    story.read((1, "a"), (3, "c"))
    story.read((5, "e"))
    story.final((1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"))
    assert ["skipped" in one.text for one in story.check("reader")] == [True, True]


def test_reader_flags_what_was_skipped_before_the_first_message() -> None:
    story = Story()
    story.wrote("a", 1)
    story.read((2, "b"), at=0)
    assert "1; it went on at 2" in story.check("reader")[0].text


def test_reader_passes_gaps_of_control_batches_and_separate_streams() -> None:
    story = Story()
    story.read((1, "a"), (4, "b"), at=0)
    story.read((9, "c"))
    story.read((1, "a"), stream="second", at=0)
    story.read((4, "b"), stream="third")
    story.final((1, "a"), (4, "b"), (9, "c"))
    assert story.check("reader") == []


def test_uncommitted_flags_what_is_not_there_in_the_end() -> None:
    story = Story()
    written = story.doubtful("a")
    seen = story.read((1, "a"))
    story.final()
    (anomaly,) = story.check("uncommitted")
    assert anomaly.operations == (written, seen)


def test_uncommitted_flags_what_became_something_else() -> None:
    story = Story()
    story.doubtful("a")
    story.wrote("b", 1)
    story.read((1, "a"))
    story.final((1, "b"))
    assert "something else" in story.check("uncommitted")[0].text


def test_uncommitted_flags_what_was_refused_and_what_nobody_wrote() -> None:
    story = Story()
    story.refused("a")
    story.read((1, "a"), (2, "b"))
    assert len(story.check("uncommitted")) == 2


def test_uncommitted_passes_doubtful_messages_that_made_it() -> None:
    story = Story()
    story.doubtful("a")
    story.wrote("b", 2)
    story.read((1, "a"), (2, "b"))
    story.final((1, "a"), (2, "b"))
    assert story.check("uncommitted") == []


def test_time_back_flags_a_lower_stamp_at_a_higher_offset() -> None:
    story = Story()
    first, second = story.read((1, "a", 500)), story.read((2, "b", 499), process="other")
    (anomaly,) = story.check("time-back")
    assert anomaly.operations == (first, second)
    assert "1 ms before" in anomaly.text


def test_time_back_passes_equal_and_rising_stamps() -> None:
    story = Story()
    story.read((3, "c", 501))
    story.read((1, "a", 500), (2, "b", 500), process="other")
    assert story.check("time-back") == []


def test_order_flags_a_later_message_below_an_earlier_one() -> None:
    story = Story()
    first, second = story.wrote("a", 5), story.wrote("b", 4)
    (anomaly,) = story.check("order")
    assert anomaly.operations == (first, second)


def test_order_flags_a_doubtful_message_that_went_below() -> None:
    story = Story()
    story.wrote("a", 5)
    story.doubtful("b")
    story.final((4, "b"), (5, "a"))
    assert len(story.check("order")) == 1


def test_order_passes_messages_that_were_sent_at_the_same_time_and_other_partitions() -> None:
    story = Story()
    first, second = story.begin("a"), story.begin("b")
    story.recorder.ok(first, offset=9)
    story.recorder.ok(second, offset=8)
    story.wrote("c", 1, partition=1)
    story.wrote("d", 10)
    assert story.check("order") == []


def test_false_fail_flags_a_refused_message_that_is_there() -> None:
    story = Story()
    refused = story.refused("a")
    end = story.final((1, "a"))
    (anomaly,) = story.check("false-fail")
    assert anomaly.operations == (refused, end)


def test_false_fail_passes_doubtful_messages_that_are_there() -> None:
    story = Story()
    story.doubtful("a")
    story.refused("b")
    story.final((1, "a"))
    assert story.check("false-fail") == []


def test_stale_flags_an_end_from_before_an_acknowledgement() -> None:
    story = Story()
    written = story.wrote("a", 5)
    story.latest(6)
    asked = story.latest(5, node=3)
    (anomaly,) = story.check("stale")
    assert anomaly.operations == (written, asked)
    assert "node 3" in anomaly.text


def test_stale_passes_ends_that_were_asked_for_before() -> None:
    story = Story()
    story.latest(5)
    story.wrote("a", 5)
    story.latest(6)
    assert story.check("stale") == []
