"""Every kind of message that nodes exchange, as hypothesis strategies."""

from __future__ import annotations

from hypothesis import strategies as st

from quorate.consensus.core import (
    Batch,
    BatchKind,
    Configuration,
    GroupId,
    LogStart,
    NodeId,
    NodeMessage,
    Offset,
    ReplicaId,
    Snapshot,
    Term,
    replica_id,
)
from quorate.consensus.core.messages import (
    Append,
    AppendAnswer,
    Beat,
    BeatAnswer,
    Claim,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from quorate.consensus.transport.decode import MAX_TERM

u64 = st.integers(0, (1 << 64) - 1)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)
groups, terms, offsets = u64.map(GroupId), st.integers(0, MAX_TERM).map(Term), i64.map(Offset)
nodes, replicas = u64.map(NodeId), u64.map(ReplicaId)
flags = st.booleans()
heads = (groups, replicas, replicas, terms)

batches = st.builds(Batch, offsets, offsets, terms, st.sampled_from(BatchKind), st.binary(max_size=6_000))
members = st.sets(st.builds(replica_id, st.integers(1, 9), st.integers(1, 9)), max_size=5).map(frozenset)
configurations = st.builds(lambda voters: Configuration(voters=voters), members)
snapshots = st.builds(Snapshot, st.builds(LogStart, offsets, terms, configurations), st.binary(max_size=9_000))
claims = st.lists(st.builds(Claim, *heads), max_size=20).map(tuple)
refusals = st.lists(st.tuples(groups, terms), max_size=20).map(tuple)

messages: st.SearchStrategy[NodeMessage] = st.one_of(
    st.builds(Append, *heads, offsets, terms, offsets, st.lists(batches, max_size=8).map(tuple)),
    st.builds(AppendAnswer, *heads, offsets, flags, offsets, terms),
    st.builds(Heartbeat, *heads, offsets, u64),
    st.builds(HeartbeatAnswer, *heads, offsets, u64),
    st.builds(VoteRequest, *heads, offsets, terms, flags, flags),
    st.builds(VoteAnswer, *heads, flags, flags),
    st.builds(InstallSnapshot, *heads, snapshots),
    st.builds(TimeoutNow, *heads),
    st.builds(Beat, nodes, nodes, u64, u64, u64, st.none() | claims),
    st.builds(BeatAnswer, nodes, nodes, u64, u64, u64, flags, refusals, u64),
)
