"""Environment variables that look secret, judged by their names alone."""

import re

_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|_KEY$", re.I)


def looks_secret(name: str) -> bool:
    """Return True if the value of such a variable is probably a secret."""
    return _SECRET_NAME.search(name) is not None
