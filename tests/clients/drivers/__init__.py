"""The same few jobs done with each client library; `python -m tests.clients.drivers JOB` runs one."""
