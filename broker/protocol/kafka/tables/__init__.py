"""The messages as text, one line per field: `name type[?nullable-versions] [versions] [tag=n] [default=x]`.

Versions that are left out are those of the enclosing structure; indentation nests; `[]` alone is an array of structures.
Read by `quorate.broker.protocol.kafka.schema`. Only versions that we speak are written down (`apis.SUPPORTED`).
"""
