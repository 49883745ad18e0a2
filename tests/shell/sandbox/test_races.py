"""Races against the sandbox: what was judged is what a shell gets, however fast a program exchanges it."""

import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shiftlog.model.shell_errors import SandboxUnavailable
from tests.shell.sandbox.conftest import Shells, needs_confinement
from tests.shell.sandbox.flipping import flipped

pytestmark = needs_confinement()
Make = Callable[..., Shells]
BOTH = pytest.mark.parametrize("bwrap", [True, False], ids=["bwrap", "landlock alone"])
TRIES = pytest.mark.parametrize("tries", [12, pytest.param(200, marks=pytest.mark.guard)])
DAMAGE = "echo x > {0}/new; echo x >> {0}/keep.txt; chmod 777 {0}/keep.txt; touch -d 2001-01-01 {0}/keep.txt; :"


def _facts(place: Path) -> list[object]:
    return [(one.name, one.stat().st_mode, one.stat().st_mtime_ns, one.read_bytes()) for one in place.iterdir()]


@BOTH
@TRIES
def test_a_workspace_that_turns_into_a_link_opens_nothing_outside(make_shells: Make, bwrap: bool, tries: int) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    sub, link = shells.workspace / "sub", shells.workspace / "link"
    sub.mkdir()
    link.symlink_to(os.path.relpath(shells.home, shells.workspace))
    spec = replace(shells.base, workspace=str(sub), cwd=str(shells.workspace))
    before = _facts(shells.home)
    with flipped(sub, link, 0.4):
        for _ in range(tries):
            try:
                shells.run(f"{DAMAGE.format(shells.home)}; {DAMAGE.format(sub)}", spec)
            except SandboxUnavailable:
                time.sleep(random.random() * 0.05)  # so that the next try meets another moment of the race
            assert _facts(shells.home) == before


@BOTH
@TRIES
def test_an_extra_place_that_turns_into_a_link_opens_nothing_outside(
    make_shells: Make, bwrap: bool, tries: int
) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    cache, link = shells.workspace / "cache", shells.workspace / "link"
    cache.mkdir()
    link.symlink_to(os.path.relpath(shells.home, shells.workspace))
    spec = replace(shells.base, write_extra=(str(cache),))
    before = _facts(shells.home)
    with flipped(cache, link, 0.4):
        for _ in range(tries):
            shells.run(f"{DAMAGE.format(shells.home)}; {DAMAGE.format(cache)}", spec)
            assert _facts(shells.home) == before


@BOTH
def test_a_link_among_the_extra_places_opens_nothing_and_is_named(make_shells: Make, bwrap: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    link = shells.workspace / "m2"
    link.symlink_to(shells.home)
    spec = replace(shells.base, write_extra=(str(link),))
    before = _facts(shells.home)
    shells.run(DAMAGE.format(link), spec)
    assert _facts(shells.home) == before
    assert f"{link} is not writable" in (shells.sandbox.enforcement(spec)[1] or "")


@BOTH
def test_no_descriptor_leads_out_of_the_sandbox(make_shells: Make, bwrap: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    ran = shells.run("for fd in /proc/$$/fd/*; do readlink $fd; done")
    assert not [line for line in ran.out.splitlines() if line.startswith("/") and line != "/dev/null"]
