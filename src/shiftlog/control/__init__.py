"""Answers to the questions that our own programs ask over the control socket; one module per subject."""
