"""The HTTP side of a node: health, and the cluster's administration. Sending and receiving over HTTP comes later."""
