"""Random writes that follow from a seed and from what the log holds, so that two processes come to the same ones."""

from __future__ import annotations

import random

from quorate.consensus.core import Batch, HardState, LogStart, Offset, Persist, Restored, Term, Token, replica_id
from quorate.consensus.storage.api import LogStore
from tests.support.batches import THREE, config_batch, data_batch, noop
from tests.support.disk import Image

ALL = 1 << 40


def image_of(store: LogStore) -> Image:
    """Everything that a store holds."""
    restored = store.restore()
    image = Image(Restored(restored.hard_state, restored.start))
    image.batches = list(store.read(Offset(store.start + 1), ALL))
    image.bases = [batch.base for batch in image.batches]
    image.state_offset, image.state = store.load_state()
    return image


def same(one: Image, other: Image) -> bool:
    """Whether two images hold the same."""
    return (one.hard_state, one.start, one.batches) == (other.hard_state, other.start, other.batches)


def next_write(rng: random.Random, image: Image, sync: bool = True) -> Persist:
    """One write: mostly appends, some of them over a truncated tail, now and then a moved start or a vote."""
    term = Term(image.hard_state.term + (rng.random() < 0.1))
    token = Token(1, term, image.last, term)
    ends = [image.start.offset, *(batch.last for batch in image.batches)]
    dice = rng.random()
    if dice < 0.06 and len(ends) > 2:
        batch = image.batches[rng.randrange(len(image.batches) // 2 + 1)]
        return Persist(token, sync=False, start=LogStart(batch.last, batch.term, THREE))
    if dice < 0.12:
        return Persist(token, sync, hard_state=HardState(Term(term + 1), replica_id(2), image.start.offset))
    last = ends[-1]
    if dice < 0.25:
        term = Term(term + 1)
        last = ends[max(0, len(ends) - 1 - rng.randrange(1, 5))]
    made: list[Batch] = []
    for _ in range(rng.randrange(1, 4)):
        made.append(_batch(rng, (made[-1].last if made else last) + 1, max(term, Term(1))))
    hard_state = HardState(max(term, Term(1)), replica_id(1), image.start.offset)
    truncate = None if last == ends[-1] else last
    return Persist(token, sync, hard_state=hard_state, truncate=truncate, batches=tuple(made))


def _batch(rng: random.Random, base: int, term: Term) -> Batch:
    dice = rng.random()
    if dice < 0.05:
        return noop(base, term)
    if dice < 0.1:
        return config_batch(base, THREE, term)
    size = rng.choice([1, 100, 1_000, 20_000]) + rng.randrange(50)
    return data_batch(base, rng.randrange(1, 6), term, size, 1_000 + base)
