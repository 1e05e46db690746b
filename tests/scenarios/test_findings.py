"""What the scenarios brought to light and the core once got wrong.

Each is a script whose last lines are looked at, so that a repair is free in how many messages it needs.
"""

from pathlib import Path

from tests.scenarios.language import parse
from tests.scenarios.runner import play


def last_output(script: str) -> list[str]:
    return play(parse(Path("finding.txt"), script))[-1]


def test_a_restarted_follower_of_a_quiet_group_learns_what_is_committed() -> None:
    """The commit hint on its disk is behind. Beats do not carry the commit offset, so somebody has to tell it."""
    (standing,) = last_output("""# The leader remembers what the follower knew before its restart, and stays quiet.
> add-nodes 3 leader=1 beat_ms=50
> propose 1 a
> run 200
> crash 3
> restart 3
> run 5000
> status 3
""")
    assert "log 1@1 commit 1 applied 1" in standing


def test_a_late_answer_to_a_pre_vote_does_not_count_for_the_next_term() -> None:
    """It was about a term that has begun since. Counting it lets a node that was cut off depose a working leader."""
    standing, *_ = last_output("""# Node 1 asks about term 1, hears the answers when it asks about term 2.
> add-nodes 5
> campaign 1
> deliver
> hold to=1
> campaign 5
> settle quiet
> partition 1 | 2 3 4 5
> run 320
> heal
> release
> settle
> run 50
> status 5
""")
    assert standing.startswith("5 is leader in term 1,")


def test_compacting_inside_a_batch_is_refused() -> None:
    """The batch would be gone and half of its offsets not: a log with a gap, on which the replica cannot start again."""
    (log,) = last_output("""# Offset 2 is in the middle of the batch 1-3.
> add-nodes 1 leader=1
> propose 1 abc count=3
> propose 1 d
> compact 1 2
> log 1
""")
    assert log == "1: [0@1 noop, 1-3@1 abc, 4@1 d]"
