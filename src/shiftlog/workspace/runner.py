"""Reaching a target: this machine by itself, any other by whoever can run one command line there.

`CommandRunner` does everything through POSIX sh, so a remote target needs no Python; ssh and docker only say how a
command line gets there.
"""

import asyncio
import fcntl
import os
import shlex
import stat
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from shiftlog.workspace.ports import FileKind, FileStat, Ran

LOCK_WAIT_S = 120.0
LOCK_STEP_S = 0.02
FRESH_S = 3
# Kernels stamp files with a clock that ticks every 1 to 10 ms: within a tick two writes look like one.
TICK_NS = 20_000_000

_CLEAN = 'exec env -i PATH="$PATH" HOME="$HOME" "$@"'

# One line per path: raw mode, size, change time in seconds, then whatever tells two states apart.
_STAT = """
cd "$1" || exit 3
look() {
  if stat -c %f . >/dev/null 2>&1; then stat -c '%f %s %Z %i %y %z' -- "$1"
  else stat -f '%Xp %z %c %i %Fm %Fc' -- "$1"; fi
}
export LC_ALL=C
date +%s
xargs -0 sh -c '
  if stat -c %f . >/dev/null 2>&1; then all=$(stat -c "%f %s %Z %i %y %z" -- "$@" 2>/dev/null)
  else all=$(stat -f "%Xp %z %c %i %Fm %Fc" -- "$@" 2>/dev/null); fi
  set -- "$@"
  if [ "$(printf "%s\\n" "$all" | wc -l)" -eq $# ] && [ -n "$all" ]; then
    printf "%s\\n" "$all"
  else
    for f do
      if [ -L "$f" ] || [ -e "$f" ]; then
        if stat -c %f . >/dev/null 2>&1; then stat -c "%f %s %Z %i %y %z" -- "$f" || echo -
        else stat -f "%Xp %z %c %i %Fm %Fc" -- "$f" || echo -; fi
      else echo -; fi
    done
  fi' sh
"""
