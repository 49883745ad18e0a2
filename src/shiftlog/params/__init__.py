"""One declaration per argument: JSON Schema, check and wording, for every tool, dialect, setting and policy key."""
