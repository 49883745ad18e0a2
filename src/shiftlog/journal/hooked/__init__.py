"""Turns that hooks began: which of them have stopped, and which of them an agent makes its own."""
