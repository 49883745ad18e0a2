"""Doubts that follow from all starts of a command: copies of programs, and arguments that may complete an entry."""
