"""The kinds of machines that the guard is attacked on: with and without bubblewrap, as root and as an ordinary user.

Root can show all four: it starts the product's programs where bubblewrap is covered, and as another user.
"""

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

USER = 61234
_WITHOUT_BWRAP = ["unshare", "-m", "sh", "-c", 'mount --bind /dev/null "$(command -v bwrap)" && exec "$@"', "sh"]
_AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all"]
_KINDS = [(bwrap, user) for bwrap in (True, False) for user in (False, True)]


def prefix(*, bwrap: bool, user: bool) -> list[str]:
    """Return the words that start a program on such a machine; skip the test where this one cannot show it."""
    if (user or (not bwrap and shutil.which("bwrap"))) and os.geteuid() != 0:
        pytest.skip("only root can show another kind of machine")
    hidden = _WITHOUT_BWRAP if not bwrap and shutil.which("bwrap") else []
    return [*hidden, *(_AS_USER if user else [])]


def give(place: Path, *, user: bool) -> Path:
    """Make a directory that belongs to the machine's user."""
    place.mkdir()
    if user:
        os.chown(place, USER, USER)
    return place


@contextmanager
def ground() -> Generator[Path]:
    """Make a directory that every user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="sg-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


KINDS = pytest.mark.parametrize(
    ("bwrap", "user"),
    _KINDS,
    ids=[f"{'user' if user else 'root'}, {'bwrap' if bwrap else 'landlock alone'}" for bwrap, user in _KINDS],
)
