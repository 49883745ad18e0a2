"""The session log's REPL: envelopes on standard input, answers on standard output.

`framing` finds the documents, `envelopes` reads and writes them, `backend` has the calls answered by the daemon or,
where none can be had, in this process. Nothing here knows what a method does.
"""
