"""A node: its settings, and the assembly of its parts into one process."""
