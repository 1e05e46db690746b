"""Time for the log: the hybrid clock that stamps appends (`hybrid`), and how sure the kernel is of its clock (`kernel`)."""
