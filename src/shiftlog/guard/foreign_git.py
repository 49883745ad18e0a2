"""The way to ask git about a repository that other programs wrote: git starts nothing that its settings name.

Besides hooks and monitors these are programs that check signatures, and those that fetch objects which a repository
claims to have elsewhere.
"""

import os

from shiftlog.guard.own_programs import search_path

COMMAND = (
    "git",
    "--no-pager",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.quotePath=false",
    "-c",
    "log.showSignature=false",
)
# Older versions of git do not know the last one; without a protocol they fetch nothing either.
_SETTINGS = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
}


def environment(repository: str) -> dict[str, str]:
    """Return the environment for `COMMAND`; variables of git that were set for something else are left out.

    Git itself is not looked for in the repository either.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return own | {"PATH": search_path(os.environ, repository)} | _SETTINGS
