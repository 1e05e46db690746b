"""The log stores, the writer threads, and what becomes of them in crashes, on full and on damaged disks."""
