"""The nouns, ids, legal moves and errors of Shiftlog: standard library only, no input or output."""
