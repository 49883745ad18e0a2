"""Disks that fail, for tests as root: small ones that can be filled, and mounts that become read-only."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a disk needs root")


@contextmanager
def small_disk(place: Path, megabytes: int = 16) -> Generator[Path]:
    """Mount a disk of this size; yield a state directory on it."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", place], check=True)
    try:
        home = place / "h"
        home.mkdir(mode=0o700)
        yield home
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def remount(place: Path, how: str) -> None:
    """Make a disk read-only (`ro`) or writable (`rw`)."""
    subprocess.run(["mount", "-o", f"remount,{how}", place], check=True)


@contextmanager
def seen_read_only(folder: Path, place: Path) -> Generator[Path]:
    """Mount a folder a second time, for reading only; yield the mount."""
    place.mkdir()
    subprocess.run(["mount", "--bind", folder, place], check=True)
    try:
        remount(place, "bind,ro")
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path, leave_bytes: int = 0) -> Path:
    """Fill a disk to the last byte, but for some; return the file that takes the room."""
    filler = place / "filler"
    disk = os.statvfs(place)
    with filler.open("ab", buffering=0) as file:
        left = disk.f_bavail * disk.f_frsize - leave_bytes
        os.posix_fallocate(file.fileno(), filler.stat().st_size, max(left, 1))
    return filler


# Runs a program without root's right to read and write everything, so that file modes count.
UNPRIVILEGED = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []
