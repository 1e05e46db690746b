"""How nodes talk: a binary codec of the core's messages, and one connection per pair of nodes.

Nothing here knows what a message means; the runtime steps what arrives and sends what the core wants sent.
"""

from quorate.consensus.transport.errors import BadFrame, TransportError
from quorate.consensus.transport.handshake import Identity, Refusal
from quorate.consensus.transport.network import Address, Network, Problem, Security
from quorate.consensus.transport.settings import TransportSettings

__all__ = [
    "Address",
    "BadFrame",
    "Identity",
    "Network",
    "Problem",
    "Refusal",
    "Security",
    "TransportError",
    "TransportSettings",
]
