"""The build of this Shiftlog: two builds of one version differ, and the later one is known.

An installed package is known by the list of its files, which the installer wrote with their hashes; a checkout by
names, sizes and times of its files. Few imports, because the bridge asks for this at each start.
"""

import os
from binascii import crc32

from shiftlog import __version__

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_build = ""


def build_id() -> str:
    """Return the build as `<time of the newest file>-<checksum>`; computed once, so that later changes do not count."""
    global _build
    if not _build:
        _build = _installed() or _checked_out()
    return _build


def is_later(one: str, other: str) -> bool:
    """Return True if a build is later than another; a build that does not say so is the earliest."""
    one_time, _, one_sum = one.partition("-")
    other_time, _, other_sum = other.partition("-")
    return one_sum != other_sum and _number(one_time) > _number(other_time)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _installed() -> str:
    """Return the build by the installer's list of files; empty if there is none beside the package."""
    record = os.path.join(os.path.dirname(_PACKAGE), f"shiftlog-{__version__}.dist-info", "RECORD")
    try:
        with open(record, "rb") as file:
            text = file.read()
            changed_ns = os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return ""
    return f"{changed_ns // 1_000_000}-{crc32(text):08x}" if b"shiftlog/link/build.py," in text else ""


def _checked_out() -> str:
    newest, total = 0, 0
    folders = [_PACKAGE]
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    folders.append(entry.path)
                continue
            info = entry.stat()
            newest = max(newest, info.st_mtime_ns)
            total = crc32(f"{entry.name} {info.st_size} {info.st_mtime_ns}\n".encode("utf-8", "replace"), total)
    return f"{newest // 1_000_000}-{total:08x}"
