"""Fuzzing of decoders that read from a socket or the disk. The targets need nothing; the fuzzer needs the extra `fuzz`."""
