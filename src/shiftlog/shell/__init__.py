"""Live shells: the engine that drives one, the targets they live on, and what becomes of their output."""
