"""The session log's REPL: request envelopes on standard input, answers on standard output."""
