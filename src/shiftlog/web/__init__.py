"""The page: what agents did, live and afterwards, for a person with a browser, and as JSON at the same addresses.

`routes` lists the addresses, `door` controls access, `views` gather the data; `present`, templates and
static files show it. The daemon listens on the port.
"""
