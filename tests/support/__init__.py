"""What several kinds of tests of the core share: a disk in memory that can crash."""
