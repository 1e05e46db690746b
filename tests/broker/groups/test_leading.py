"""Becoming coordinator, ceasing to be it, and what tools ask."""

from __future__ import annotations

from zlib import crc32

import pytest

from quorate.broker.groups import Coordinator, Failure, Identity, OffsetToCommit, SyncRequest, partition_of
from quorate.broker.groups.phases import Event, IllegalMove, Phase, after
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.groups.stage import SESSION_MS, Box, Stage, identity, work_of


def ask_everything(stage: Stage) -> list[int]:
    coordinator, now = stage.coordinator, stage.now
    boxes = [Box() for _ in range(6)]
    coordinator.sync(now, SyncRequest(group_id="g", member=Identity("x", 1), assignments={}), boxes[0])
    coordinator.fetch_offsets(now, "g", None, boxes[1])
    coordinator.delete_offsets(now, "g", {}, boxes[2])
    coordinator.list_groups(now, [], boxes[3])
    coordinator.describe_group(now, "g", boxes[4])
    coordinator.delete_group(now, "g", boxes[5])
    stage.pump()
    codes = [box.code for box in boxes]
    return [
        *codes,
        stage.join().code,
        stage.heartbeat(Identity("x", 1)),
        stage.leave()["error_code"],
        stage.commit_offset(1).code,
    ]


def test_replica_that_does_not_lead_serves_nobody() -> None:
    stage = Stage()
    stage.coordinator.deposed()
    assert set(ask_everything(stage)) == {Error.NOT_COORDINATOR}


def test_replica_that_is_not_ready_says_so() -> None:
    stage = Stage()
    stage.coordinator.loading()
    assert set(ask_everything(stage)) == {Error.COORDINATOR_LOAD_IN_PROGRESS}


def test_losing_the_lead_answers_everybody() -> None:
    stage = Stage()
    first, second = [stage.join(), stage.join()]
    stage.pass_time(1_000)
    waiting = [stage.sync(second.response), stage.join(group_id="h")]
    stage.hold = True
    waiting += [stage.sync(first.response, {}), stage.commit_offset(1, group="i")]
    assert not any(waiting)
    held = list(stage.held)
    stage.coordinator.deposed()
    stage.pump()
    may_happen, sent_away = Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR
    assert [box.code for box in waiting] == [may_happen, sent_away, may_happen, may_happen]
    for append in held:
        append.done(Failure.UNCERTAIN, stage.now)
    assert not stage.coordinator.take(), "outcomes that come too late change nothing"


def test_nobody_is_told_that_a_commit_in_the_log_did_not_happen() -> None:
    """A majority has it, and this replica stopped before its own disk did: it is committed, and not in the state here."""
    stage = Stage(2)
    stage.hold = True
    box = stage.commit_offset(7)
    append = stage.held.popleft()
    append.done(stage.put(append), stage.now)
    stage.fail_over(1)
    assert box.code == Error.COORDINATOR_NOT_AVAILABLE, "NOT_COORDINATOR says that nothing was appended"
    assert stage.offset() == 7


def test_stable_group_survives_a_failover() -> None:
    stage = Stage(2)
    members = stage.stable(3)
    stage.commit_offset(5, identity(members[0]))
    stage.pass_time(SESSION_MS - 1)
    stage.fail_over(1)
    stage.pass_time(SESSION_MS - 1)
    for member in members:
        assert stage.heartbeat(identity(member)) == Error.NONE, "sessions begin anew"
        assert stage.sync(member).response["assignment"] == work_of(member)
    assert stage.offset() == 5
    assert stage.join(members[1]["member_id"]).response["generation_id"] == 1


def test_follower_with_several_protocols_is_recognized_after_a_failover() -> None:
    stage = Stage(2)
    protocols = (("range", b"r"), ("sticky", b"s"))
    members = stage.stable(2, protocols=protocols)
    stage.fail_over(1)
    assert stage.join(members[1]["member_id"], protocols=protocols).response["generation_id"] == 1


def test_generation_without_assignment_goes_on_after_a_failover() -> None:
    stage = Stage(2)
    boxes = [stage.join(), stage.join()]
    stage.pass_time(1_000)
    stage.fail_over(1)
    assert stage.phase == "CompletingRebalance"
    assert stage.join(boxes[0].response["member_id"]).response == boxes[0].response
    stage.divide([box.response for box in boxes])


def test_generations_go_on_after_a_failover() -> None:
    stage = Stage(2)
    stage.stable(1)
    stage.fail_over(1)
    stage.pass_time(10 * SESSION_MS)
    (member,) = stage.stable(1)
    assert member["generation_id"] == 3


def test_partition_of_a_group() -> None:
    assert partition_of("gruppe-ä", 8) == crc32("gruppe-ä".encode()) % 8
    assert {partition_of(str(n), 8) for n in range(100)} == set(range(8))


def listed(stage: Stage, *states: str) -> dict[str, str]:
    box = Box()
    stage.coordinator.list_groups(stage.now, states, box)
    stage.pump()
    return {group["group_id"]: group["group_state"] for group in box.response["groups"]}


def test_listing_groups() -> None:
    stage = Stage()
    stage.stable(1)
    stage.commit_offset(1, group="simple")
    assert listed(stage) == {"g": "Stable", "simple": "Empty"}
    assert listed(stage, "empty") == {"simple": "Empty"}


def test_describing_a_group() -> None:
    stage = Stage()
    (member,) = stage.stable(1, client_host="/127.0.0.1")
    described = stage.describe()
    assert described["protocol_data"] == "range"
    assert described["members"] == [
        {
            "member_id": member["member_id"],
            "group_instance_id": None,
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "member_metadata": b"likes-range",
            "member_assignment": work_of(member),
        }
    ]
    assert stage.describe("nobody")["group_state"] == "Dead"


def deleted(stage: Stage) -> Box:
    box = Box()
    stage.coordinator.delete_group(stage.now, "g", box)
    stage.pump()
    return box


def test_deleting_a_group() -> None:
    stage = Stage()
    assert deleted(stage).code == Error.GROUP_ID_NOT_FOUND
    stage.stable(1)
    assert deleted(stage).code == Error.NON_EMPTY_GROUP
    stage.pass_time(10 * SESSION_MS)
    stage.commit_offset(1)
    stage.hold = True
    box = deleted(stage)
    assert not box
    assert stage.join().code == Error.COORDINATOR_NOT_AVAILABLE
    assert deleted(stage).code == Error.COORDINATOR_NOT_AVAILABLE
    stage.release()
    assert box.code == Error.NONE
    assert not stage.leader.state.groups
    assert stage.phase == "Dead"


def test_group_that_could_not_be_deleted_lives_on() -> None:
    stage = Stage()
    stage.commit_offset(1)
    stage.fail = Failure.REFUSED
    assert deleted(stage).code == Error.COORDINATOR_NOT_AVAILABLE
    stage.fail = None
    assert stage.offset() == 1
    assert stage.phase == "Empty"


def test_illegal_moves_are_refused() -> None:
    assert after(Phase.EMPTY, Event.REBALANCE) is Phase.PREPARING
    with pytest.raises(IllegalMove):
        after(Phase.STABLE, Event.JOINED)


def test_looking_at_groups_leaves_nothing_behind() -> None:
    stage, box = Stage(), Box()
    places = {"q": [OffsetToCommit(0, 1)]}
    stage.coordinator.commit_offsets(stage.now, "", Identity(), places, box)
    stage.pump()
    assert box.response["topics"][0]["partitions"][0]["error_code"] == Error.NONE, "the group without a name has offsets too"
    stage.heartbeat(Identity("x", 1))
    stage.describe("h")
    stage.join("x", group_id="i")
    assert isinstance(stage.coordinator, Coordinator)
    assert listed(stage) == {"": "Empty"}
    assert stage.coordinator.next_deadline() > stage.now + 10**12
