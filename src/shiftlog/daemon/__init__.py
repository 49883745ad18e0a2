"""`shiftlogd`: the one process per state directory that owns the store, the live shells and the MCP SDK.

`main` takes the lock and opens the socket before anything heavy is imported, so that clients can connect meanwhile.
"""

import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shiftlog import __version__
from shiftlog.link import processes, wire
from shiftlog.link.build import build_id

if TYPE_CHECKING:
    from argparse import Namespace

    from shiftlog.daemon.services import OpenServices

IMPORT = "import"
INSIDE = "A daemon cannot be started inside one of its own shells. Start it from outside of them."


def main(arguments: Sequence[str] | None = None, *, open_services: "OpenServices | None" = None) -> int:
    """Run the daemon until it stops; return its exit status, 1 if another daemon already serves."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="shiftlogd",
        description="The Shiftlog daemon. Clients start it on demand; start it yourself to see its log.",
    )
    parser.add_argument("--home", help="state directory (default: SHIFTLOG_HOME, else the user's)")
    parser.add_argument("--foreground", action="store_true", help="log to the terminal instead of daemon.log")
    parser.add_argument(
        "--idle-stop-s",
        type=_seconds,
        help="stop after this idle time without client and shell; 0 never stops (default: daemon.idle_stop_minutes)",
    )
    parser.add_argument("--for", dest="purpose", choices=[IMPORT], help="prepare for this task while starting")
    parser.add_argument("--detach", type=int, metavar="FD", help="leave the client; close FD once the socket is open")
    parser.add_argument("--read-only", type=int, metavar="FD", help="answer the one client at FD without any change")
    parser.add_argument("--version", action="version", version=__version__)
    given = parser.parse_args(arguments)
    if given.detach is not None:
        _detach(given.detach)
    if given.read_only is not None:
        from shiftlog.daemon.reading import serve_reader

        return serve_reader(given.home or wire.home_path(), given.read_only)
    try:
        home = wire.open_home(given.home)
        return _run(home, given, open_services=open_services)
    except wire.WireError as error:
        return _complain(f"{error.message}. {error.hint}.")


def _run(home: str, given: "Namespace", *, open_services: "OpenServices | None") -> int:
    from shiftlog.daemon.lock import AlreadyServed, take_lock

    gc.disable()  # until the start is over: what it makes stays
    processes.own_mark()  # before a program in a shell can lower it
    build_id()  # before the files of this build can be replaced
    os.umask(0o077)
    # Do not keep the client's working directory busy.
    os.chdir("/")
    try:
        lock = take_lock(home)
    except AlreadyServed as taken:
        return _complain(str(taken))
    except OSError as error:
        return _complain(f"The lock cannot be taken: {error.filename}: {error.strerror}. Move that file away.")
    try:
        try:
            if _is_inside_held_shell(home):
                return _complain(INSIDE)
        except OSError as error:
            return _complain(f"The held shells cannot be looked at: {error}. Make the directory readable for you.")
        try:
            listener = lock.listen()
        except OSError as error:  # a full disk, for one
            return _complain(f"The socket cannot be opened: {error}")
        if given.detach is not None:
            os.close(given.detach)
        from shiftlog.daemon import secrecy

        secrecy.hide()  # before any child is started
        if given.purpose == IMPORT and not os.path.exists(os.path.join(home, wire.DATABASE)):  # noqa: PTH110, PTH118
            from shiftlog.link.import_workers import prestart_workers

            prestart_workers()
        from shiftlog.daemon.log import open_log

        open_log(wire.log_path(home), "info", foreground=given.foreground)
        import anyio

        from shiftlog.daemon.lifecycle import serve
        from shiftlog.daemon.shortage import FrugalLoop, watch_threads

        watch_threads()
        return anyio.run(
            lambda: serve(lock, listener, open_services, idle_stop_s=given.idle_stop_s),
            backend_options={"loop_factory": FrugalLoop},
        )
    finally:
        lock.close()


def _is_inside_held_shell(home: str) -> bool:
    """Return True if this process runs in a shell that an earlier daemon left; its daemon would trust that shell.

    Raises OSError if that cannot be known.
    """
    held = os.path.join(home, "held")  # noqa: PTH118
    if not os.path.isdir(held) or not os.listdir(held):  # noqa: PTH112, PTH208
        return False
    from pathlib import Path

    from shiftlog.shell.engine.holders import ShellHolders

    return ShellHolders(Path(held), 0).holds_this_process()


def _detach(started: int) -> None:
    """Go on in a process that is no child of the client, so that a client that kills its whole tree leaves it.

    The client sees by the open descriptor `started` that this process lives.
    """
    os.set_inheritable(started, False)
    if os.fork():
        os._exit(0)
    os.setsid()


def _complain(message: str) -> int:
    sys.stderr.write(f"shiftlogd: {message}\n")
    return 1


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError(text)
    return seconds
