"""Each fault does what it says, ends when it says, and a schedule of them is the same for the same seed."""
