"""The external cluster manager: which cluster holds which partition of which queue.

It knows clusters, not nodes. Not here: the manager inside a cluster, which places replicas on nodes (`quorate.broker`).
"""
