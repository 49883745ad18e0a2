"""The MCP face: what it offers (`registry`), how it answers (`face`, `server`), and the wires it speaks over.

The wires are newline-delimited JSON (`transport`, `stdio`) and Streamable HTTP (`http`). Nothing is imported.
"""
