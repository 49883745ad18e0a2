"""The capsule: gathered, cut to its budget, written as Markdown."""
