"""JSON and YAML 1.2 (core schema) as the REPL reads and writes them."""
