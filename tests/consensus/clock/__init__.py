"""The hybrid clock, with wall clocks that jump."""
