"""The reader of Codex rollouts, one module per group of records."""
