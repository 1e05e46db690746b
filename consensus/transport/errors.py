"""What can be wrong with what arrives on a peer connection."""

from __future__ import annotations


class TransportError(Exception):
    """Base of what this package raises."""


class BadFrame(TransportError):
    """Bytes from the wire that no node of this version writes. The connection they came on is of no more use."""
