"""How a LevelDB log uses its memory and its disk. Validated here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, fields

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, kw_only=True)
class StorageSettings:
    """One replica's share. Each node may choose its own."""

    write_buffer_bytes: int = 8 * MIB
    """What LevelDB gathers in memory before it writes a table. A replica that has been written to keeps up to twice this."""
    table_bytes: int = 16 * MIB
    """The size of one table file: larger means fewer open files for a long log."""
    block_bytes: int = 16 * KIB
    """What is read and checked at once. A batch that is larger is a block of its own."""
    cache_bytes: int = 256 * KIB
    """For blocks that small reads share. Batches are read past it."""
    open_files: int = 64
    """How many tables stay open."""
    reserve_bytes: int = 32 * MIB
    """Room that batches leave free, so that a full disk can still take what makes room, and the log can be opened."""
    trim_batches: int = 512
    """How many dead batches are removed at once, between two writes."""
    compact_bytes: int = 64 * MIB
    """How much may be removed before its files are given back."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise ValueError(f"{field.name} must be a positive whole number, not {value!r}")
