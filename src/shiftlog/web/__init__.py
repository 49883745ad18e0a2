"""The page: what agents did, live and afterwards, for a person with a browser, and as JSON at the same addresses.

Read-only. `routes` lists the addresses, `door` says who may come in, the `*_view` modules say what is shown, templates
and static files how it looks. Nothing here listens on a port: the daemon does.
"""
