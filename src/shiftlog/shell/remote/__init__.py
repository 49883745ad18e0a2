"""The same bash over any wire: keeper, lines, aside."""
