"""The composition root: one App per state directory; the only place where rooms meet."""
