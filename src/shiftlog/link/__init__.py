"""The stdlib-only side of the socket: how a program finds, starts, greets and survives the daemon (bridge, hook,
client).
"""
