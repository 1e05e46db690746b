"""What a script can say, command by command: reads the arguments and asks the stage.

The table at the end is the whole language; docs/scenarios.md explains it.
"""

from __future__ import annotations

from collections.abc import Callable

from quorate.consensus.core import GroupId, HardState, Offset, Raft, RaftSettings, Term
from quorate.consensus.core.types import NO_REPLICA
from tests.scenarios import show
from tests.scenarios.language import Arguments, Mistake, number, replica
from tests.scenarios.network import Choice
from tests.scenarios.stage import Stage

Command = Callable[[Stage, Arguments], None]


def run_command(stage: Stage, text: str) -> None:
    """Carry out one line of a script. Raises Mistake."""
    arguments = Arguments(text)
    command = COMMANDS.get(arguments.name)
    if command is None:
        raise Mistake(f"there is no command {arguments.name!r}; there are {', '.join(sorted(COMMANDS))}")
    command(stage, arguments)


def _group(stage: Stage, arguments: Arguments) -> GroupId:
    group = GroupId(arguments.number_option("group") or stage.groups[0])
    if group not in stage.groups:
        raise Mistake(f"there is no group {group}; there are {len(stage.groups)}")
    return group


def _target(stage: Stage, arguments: Arguments) -> tuple[int, GroupId]:
    """The node that a command begins with, and the group it means. Both are checked before anything happens."""
    node = arguments.number("a node")
    stage.host(node)
    return node, _group(stage, arguments)


def _nodes(stage: Stage, arguments: Arguments) -> list[int]:
    """The nodes that are named, or all."""
    named = [number(word, "a node") for word in arguments.words()]
    for node in named:
        stage.host(node)
    return named or sorted(stage.hosts)


def _choice(stage: Stage, arguments: Arguments) -> Choice:
    kind = arguments.option("type")
    if kind is not None and kind not in show.KINDS:
        raise Mistake(f"there are no messages of type {kind!r}; there are {', '.join(show.KINDS)}")
    sender, to, either = (arguments.number_option(name) for name in ("from", "to", "with"))
    for node in (sender, to, either):
        if node is not None:
            stage.host(node)
    return Choice(
        sender=sender,
        to=to,
        either=either,
        kind=kind,
        count=arguments.number_option("count"),
        backwards=arguments.flag("backwards"),
    )


# The cluster.


def add_nodes(stage: Stage, arguments: Arguments) -> None:
    count = arguments.number("how many nodes")
    leader, groups = arguments.number_option("leader"), arguments.number_option("groups") or 1
    beat = arguments.number_option("beat_ms")
    settings = {name: number(value, f"{name}=") for name, value in arguments.rest().items()}
    arguments.done()
    try:
        stage.settings = RaftSettings(**({"commit_news_ms": 0} | settings))
    except (TypeError, ValueError) as error:
        raise Mistake(f"bad setting: {error}") from None
    if beat is not None:
        stage.beat_ms = beat
    stage.add_nodes(count, groups)
    if leader is None:
        stage.say(f"{count} voters in term 0" if count > 1 else "1 voter in term 0")
        return
    stage.host(leader)
    with stage.hushed():
        for group in stage.groups:
            stage.ask(leader, group, Raft.campaign)
        stage.settle(Choice(), quiet=True)
    for group in stage.groups:
        host, raft = stage.host(leader), stage.raft(leader, group)
        host.tell(raft, f"is leader in term {raft.term}, commit {show.offset(raft.log.commit)}")


def given(stage: Stage, arguments: Arguments) -> None:
    node, _ = _target(stage, arguments)
    terms = [number(word, "terms=") for word in (arguments.option("terms") or "").split(",") if word]
    if not terms or terms != sorted(terms) or not 0 < terms[0] <= terms[-1] < 10:
        raise Mistake("terms= needs terms between 1 and 9 that never fall")
    term = arguments.number_option("term") or terms[-1]
    vote = arguments.option("vote")
    arguments.done()
    stage.given(node, terms, HardState(Term(term), replica(vote) if vote else NO_REPLICA, Offset(-1)))
    log(stage, Arguments(f"log {node}"))


def new_replica(stage: Stage, arguments: Arguments) -> None:
    fresh = replica(arguments.word("a replica"))
    arguments.done()
    stage.new_replica(fresh)


def crash(stage: Stage, arguments: Arguments) -> None:
    node = arguments.number("a node")
    keep = arguments.number_option("keep") or 0
    arguments.done()
    stage.crash(node, keep)


def restart(stage: Stage, arguments: Arguments) -> None:
    node = arguments.number("a node")
    arguments.done()
    stage.restart(node)


def pause(stage: Stage, arguments: Arguments) -> None:
    node, _ = _target(stage, arguments)
    arguments.done()
    stage.host(node).paused = True


def resume(stage: Stage, arguments: Arguments) -> None:
    node, _ = _target(stage, arguments)
    arguments.done()
    if not stage.host(node).paused:
        raise Mistake(f"node {node} is not paused")
    stage.host(node).paused = False


# Requests.


def campaign(stage: Stage, arguments: Arguments) -> None:
    node, group = _target(stage, arguments)
    arguments.done()
    stage.ask(node, group, Raft.campaign)


def propose(stage: Stage, arguments: Arguments) -> None:
    node, group = _target(stage, arguments)
    text = arguments.word("a text")
    count, size = arguments.number_option("count"), arguments.number_option("bytes")
    arguments.done()
    data = text.encode() * (size or 1)

    def request(raft: Raft) -> str:
        return f"appends {show.batch(raft.propose(data, 1 if count is None else count))}"

    stage.ask(node, group, request)


def read(stage: Stage, arguments: Arguments) -> None:
    node, group = _target(stage, arguments)
    arguments.done()
    stage.ask(node, group, lambda raft: f"begins read {raft.read_index()}")


def transfer(stage: Stage, arguments: Arguments) -> None:
    node, group = _target(stage, arguments)
    to = arguments.option("to")
    arguments.done()
    if to is None:
        raise Mistake("transfer needs to=")
    target = replica(to)
    stage.ask(node, group, lambda raft: raft.transfer(target))


def change_members(stage: Stage, arguments: Arguments) -> None:
    node, group = _target(stage, arguments)
    voters, learners = arguments.replicas("voters"), arguments.replicas("learners")
    arguments.done()
    if voters is None:
        raise Mistake("change-members needs voters=")

    def request(raft: Raft) -> str:
        return f"appends {show.batch(raft.change_members(voters, learners or ()))}"

    stage.ask(node, group, request)


def compact(stage: Stage, arguments: Arguments) -> None:
    node, group = _target(stage, arguments)
    offset = Offset(arguments.number("an offset"))
    arguments.done()
    stage.raft(node, group)
    seat = stage.host(node).seats[group]

    def request(raft: Raft) -> str:
        if offset <= raft.log.start:
            raft.compact(offset)
            return f"has no log up to {offset} any more"
        raft.compact(offset)
        # The state machine keeps its own state before the log behind it goes, which is with the next turn's write.
        state = seat.state_at(offset)
        seat.disk.save_state(offset, state)
        return f"forgets its log up to {offset} and keeps state ({show.shorten(state.decode())})"

    stage.ask(node, group, request)


# Disks.


def disk(stage: Stage, arguments: Arguments) -> None:
    mode = arguments.word("a mode: manual or automatic")
    if mode not in ("manual", "automatic"):
        raise Mistake(f"a disk is manual or automatic, not {mode!r}")
    for node in _nodes(stage, arguments):
        host = stage.host(node)
        host.manual = mode == "manual"
        if not host.manual and any(seat.disk.pending for seat in host.seats.values()):
            stage.sync(node, None)
    arguments.done()


def sync(stage: Stage, arguments: Arguments) -> None:
    node, count = arguments.number("a node"), arguments.number_option("count")
    arguments.done()
    stage.sync(node, count)


def fail_sync(stage: Stage, arguments: Arguments) -> None:
    node, group = _target(stage, arguments)
    arguments.done()
    stage.fail_sync(node, group)


# The network.


def deliver(stage: Stage, arguments: Arguments) -> None:
    choice, quiet, together = _choice(stage, arguments), arguments.flag("quiet"), arguments.flag("together")
    arguments.done()
    if quiet and together:
        raise Mistake("deliver is either quiet or together")
    messages = stage.network.take(choice, stage.paused())
    if together:
        stage.deliver_together(messages)
    else:
        stage.deliver(messages, quiet=quiet)
    if not messages:
        stage.say("nothing")


def settle(stage: Stage, arguments: Arguments) -> None:
    choice, quiet = _choice(stage, arguments), arguments.flag("quiet")
    arguments.done()
    if choice.count is not None or choice.backwards:
        raise Mistake("settle delivers one message after the other until none is left: no count=, no backwards")
    stage.settle(choice, quiet=quiet)


def drop(stage: Stage, arguments: Arguments) -> None:
    choice, quiet = _choice(stage, arguments), arguments.flag("quiet")
    arguments.done()
    messages = stage.network.take(choice)
    if quiet:
        stage.say(f"lost {len(messages)} messages")
    else:
        stage.show_messages(messages, "lost ")


def duplicate(stage: Stage, arguments: Arguments) -> None:
    choice = _choice(stage, arguments)
    arguments.done()
    stage.show_messages(stage.network.double(choice), "doubled ")


def hold(stage: Stage, arguments: Arguments) -> None:
    choice = _choice(stage, arguments)
    arguments.done()
    stage.show_messages(stage.network.hold(choice), "held ")


def release(stage: Stage, arguments: Arguments) -> None:
    choice = _choice(stage, arguments)
    arguments.done()
    stage.show_messages(stage.network.release(choice), "released ")


def in_flight(stage: Stage, arguments: Arguments) -> None:
    choice = _choice(stage, arguments)
    arguments.done()
    stage.show_messages(choice.pick(stage.network.flying))


def partition(stage: Stage, arguments: Arguments) -> None:
    words = arguments.words()
    arguments.done()
    way = next((word for word in words if word in ("|", "->")), None)
    if way is None:
        raise Mistake("partition needs two sides: 'partition 1 | 2 3' cuts both ways, 'partition 1 -> 2 3' cuts one way")
    sides = [[number(word, "a node") for word in side.split()] for side in " ".join(words).split(way)]
    for node in (node for side in sides for node in side):
        stage.host(node)
    for index, side in enumerate(sides):
        for other in sides[index + 1 :]:
            pairs = {(one, two) for one in side for two in other}
            stage.network.cuts |= pairs if way == "->" else pairs | {(two, one) for one, two in pairs}


def heal(stage: Stage, arguments: Arguments) -> None:
    arguments.done()
    stage.network.cuts.clear()


# Time.


def advance(stage: Stage, arguments: Arguments) -> None:
    millis = arguments.number("how many ms")
    arguments.done()
    stage.advance(millis, deliver=False)


def run(stage: Stage, arguments: Arguments) -> None:
    millis = arguments.number("how many ms")
    arguments.done()
    stage.advance(millis, deliver=True)


# Looking.


def status(stage: Stage, arguments: Arguments) -> None:
    group = _group(stage, arguments)
    nodes = _nodes(stage, arguments)
    arguments.done()
    for node in nodes:
        if stage.host(node).node is None:
            stage.say(f"{node} is down")
        else:
            for line in show.status(stage.raft(node, group)):
                stage.say(line)


def log(stage: Stage, arguments: Arguments) -> None:
    group = _group(stage, arguments)
    nodes = _nodes(stage, arguments)
    arguments.done()
    for node in nodes:
        image = stage.host(node).seats[group].disk.written
        start = f"after {show.place(image.start.offset, image.start.term)} " if image.start.offset >= 0 else ""
        stage.say(f"{node}: {start}{show.batches(image.batches)}")


COMMANDS: dict[str, Command] = {
    "add-nodes": add_nodes,
    "advance": advance,
    "campaign": campaign,
    "change-members": change_members,
    "compact": compact,
    "crash": crash,
    "deliver": deliver,
    "disk": disk,
    "drop": drop,
    "duplicate": duplicate,
    "fail-sync": fail_sync,
    "given": given,
    "heal": heal,
    "hold": hold,
    "in-flight": in_flight,
    "log": log,
    "new-replica": new_replica,
    "partition": partition,
    "pause": pause,
    "propose": propose,
    "read": read,
    "release": release,
    "restart": restart,
    "resume": resume,
    "run": run,
    "settle": settle,
    "status": status,
    "sync": sync,
    "transfer": transfer,
}
