"""The `quorate` command: options, help texts and output.

May import any of our packages, and none of them imports it. Not here: the work itself; each command calls the
package that does it.
"""
