"""The MCP face: what it offers (`catalogue`, `registry`), how it answers (`face`, `server`), and its transports.

The transports are newline-delimited JSON (`transport`, `stdio`) and Streamable HTTP (`http`).
"""
