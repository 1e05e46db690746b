"""The consensus part: its core, and what stands around it."""
