"""A crowd of simulated members on a stage with faults: lost answers, failed and uncertain appends, changes of leader.

Whatever is answered is checked at once; `calm` stops the faults and `settled` says whether everybody has arrived.
"""

from __future__ import annotations

from random import Random

from quorate.broker.groups import (
    Append,
    Done,
    Failure,
    GroupsState,
    Identity,
    JoinRequest,
    Leaver,
    OffsetToCommit,
    Response,
    SyncRequest,
)
from quorate.broker.protocol.kafka.errors import Error
from tests.broker.groups.stage import REBALANCE_MS, SESSION_MS, Stage

AWAY = (Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID)


class Crowd:
    """Runs the members and keeps the books. Offsets rise with every commit, so an older one would be seen."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.stage = Hazards(self.random)
        self.leaders: dict[int, str] = {}
        self.assignments: dict[int, bytes] = {}
        self.generation = 0
        self.offset = 0
        self.acknowledged = -1
        self.clients = [Client(self, number) for number in range(self.random.randint(1, 5))]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.stage.disturb()
            self.random.choice(self.clients).step()
            self.stage.pass_time(self.random.choice((0, 10, 200, 1_500)))
            if self.random.random() < 0.1:
                self.check_offset()

    def calm(self) -> None:
        self.stage.calm()
        for client in self.clients:
            client.calm = True

    def settle(self, rounds: int) -> bool:
        for _ in range(rounds):
            for client in self.clients:
                client.step()
                self.stage.pass_time(200)
            if len({(c.phase, c.generation) for c in self.clients}) == 1 and self.clients[0].phase == "stable":
                return True
        return False

    def check_offset(self) -> None:
        floor = self.acknowledged

        def fetched(response: Response) -> None:
            if response["error_code"] == Error.NONE:
                assert response["topics"][0]["partitions"][0]["committed_offset"] >= floor, "an acknowledged commit is gone"

        self.stage.coordinator.fetch_offsets(self.stage.now, "g", {"q": [0]}, fetched)
        self.stage.pump()

    def saw_join(self, response: Response) -> None:
        generation, leader = response["generation_id"], response["leader"]
        assert generation >= self.generation, "generations went back"
        self.generation = generation
        # A static leader that comes back has a new id, and is the same leader.
        known = leader.rsplit("-", 1)[0] if leader.startswith("instance") else leader
        assert self.leaders.setdefault(generation, known) == known, "two leaders"
        if response["members"]:
            assert response["member_id"] == leader

    def saw_assignment(self, generation: int, assignment: bytes) -> None:
        division = assignment.split(b"|")[0]
        assert self.assignments.setdefault(generation, division) == division, "two assignments in one generation"


class Hazards(Stage):
    """Three replicas. Appends may be held back, refused, or be lost with the leader."""

    def __init__(self, random: Random) -> None:
        super().__init__(3)
        self.random = random
        self.hazardous = True

    def calm(self) -> None:
        self.hazardous, self.fail, self.fail_confirms = False, None, None
        self.release()
        self.catch_up(self.leader)
        self.pump()

    def disturb(self) -> None:
        dice = self.random.random()
        if dice < 0.04:
            self.lose_leader()
        elif dice < 0.2:
            self.hold = True
        elif dice < 0.5:
            self.release()
        if self.random.random() < 0.5:
            self.catch_up(self.leader)
            self.pump()
        self.fail = self.random.choice((Failure.REFUSED, Failure.TOO_LARGE)) if self.random.random() < 0.05 else None

    def commit(self, append: Append) -> None:
        """Sometimes the outcome is known before the batch is applied, and time passes in between."""
        if self.hazardous and self.random.random() < 0.3:
            append.done(self.put(append), self.now)
        else:
            super().commit(append)

    def lose_leader(self) -> None:
        """What was held back is in the next leader's log up to some point. The old one never hears, or hears too late."""
        old, held = self.coordinator, list(self.held)
        for append in held[: self.random.randint(0, len(held))]:
            self.put(append)
        early = self.random.random() < 0.3
        if early:
            for append in held:
                append.done(Failure.UNCERTAIN, self.now)
        self.hold = False
        self.fail_over(self.random.randrange(3))
        if not early and self.coordinator is not old:
            for append in held:
                append.done(Failure.UNCERTAIN, self.now)
            assert not old.take()

    def check_replicas(self) -> None:
        """All replicas, and one that reads the log from its beginning by way of a snapshot, are alike."""
        fresh = GroupsState()
        cut = self.random.randint(0, len(self.log))
        fresh.apply(self.log[:cut])
        again = GroupsState()
        again.load(fresh.applied, fresh.save())
        again.apply(self.log[cut:])
        for replica in self.replicas:
            self.catch_up(replica)
            assert replica.state.save() == again.save()


class Client:
    """One consumer. Phases: out (asks to join), joining, syncing, stable."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self.crowd = crowd
        self.random = crowd.random
        self.name = f"client{number}"
        self.instance = f"instance{number}" if self.random.random() < 0.3 else None
        self.modern = self.random.random() < 0.7
        self.member_id = ""
        self.generation = -1
        self.phase = "out"
        self.request = 0
        self.asked_at = 0
        self.calm = False

    def identity(self) -> Identity:
        return Identity(self.member_id, self.generation, self.instance)

    def step(self) -> None:
        stage = self.crowd.stage
        if self.phase in ("joining", "syncing") and stage.now - self.asked_at > 2 * REBALANCE_MS:
            self.phase = "out"  # The answer was lost.
        if not self.calm and self.random.random() < 0.02:
            self.restart()
        if self.phase == "out":
            self.join()
        elif self.phase == "stable":
            self.work()

    def restart(self) -> None:
        """The process ends, with a goodbye or without."""
        if self.random.random() < 0.5 and self.instance is None and self.member_id:
            self.crowd.stage.leave(Leaver(self.member_id))
        self.member_id, self.phase = "", "out"
        self.request += 1

    def listen(self, then: Done) -> Done:
        """A callback for the current request; answers that are lost, or that nobody waits for any more, go nowhere."""
        self.request += 1
        number, lost = self.request, not self.calm and self.random.random() < 0.05
        self.asked_at = self.crowd.stage.now
        answered: list[Response] = []

        def done(response: Response) -> None:
            assert not answered, "answered twice"
            answered.append(response)
            if number == self.request and not lost:
                then(response)

        return done

    def join(self) -> None:
        self.phase = "joining"
        stage = self.crowd.stage
        request = JoinRequest(
            group_id="g",
            member_id=self.member_id,
            group_instance_id=self.instance,
            client_id=self.name,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=(("range", b"r"), ("sticky", b"s")),
            require_member_id=self.modern,
        )
        stage.coordinator.join(stage.now, request, self.listen(self.joined))
        stage.pump()

    def joined(self, response: Response) -> None:
        if response["error_code"] == Error.MEMBER_ID_REQUIRED:
            self.member_id = response["member_id"]
            return self.join()
        if response["error_code"]:
            return self.failed(response)
        self.crowd.saw_join(response)
        self.member_id, self.generation, self.phase = response["member_id"], response["generation_id"], "syncing"
        stage, division = self.crowd.stage, b"%d" % self.random.getrandbits(32)
        work = {m["member_id"]: division + b"|" + m["member_id"].encode() for m in response["members"]}
        request = SyncRequest(group_id="g", member=self.identity(), assignments=work)
        stage.coordinator.sync(stage.now, request, self.listen(self.synced))
        return stage.pump()

    def synced(self, response: Response) -> None:
        if response["error_code"]:
            return self.failed(response)
        self.crowd.saw_assignment(self.generation, response["assignment"])
        self.phase = "stable"
        return None

    def failed(self, response: Response) -> None:
        if response["error_code"] in AWAY:
            self.member_id = ""
        self.phase = "out"

    def work(self) -> None:
        crowd, stage = self.crowd, self.crowd.stage
        if self.calm or self.random.random() < 0.5:

            def beaten(response: Response) -> None:
                if response["error_code"] and response["error_code"] != Error.NOT_COORDINATOR:
                    self.failed(response)

            stage.coordinator.heartbeat(stage.now, "g", self.identity(), self.listen(beaten))
        else:
            crowd.offset += 1
            offset = crowd.offset

            def committed(response: Response) -> None:
                # Seen even if the client is gone: it was acknowledged.
                if response["error_code"] == Error.NONE:
                    crowd.acknowledged = max(crowd.acknowledged, offset)

            self.commit(offset, committed)
        stage.pump()

    def commit(self, offset: int, done: Done) -> None:
        stage = self.crowd.stage
        stage.coordinator.commit_offsets(
            stage.now,
            "g",
            self.identity(),
            {"q": [OffsetToCommit(0, offset)]},
            lambda response: done({"error_code": response["topics"][0]["partitions"][0]["error_code"]}),
        )
