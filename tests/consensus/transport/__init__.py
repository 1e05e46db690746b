"""The peer transport: codec, framing, handshake, connections."""
