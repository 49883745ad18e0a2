"""Read bash text into a tree, or say why not. Knows no policy. Door: read_script(text) -> Script | Fault."""
