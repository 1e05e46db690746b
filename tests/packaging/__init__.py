"""What is shipped: the wheel, as a user would install it."""
