"""Dialects: the tool names and shapes of other systems, adapted to our services; one file each."""
