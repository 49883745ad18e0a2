"""The kinds of machines that the guard is attacked on: with and without bubblewrap, as root and as an ordinary user.

Root can show all four: it starts the product's programs where bubblewrap is covered, and as another user.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.cli.agent import Agent
from tests.daemon.support import BRIDGE, Bridge, end_daemon

USER = 61234
_WITHOUT_BWRAP = ["unshare", "-m", "sh", "-c", 'mount --bind /dev/null "$(command -v bwrap)" && exec "$@"', "sh"]
_AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--inh-caps=-all"]
_KINDS = [(bwrap, user) for bwrap in (True, False) for user in (False, True)]


def prefix(*, bwrap: bool, user: bool) -> list[str]:
    """Return the words that start a program on such a machine; skip the test where this one cannot show it."""
    if (user or (not bwrap and shutil.which("bwrap"))) and os.geteuid() != 0:
        pytest.skip("only root can show another kind of machine")
    if user and not _reaches_checkout():
        pytest.skip(f"user {USER} cannot read this checkout: a folder above it is closed to others")
    hidden = _WITHOUT_BWRAP if not bwrap and shutil.which("bwrap") else []
    return [*hidden, *(_AS_USER if user else [])]


@cache
def _reaches_checkout() -> bool:
    """Return True if the ordinary user can start the product from this checkout."""
    return subprocess.run([*_AS_USER, "test", "-r", __file__], check=False).returncode == 0


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


@contextmanager
def serving(
    ground: Path,
    policy: str,
    *,
    bwrap: bool,
    user: bool,
    given: Mapping[str, str] | None = None,
    home: str = "../h",
    around: Sequence[str] = (),
) -> Generator[tuple[Agent, Path, Path]]:
    """Connect an agent that works in a directory to a daemon with this policy; give state and working directory.

    `home` is the state directory as the working directory names it, `given` are variables of the agent,
    `around` are words that start all of it as root.
    """
    place, login = (give(ground / name, user=user) for name in ("work", "login"))
    for folder in reversed([one for one in (place / home, *(place / home).parents) if not one.exists()]):
        give(folder, user=user)
    state = (place / home).resolve()
    (state / "config.toml").write_text(policy)
    (state / "config.toml").chmod(0o644)
    settings = [f"{name}={value}" for name, value in {"HOME": str(login), **(given or {})}.items()]
    program = [*around, *prefix(bwrap=bwrap, user=user), "env", "-C", str(place), *settings, *BRIDGE]
    try:
        with Bridge(state, program=program) as bridge:
            bridge.shake_hands()
            yield Agent(bridge), state, place
    finally:
        end_daemon(state)


KINDS = pytest.mark.parametrize(
    ("bwrap", "user"),
    _KINDS,
    ids=[f"{'user' if user else 'root'}, {'bwrap' if bwrap else 'landlock alone'}" for bwrap, user in _KINDS],
)
