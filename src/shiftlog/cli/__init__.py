"""The command line: one module per group of commands. `program` has their table, `errors` the exit statuses."""
