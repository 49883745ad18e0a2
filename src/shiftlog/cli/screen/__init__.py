"""Terminal output: colours, pager, progress and tables."""
