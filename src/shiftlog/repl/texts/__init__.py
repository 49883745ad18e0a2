"""JSON and YAML 1.2 core as the REPL reads and writes them."""
