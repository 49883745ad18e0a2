"""The packages that only some features need, and how a user installs them."""

import sys

# The extra in pyproject.toml that brings each of them.
_EXTRAS = {
    "asyncssh": "ssh",
    "prometheus_client": "server",
    "psycopg": "postgres",
    "psycopg_pool": "postgres",
    "uvloop": "server",
    "watchfiles": "watch",
}


def install_hint(module: str | None) -> str | None:
    """Return the command that installs a module which one of our extras brings; None for any other module."""
    extra = _EXTRAS.get((module or "").partition(".")[0])
    return f"Install it: {sys.executable} -m pip install 'shiftlog[{extra}]'" if extra else None
