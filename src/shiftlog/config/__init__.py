"""The operator's settings: their declaration, and how `config.toml` and `SHIFTLOG_*` variables are read."""
