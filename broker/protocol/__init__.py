"""What goes over the wire between a node and its clients: requests, answers, errors and their encoding.

The only part of broker that `quorate.client` may import.
Not here: sockets, routing, or anything that acts on a request.
"""
