"""A deterministic simulator of the core: from one seed, hostile networks, disks, clocks and operators.

`plan` draws what a run is like, `world` is time and the network, `machine` is a node's process and its disks, `faults` and
`operators` do harm and work, `oracle` knows what must never happen, `bugs` are planted to prove that it finds them.
"""
