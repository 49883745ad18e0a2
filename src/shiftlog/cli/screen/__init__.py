"""What a terminal gets."""
