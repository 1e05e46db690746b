"""Committed offsets."""

from __future__ import annotations

from struct import pack

import pytest

from quorate.broker.groups import Failure, Identity, OffsetToCommit
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.groups.stage import WALL_MS, Box, Stage, identity

DAY_MS = 24 * 3600 * 1000


def subscription(*queues: str) -> bytes:
    names = b"".join(pack(">h", len(queue)) + queue.encode() for queue in queues)
    return pack(">hi", 1, len(queues)) + names + pack(">i", -1)


def test_simple_consumer_commits_to_an_empty_group() -> None:
    stage = Stage()
    assert stage.offset() == -1
    assert stage.commit_offset(7, metadata="x").code == Error.NONE
    assert stage.offset() == 7
    place = stage.leader.state.offsets("g")["q", 0]
    assert (place.leader_epoch, place.metadata, place.commit_time_ms) == (3, "x", WALL_MS + stage.now)
    assert stage.phase == "Empty"


def test_commit_is_answered_after_it_is_in_the_log() -> None:
    stage = Stage()
    stage.hold = True
    box = stage.commit_offset(7)
    assert not box
    stage.release()
    assert box.code == Error.NONE


def test_commit_is_answered_only_once_it_is_applied() -> None:
    stage = Stage()
    stage.hold = True
    box = stage.commit_offset(7)
    append = stage.held.popleft()
    append.done(stage.put(append), stage.now)
    stage.pump()
    assert not box
    stage.catch_up(stage.leader)
    stage.pump()
    assert box.code == Error.NONE


@pytest.mark.parametrize("failure", list(Failure))
def test_commit_that_fails(failure: Failure) -> None:
    stage = Stage()
    stage.fail = failure
    assert stage.commit_offset(7).code == failure.code
    assert stage.offset() == -1


def test_members_commit_in_their_generation() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    assert stage.commit_offset(1, identity(first)).code == Error.NONE
    assert stage.commit_offset(2, identity(second)).code == Error.NONE
    assert stage.commit_offset(3, Identity(first["member_id"], 9)).code == Error.ILLEGAL_GENERATION
    assert stage.commit_offset(3, Identity("x", 1)).code == Error.UNKNOWN_MEMBER_ID
    assert stage.commit_offset(3).code == Error.UNKNOWN_MEMBER_ID, "a simple consumer has no business in a group in use"
    stage.join()
    assert stage.commit_offset(4, identity(first)).code == Error.NONE, "the work is still its own until it joins"
    boxes = [stage.join(member["member_id"]) for member in (first, second)]
    assert stage.commit_offset(5, identity(boxes[0].response)).code == Error.REBALANCE_IN_PROGRESS
    assert stage.offset() == 4


def test_member_of_a_group_that_is_gone() -> None:
    assert Stage().commit_offset(3, Identity("x", 1)).code == Error.ILLEGAL_GENERATION


def test_metadata_is_bounded_per_partition() -> None:
    stage, box = Stage(max_metadata_bytes=3), Box()
    places = {"q": [OffsetToCommit(0, 5, -1, "äö"), OffsetToCommit(1, 6, -1, "abc")]}
    stage.coordinator.commit_offsets(stage.now, "g", Identity(), places, box)
    stage.pump()
    codes = [p["error_code"] for p in box.response["topics"][0]["partitions"]]
    assert codes == [Error.OFFSET_METADATA_TOO_LARGE, Error.NONE]
    assert stage.leader.state.offsets("g").keys() == {("q", 1)}


def test_fetching_everything() -> None:
    stage, box = Stage(), Box()
    stage.commit_offset(1, queue="b")
    stage.commit_offset(2, queue="a")
    stage.coordinator.fetch_offsets(stage.now, "g", None, box)
    stage.pump()
    assert [(t["name"], t["partitions"][0]["committed_offset"]) for t in box.response["topics"]] == [("a", 2), ("b", 1)]


def test_coordinator_that_cannot_confirm_its_lead_tells_no_offsets() -> None:
    stage, box = Stage(), Box()
    stage.commit_offset(1)
    stage.fail_confirms = Failure.NOT_LEADER
    stage.coordinator.fetch_offsets(stage.now, "g", {"q": [0]}, box)
    stage.pump()
    assert box.code == Error.NOT_COORDINATOR
    assert box.response["topics"][0]["partitions"][0]["error_code"] == Error.NOT_COORDINATOR


def delete(stage: Stage, *queues: str) -> Box:
    box = Box()
    stage.coordinator.delete_offsets(stage.now, "g", {queue: [0] for queue in queues}, box)
    stage.pump()
    return box


def test_deleting_offsets() -> None:
    stage = Stage()
    assert delete(stage, "q").code == Error.GROUP_ID_NOT_FOUND
    stage.commit_offset(1)
    assert delete(stage, "q", "never").response["topics"][1]["partitions"] == [{"partition_index": 0, "error_code": 0}]
    assert stage.offset() == -1


def test_offsets_of_queues_that_are_read_stay() -> None:
    stage = Stage()
    (member,) = stage.stable(1, protocols=(("range", subscription("q", "p")),))
    stage.commit_offset(1, identity(member))
    stage.commit_offset(2, identity(member), queue="other")
    topics = delete(stage, "q", "other").response["topics"]
    assert [t["partitions"][0]["error_code"] for t in topics] == [Error.GROUP_SUBSCRIBED_TO_TOPIC, Error.NONE]
    assert (stage.offset("q"), stage.offset("other")) == (1, -1)


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", pack(">hi", 0, 2**30), pack(">hih", 0, 1, 9), pack(">hih", 0, 1, 1) + b"\xff"]
)
def test_subscription_that_cannot_be_read_covers_everything(metadata: bytes) -> None:
    stage = Stage()
    stage.stable(1, protocols=(("range", metadata),))
    assert delete(stage, "q").response["topics"][0]["partitions"][0]["error_code"] == Error.GROUP_SUBSCRIBED_TO_TOPIC


def test_groups_of_other_kinds_keep_their_offsets_while_in_use() -> None:
    stage = Stage()
    stage.stable(1, protocol_type="connect")
    assert delete(stage, "q").code == Error.NON_EMPTY_GROUP


def test_deleted_queue_takes_its_offsets_along() -> None:
    stage = Stage()
    stage.commit_offset(1)
    stage.commit_offset(2, queue="other")
    stage.commit_offset(3, group="h")
    stage.coordinator.forget_queue(stage.now, "q")
    stage.pump()
    assert (stage.offset(), stage.offset("other"), stage.offset(group="h")) == (-1, 2, -1)
    assert stage.leader.state.groups.keys() == {"g"}


def test_queue_made_again_while_nobody_coordinates_begins_anew() -> None:
    stage = Stage(2)
    stage.queues.make("q", "other")
    stage.commit_offset(5)
    stage.commit_offset(6, queue="other")
    stage.coordinator.deposed()
    stage.coordinator.forget_queue(stage.now, "q")
    stage.queues.make("q")
    stage.fail_over(1)
    assert (stage.offset(), stage.offset("other")) == (-1, 6)
    box = Box()
    stage.coordinator.fetch_offsets(stage.now, "g", None, box)
    stage.pump()
    assert [topic["name"] for topic in box.response["topics"]] == ["other"]
    stage.commit_offset(2)
    stage.fail_over(0)
    assert (stage.offset(), stage.offset("other")) == (2, 6)


def test_commit_that_overtakes_the_end_of_its_queue_does_not_count_for_the_next_one() -> None:
    stage = Stage()
    stage.queues.make("q")
    stage.hold = True
    box = stage.commit_offset(5)
    stage.coordinator.forget_queue(stage.now, "q")
    stage.pump()
    late = stage.held.popleft()
    stage.release()
    stage.queues.make("q")
    stage.commit(late)
    stage.pump()
    assert box.code == Error.NONE
    assert stage.offset() == -1


def test_commit_for_a_queue_that_this_copy_of_the_metadata_does_not_know_yet_counts() -> None:
    stage = Stage(2)
    stage.queues.make("q")
    stage.commit_offset(5)
    stage.queues.logs, stage.queues.made = {}, 0
    stage.fail_over(1)
    assert stage.offset() == 5


def test_what_deleted_queues_leave_behind_is_dropped_later() -> None:
    stage = Stage()
    stage.queues.make("q", "other")
    members = stage.stable(1)
    who = identity(members[0])
    stage.commit_offset(5, who)
    stage.commit_offset(6, who, queue="other")
    stage.queues.make("q")
    stage.hold = True
    on_its_way = stage.commit_offset(1, who)
    expire(stage, 0)
    stage.release()
    assert on_its_way.code == Error.NONE
    assert stage.offset() == 1
    stage.queues.make("q")
    expire(stage, 0)
    assert stage.leader.state.offsets("g").keys() == {("other", 0)}
    assert stage.phase == "Stable"


def expire(stage: Stage, days: float) -> None:
    stage.coordinator.expire_offsets(stage.now, int(WALL_MS + stage.now + days * DAY_MS))
    stage.pump()


def test_offsets_of_simple_consumers_expire() -> None:
    stage = Stage()
    stage.commit_offset(1)
    stage.pass_time(DAY_MS)
    stage.commit_offset(2, queue="newer")
    expire(stage, 6.5)
    assert (stage.offset(), stage.offset("newer")) == (-1, 2)
    expire(stage, 7.5)
    assert not stage.leader.state.groups


def test_offsets_of_groups_expire_when_they_have_been_empty_for_long() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    stage.commit_offset(1, identity(member))
    expire(stage, 30)
    assert stage.offset() == 1, "it is in use"
    stage.pass_time(DAY_MS)
    assert stage.phase == "Empty"
    expire(stage, 5.9)
    assert stage.offset() == 1
    expire(stage, 7.1)
    assert not stage.leader.state.groups
    assert stage.phase == "Dead"


def test_commit_on_its_way_is_not_expired() -> None:
    stage = Stage()
    stage.commit_offset(1)
    stage.hold = True
    box = stage.commit_offset(2)
    expire(stage, 8)
    stage.release()
    assert box.code == Error.NONE
    assert stage.offset() == 2
