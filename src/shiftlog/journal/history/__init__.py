"""Reading the journal: lists, search, whole sessions and turns, in pages of a bounded size."""
