"""The fixed layouts of frames, in one place for the encoder and the decoder.

A frame is a u32 length of what follows it, a u8 kind, fixed fields, then what varies. Little-endian throughout.
Each layout here begins with that length and kind, so that encoding a frame is one `pack`.
"""

from __future__ import annotations

from struct import Struct

LENGTH = Struct("<I")
HEAD = Struct("<IB")

HELLO, WELCOME, REFUSAL = 1, 2, 3
APPEND, APPEND_ANSWER, HEARTBEAT, HEARTBEAT_ANSWER = 16, 17, 18, 19
VOTE_REQUEST, VOTE_ANSWER, SNAPSHOT, TIMEOUT_NOW = 20, 21, 22, 23
BEAT, BEAT_ANSWER = 24, 25
NOTE = 26
"""Bytes that are not Raft's business: they follow the head."""

GREETING_START = Struct("<IB8sI")
"""magic, protocol version: the same in every version of the protocol."""
GREETING_LAYOUT = Struct("<IB8sI16sQQQ16s")
"""magic, protocol version, cluster, node, the node that is meant, boot, storage."""
REFUSAL_LAYOUT = Struct("<IB8sH")
"""magic, reason; the text follows."""

# Every group message begins with: group, sender, to, term.
APPEND_LAYOUT = Struct("<IBQQQQqQqI")
"""previous, previous term, commit, count; then one BATCH_LAYOUT per batch, then the batches' bytes in the same order."""
BATCH_LAYOUT = Struct("<BqqQI")
"""kind, base, last, term, length."""
APPEND_ANSWER_LAYOUT = Struct("<IBQQQQqBqQ")
"""match, rejected, hint, hint term."""
HEARTBEAT_LAYOUT = Struct("<IBQQQQqQ")
"""commit, round. The answer has the same layout."""
VOTE_REQUEST_LAYOUT = Struct("<IBQQQQqQBB")
"""last, last term, pre, transfer."""
VOTE_ANSWER_LAYOUT = Struct("<IBQQQQBB")
"""pre, granted."""
SNAPSHOT_LAYOUT = Struct("<IBQQQQqQI")
"""start offset, start term, length of the configuration; then the configuration, then the state."""
TIMEOUT_NOW_LAYOUT = Struct("<IBQQQQ")

BEAT_LAYOUT = Struct("<IBQQQQQBI")
"""sender, to, boot, sequence, version, whether there are claims, their count; then one CLAIM_LAYOUT each."""
CLAIM_LAYOUT = Struct("<QQQQ")
BEAT_ANSWER_LAYOUT = Struct("<IBQQQQQQBI")
"""sender, to, boot, sequence, version, life, known, count of refused; then one REFUSED_LAYOUT each."""
REFUSED_LAYOUT = Struct("<QQ")
