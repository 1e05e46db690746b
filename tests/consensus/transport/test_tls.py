"""The same connections with mutual TLS: contexts are handed in, and who has no certificate of ours gets nowhere."""

from __future__ import annotations

import ssl

import trustme

from quorate.consensus.core import NodeId, NodeMessage
from quorate.consensus.transport import Identity, Network, Security
from tests.consensus.transport.test_network import HASTY, Peer, append, beat, run
from tests.support.cluster import ANYWHERE, CLUSTER, until


def security(authority: trustme.CA, trusts: trustme.CA) -> Security:
    """Contexts of a node whose certificate is from `authority` and who trusts those of `trusts`."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    certificate = authority.issue_cert("127.0.0.1")
    for context in (server, client):
        certificate.configure_cert(context)
        trusts.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return Security(server, client)


class SafePeer(Peer):
    """A peer that speaks TLS."""

    def __init__(self, node: int, contexts: Security) -> None:
        super().__init__(node)
        identity = Identity(CLUSTER, NodeId(node), 1)
        self.network = Network(identity, self.heard.append, HASTY, contexts, self.changed)


def test_messages_large_and_small_go_over_mutual_tls() -> None:
    async def main() -> None:
        ours = trustme.CA()
        one, two = (SafePeer(n, security(ours, ours)) for n in (1, 2))
        await one.listen(ANYWHERE)
        await two.listen(ANYWHERE)
        one.knows(two)
        two.knows(one)
        await until(lambda: bool(one.network.connected and two.network.connected), "they are connected")
        sent: list[NodeMessage] = [beat(1, 2), append(1, 2, 2_000_000), beat(1, 2, 2)]
        one.network.send(two.node, sent)
        await until(lambda: len(two.heard) == 3, "all arrived")
        assert two.heard == sent
        await one.network.close()
        await two.network.close()

    run(main())


def test_a_certificate_of_somebody_else_gets_nowhere() -> None:
    async def main() -> None:
        ours, theirs = trustme.CA(), trustme.CA()
        one, two = SafePeer(1, security(theirs, ours)), SafePeer(2, security(ours, ours))
        await one.listen(ANYWHERE)
        await two.listen(ANYWHERE)
        one.knows(two)
        two.knows(one)
        one.network.send(two.node, [beat(1, 2)])
        await until(lambda: one.network.unsent > 0, "it was tried")
        assert not two.heard
        assert not two.network.connected
        await one.network.close()
        await two.network.close()

    run(main())
