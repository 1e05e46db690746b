"""Architecture as tests: the import contracts of setup.cfg, and proof that each of them can fail."""
