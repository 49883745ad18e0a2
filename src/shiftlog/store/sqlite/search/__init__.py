"""Full text and substrings."""
