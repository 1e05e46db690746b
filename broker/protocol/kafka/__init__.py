"""The Kafka protocol's messages, both directions: headers, bodies from declarative tables, fast paths for Produce and Fetch.

Bytes in, values out, and back. Every length is checked against the bytes that remain before it is used; anything malformed
is `errors.BadMessage`. Not here: sockets, framing of a stream, or anything that acts on a request.
"""
