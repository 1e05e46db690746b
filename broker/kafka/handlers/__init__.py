"""What each API does, by theme. A handler takes a decoded message and returns the answer, or a coroutine of it."""
