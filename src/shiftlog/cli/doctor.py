"""`shiftlog doctor`: checks of the installation, the state directory and the daemon, each with a hint.

Every check is independent, so that the others still run if the daemon does not start. Nothing is repaired.
"""

import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from shiftlog import __version__
from shiftlog.cli.connecting import ANSWER_S, json_option, open_client
from shiftlog.cli.screen.output import Printer, print_json, styled
from shiftlog.cli.store.state_files import odd_files
from shiftlog.link import processes, wire
from shiftlog.link.build import build_id
from shiftlog.link.files import read_regular
from shiftlog.model.errors import ConfigError, ShiftlogError, StorageError
from shiftlog.text.figures import count, largest_unit, size
from shiftlog.text.printable import terminal_line

if TYPE_CHECKING:
    from shiftlog.app.stores import DatabaseDescription

LOW_BYTES = 1_000_000_000
FULL_BYTES = 100_000_000
PROBE_S = 5.0
LOOK_S = 5.0
HOSTS_SHOWN = 5
# A host's name comes from an agent, so only valid names match.
UNKNOWN_HOST = re.compile(
    r"^\S+ WARNING shiftlog\.\S+: host key of ([0-9A-Za-z._:-]+) port (\d+) is not known: (SHA256:[0-9A-Za-z+/]{43})$",
    re.MULTILINE,
)
SECRETS = frozenset({"keys", "http.token"})

# The programs that Shiftlog calls: name, required or not, purpose.
PROGRAMS = (
    ("bash", True, "shells of agents"),
    ("git", True, "checkpoints of a workspace"),
    ("docker", False, "shells in containers"),
    ("bwrap", False, "a private /tmp, /run and /dev for sandboxed shells"),
)
STAND_INS = {"docker": ("podman",)}  # for a missing program


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check: `state` is ok, warn or fail."""

    name: str
    state: str
    message: str
    hint: str = ""


@click.command(short_help="Check the installation and suggest fixes.")
@click.option("--start/--no-start", default=True, help="Start the daemon if it does not run (default: start).")
@json_option
def doctor(start: bool, as_json: bool) -> int:
    """Check programs, state directory, permissions, settings, daemon, database, agents and kernel support.

    Each line says ok, warn or fail, with a hint on what to do. The exit status is 1 if a check fails. Nothing is
    repaired.

    \b
    Example:
      shiftlog doctor
    """
    printer = Printer()
    checks: list[Check] = []
    for check in _checks(start):
        checks.append(check)
        if as_json:
            continue
        gap = " " * (6 - len(check.state))
        printer.item(styled(check.state), gap, f"{check.name:<13}", terminal_line(check.message), hang=19)
        if check.hint:
            printer.item((terminal_line(check.hint), "dim"), indent=19, hang=0)
    failed = sum(check.state == "fail" for check in checks)
    if as_json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    elif failed:
        printer.line()
        printer.line((f"{count(failed, 'problem')} found.", "bold red"))
    return 1 if failed else 0


def _checks(start: bool) -> Iterator[Check]:
    """Yield all checks in order; one that itself fails is reported, and the others go on."""
    home = Path(wire.home_path())
    met: dict[str, Any] = {}
    checks: list[tuple[str, Callable[[], Check | Iterable[Check]]]] = [
        ("shiftlog", lambda: _ok("shiftlog", f"{__version__} in {Path(sys.executable).parent}")),
        ("python", lambda: _ok("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")),
        ("dependencies", _dependencies),
        ("sqlite", _sqlite),
        # Before the daemon: its start creates the directory and corrects the mode.
        ("home", lambda: _home(home)),
        ("files", lambda: _files(home)),
        ("permissions", lambda: _modes(home)),
        ("disk", lambda: _space(home)),
        ("settings", lambda: _settings(home)),
        ("daemon", lambda: _daemon(home, start, met)),
        ("database", lambda: _database(home)),
        ("socket", lambda: _socket(home)),
        ("lock", lambda: _lock(home)),
        ("held shells", lambda: _held_shells(home)),
        ("spool", lambda: _spool(home)),
        ("programs", lambda: (_program(name, needed, purpose) for name, needed, purpose in PROGRAMS)),
        ("agents", lambda: _agents(met)),
        ("kernel", kernel_checks),
        ("host key", lambda: _host_keys(home)),
    ]
    for name, check in checks:
        try:
            found = check()
            yield from (found,) if isinstance(found, Check) else found
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            yield _fail(name, f"{where}{error.strerror or error}", "Make it readable for you, then run doctor again")
        except Exception as error:  # noqa: BLE001 - each check is an edge of its own
            yield _fail(name, f"the check failed: {type(error).__name__}: {error}", "Please report it")


def _ok(name: str, message: str) -> Check:
    return Check(name=name, state="ok", message=message)


def _warn(name: str, message: str, hint: str = "") -> Check:
    return Check(name=name, state="warn", message=message, hint=hint)


def _fail(name: str, message: str, hint: str) -> Check:
    return Check(name=name, state="fail", message=message, hint=hint)


def _dependencies() -> Check:
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        wanted = [text for text in requires("shiftlog") or () if "extra ==" not in text]
    except PackageNotFoundError:
        return _warn(
            "dependencies",
            "Shiftlog runs from its source and is not installed",
            "Install it with pip, so that its dependencies are known",
        )
    found: list[str] = []
    missing: list[str] = []
    for text in wanted:
        name = re.split(r"[;<>=!~\[( ]", text.strip())[0]
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return _fail("dependencies", f"missing: {', '.join(missing)}", "Install Shiftlog again with pip")
    return _ok("dependencies", ", ".join(sorted(found)))


def _sqlite() -> Check:
    try:
        import apsw
    except ImportError as error:
        return _fail("sqlite", str(error), "Install Shiftlog again with pip")
    if "ENABLE_FTS5" not in apsw.compile_options:
        return _fail(
            "sqlite",
            f"{apsw.sqlite_lib_version()} has no full-text search (FTS5)",
            "Install the apsw package from the package index",
        )
    return _ok("sqlite", f"{apsw.sqlite_lib_version()} with full-text search")


def _home(home: Path) -> Check:
    try:
        info = home.stat()
    except FileNotFoundError:
        return _ok("home", f"{home} does not exist yet; the daemon makes it")
    except OSError as error:
        return _fail("home", f"{home}: {error.strerror}", "Set SHIFTLOG_HOME to a directory of your own")
    if not stat.S_ISDIR(info.st_mode):
        return _fail("home", f"{home} is no directory", "Set SHIFTLOG_HOME to a directory of your own")
    if info.st_uid != os.geteuid():
        return _fail("home", f"{home} belongs to uid {info.st_uid}", "Set SHIFTLOG_HOME to a directory of your own")
    if info.st_mode & 0o077:
        mode = f"{stat.S_IMODE(info.st_mode):04o}"
        return _fail("home", f"{home} has mode {mode}; others can look in", f"chmod 700 {home}")
    if not os.access(home, os.W_OK | os.X_OK) or not info.st_mode & stat.S_IWUSR:
        is_open = info.st_mode & stat.S_IRWXU == stat.S_IRWXU
        hint = "Its file system is read-only: mount it for writing" if is_open else f"chmod 700 {home}"
        return _fail("home", f"{home} cannot be written", hint)
    return _ok("home", f"{home} (0700)")


def _files(home: Path) -> Iterator[Check]:
    """Yield a check for each file of a wrong kind, or one that all is well."""
    odd = list(odd_files(home))
    for message, hint in odd:
        yield _fail("files", message, hint)
    if not odd:
        yield _ok("files", "each is a file or a directory as it must be")


def _modes(home: Path) -> Iterator[Check]:
    """Yield a check for each file that other users can read, or one that all is well."""
    try:
        paths = [*home.iterdir(), *(home / "keys").glob("*")]
    except OSError:
        return
    wide = [path for path in paths if not path.is_symlink() and path.stat().st_mode & 0o077]
    for path in wide:
        name = path.relative_to(home)
        report = _fail if name.parts[0] in SECRETS else _warn
        yield report(
            "permissions",
            f"{name} has mode {stat.S_IMODE(path.stat().st_mode):04o}; others may read it",
            f"chmod go= {path}",
        )
    if not wide:
        yield _ok("permissions", f"{count(len(paths), 'file')}, none open to others")


def _space(home: Path) -> Check:
    place = next(path for path in (home, *home.parents) if path.exists())
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return _warn("disk", f"{place}: {error.strerror}")
    message = f"{size(free)} free"
    if free < FULL_BYTES:
        return _fail("disk", message, "Writes will soon be refused; make room")
    if free < LOW_BYTES:
        return _warn("disk", message, "Make room before it is full")
    return _ok("disk", message)


def _settings(home: Path) -> Check:
    try:
        from shiftlog.app import app
        from shiftlog.config.loading import FILE_NAME

        app.check_settings(home, os.environ)
    except ImportError as error:
        return _fail("settings", str(error), "Install Shiftlog again with pip")
    except ConfigError as error:
        return _fail("settings", error.message, error.hint or "")
    path = home / FILE_NAME
    return _ok("settings", f"{path} is valid" if path.exists() else f"no {path}; the defaults hold")


def _daemon(home: Path, start: bool, met: dict[str, Any]) -> Iterator[Check]:
    """Check the daemon; add the agents that it met to `met`. It is asked once only: it may be slow to answer."""
    try:
        with open_client(start=start, answers_within_s=ANSWER_S) as client:
            facts = client.call("daemon.status", timeout_s=ANSWER_S)
            with suppress(ShiftlogError):  # the record may be unreadable
                met.update(client.call("clients", timeout_s=ANSWER_S)["agents"])
    except ShiftlogError as error:
        if not start and not _is_listening():
            yield _ok("daemon", "does not run; it is started when it is needed")
        else:
            yield _fail("daemon", error.message, error.hint or "")
        return
    says = f"answers as pid {facts['pid']}, version {facts['version']}, up {largest_unit(facts['uptime_s'])}"
    if facts["version"] == __version__ and facts.get("build") != build_id():
        yield _warn(
            "daemon",
            f"{says}; it is another build of this version, and a later one serves",
            "Install the same build everywhere, or run shiftlog daemon stop to start this one",
        )
    elif facts["version"] == __version__:
        yield _ok("daemon", says)
    else:
        yield _warn(
            "daemon",
            f"{says}; this program has version {__version__}",
            "Run shiftlog daemon stop; the next client starts its own version",
        )
    yield from _other_store(home, facts.get("store"))
    yield from map(_upkeep, facts.get("faults", ()))
    if facts.get("http_fault"):
        hint = "Set http.port in config.toml to a free one (0 takes any), then run shiftlog daemon stop"
        yield _fail("http", f"not served: {facts['http_fault']}", hint)
    elif facts.get("http"):
        yield _ok("http", facts["http"])


def _other_store(home: Path, used: str | None) -> Iterator[Check]:
    """Warn about a daemon that was started with another store than the settings name now."""
    from shiftlog.app.stores import store_place
    from shiftlog.config.loading import load

    try:
        wanted = store_place(home, load(home, os.environ))
    except (ConfigError, ImportError):  # other checks report it
        return
    if used is not None and used != wanted:
        hint = "Run shiftlog daemon stop; the next client starts one with the settings"
        yield _warn("daemon", f"it keeps the record in {used}, but the settings name {wanted}", hint)


def _upkeep(fault: dict[str, Any]) -> Check:
    """Report maintenance that failed and that the daemon tries again."""
    tries = f" (tried {count(fault['tries'], 'time')})" if fault["tries"] else ""
    return _fail("upkeep", f"{fault['what']}: {fault['reason']}{tries}", fault["hint"] or "Look at daemon.log")


def _database(home: Path) -> Iterator[Check]:
    """Check the pages of the database for a few seconds; `verify` checks their contents."""
    path = home / wire.DATABASE
    try:
        if (said := _described(home)) is not None:
            yield _ok("database", said.line)
            if not said.has_trigrams:
                from shiftlog.app.stores import MAKE_TRIGRAMS, WITHOUT_TRIGRAMS

                yield _warn("pg_trgm", WITHOUT_TRIGRAMS, MAKE_TRIGRAMS)
            return
        from shiftlog.store.sqlite.file_watch import LastEntry
        from shiftlog.store.sqlite.read_only import check_pages

        LastEntry(path).has_database()
        path.stat()  # there may be none yet
        checked = check_pages(path, LOOK_S)
    except StorageError as error:  # which is an OSError too
        yield _fail("database", str(error.details["reason"]), error.hint or "")
    except (ImportError, OSError, UnicodeEncodeError):  # other checks report it
        return
    else:
        said = f"{path} ({size(checked.bytes)})"
        yield _ok(
            "database", said if checked.is_whole else f"{said}; nothing is wrong with what {LOOK_S:.0f} s let us see"
        )


def _described(home: Path) -> "DatabaseDescription | None":
    """Return the description of a team's PostgreSQL database; None if the settings name none or cannot be read."""
    from shiftlog.app.stores import described
    from shiftlog.config.loading import load

    try:
        return described(home, load(home, os.environ))
    except ConfigError:  # other checks report it
        return None


def _is_listening() -> bool:
    try:
        sock = wire.connect(wire.home_path())
    except wire.WireError:
        return True
    if sock is not None:
        sock.close()
    return sock is not None


def _socket(home: Path) -> Check:
    try:
        path = Path(wire.socket_path(str(home)))
        info = path.stat()
    except FileNotFoundError:
        return _ok("socket", "not there while no daemon runs")
    except wire.WireError as error:
        return _fail("socket", error.message, error.hint)
    except OSError as error:
        return _fail("socket", f"{error.filename}: {error.strerror}", "Remove it and run shiftlog daemon start")
    if not stat.S_ISSOCK(info.st_mode):
        return _fail("socket", f"{path} is no socket", "Remove it and run shiftlog daemon start")
    if info.st_mode & 0o077:
        return _fail("socket", f"{path} is open to others", "Run shiftlog daemon stop; the next start makes it anew")
    return _ok("socket", str(path))


def _lock(home: Path) -> Check:
    try:
        text = read_regular(wire.lock_path(str(home))).decode("utf-8", "replace")
    except FileNotFoundError:
        return _ok("lock", "not taken")
    except OSError as error:
        return _fail("lock", f"{error.filename}: {error.strerror}", "Make it readable for you, or move it away")
    pid = text.partition("\n")[0]
    if not pid.isdecimal():
        return _ok("lock", "not taken")
    if not processes.alive(int(pid)):
        return _ok("lock", f"left by a daemon that has ended (pid {pid}); the next one takes it")
    if processes.is_stopped(int(pid)):
        return _fail("lock", f"held by pid {pid}, which is stopped (SIGSTOP)", f"kill -CONT {pid} lets it go on")
    return _ok("lock", f"held by pid {pid}")


def _held_shells(home: Path) -> Check:
    """Say how many local shells would outlive the daemon, or wait for the next one."""
    from shiftlog.shell.engine.holders import ShellHolders

    held = ShellHolders(home / "held", 0).listed()
    if not held:
        return _ok("held shells", "none")
    pids = ", ".join(str(record.pid) for record in held)
    says = "would outlive this daemon" if _is_listening() else "left for the next daemon"
    return _ok("held shells", f"{len(held)} {says} (pid {pids}); shiftlog daemon stop --shells ends them")


def _spool(home: Path) -> Check:
    """Check for events and calls in the spool that wait or were rejected."""
    from shiftlog.ingest.hooks.spool import CALLS, HOOKS, HookSpool

    spool = HookSpool(folder=home / "spool")
    aside = spool.aside()
    if aside:
        latest = aside[-1]
        what = f"{latest.get('event') or latest.get('kind') or 'item'} of {latest.get('at') or 'an unknown time'}"
        return _warn(
            "spool",
            f"{count(len(aside), 'item')} set aside; the latest: {what}: {latest.get('reason')}",
            f"Each is a file in {spool.folder / 'aside'} with its reason; remove it once it is dealt with",
        )
    waiting = len(spool.names(HOOKS)) + len(spool.names(CALLS))
    if (reason := spool.stuck_reason()) is not None:
        return _warn("spool", f"it does not move: {reason}", "Look at daemon.log, and at the file in the spool")
    return _ok("spool", f"{count(waiting, 'file')} waiting for the daemon" if waiting else "nothing waits")


def _agents(met: dict[str, Any]) -> Iterator[Check]:
    """Report for each agent on this machine whether it is connected, and the next step."""
    from shiftlog.cli.setup.checking import of_this_machine

    for found in of_this_machine(met):
        yield Check(name=found.agent, state=found.state, message=found.message, hint=found.hint)


def _program(name: str, needed: bool, purpose: str) -> Check:
    path = next(filter(None, map(shutil.which, (name, *STAND_INS.get(name, ())))), None)
    if path is None and needed:
        return _warn(name, "not found", f"Install it; {purpose} need it")
    if path is None:
        return _ok(name, f"not found; optional, for {purpose}")
    try:
        command = [path, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S, check=False)
        said = (done.stdout or done.stderr).strip().partition("\n")[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        return _warn(name, f"{path} does not run: {error}")
    return _ok(name, f"{said[:60]} ({path})")


def kernel_checks() -> Iterator[Check]:
    """Yield the kernel layers that can confine shells here, found by really trying them."""
    from shiftlog.shell.sandbox.detect import detect, programs_may_change_their_shell

    found = detect()
    layers = (
        ("exec broker", "exec_broker", found.exec_broker, "every program that a shell starts is judged"),
        ("landlock", "landlock", found.landlock_abi > 0, f"version {found.landlock_abi} bounds files by sandbox mode"),
        ("seccomp", "seccomp", found.seccomp, "sockets and ptrace can be refused"),
    )
    for name, key, holds, purpose in layers:
        if holds:
            yield _ok(name, purpose)
        elif platform.system() != "Linux":
            yield _ok(name, f"not on {platform.system()}; rules hold by the text of commands alone")
        else:
            hint = "Rules hold by the text of commands alone; require_kernel in [policy] refuses shells instead"
            yield _warn(name, found.why.get(key, "not offered here"), hint)
    if programs_may_change_their_shell():
        yield _ok(
            "exit codes", "sandboxed shells vouch for them; in full-access programs may change them (exit_code_vouched)"
        )
    elif found.seccomp:
        yield _ok("exit codes", "every shell vouches for them: no program may write its shell's memory")
    if found.bwrap is None and shutil.which("bwrap"):
        why = found.why.get("bwrap", "bubblewrap does not work here")
        yield _warn("bwrap", why, "Sandboxed shells have no private /tmp and /run")


def _host_keys(home: Path) -> Iterator[Check]:
    """Yield the host keys that ssh met and known_hosts did not contain; agents never see them."""
    try:
        log = read_regular(home / "daemon.log").decode("utf-8", "replace")
    except OSError:
        return
    met = {(host, port): key for host, port, key in UNKNOWN_HOST.findall(log)}
    for (host, port), key in list(met.items())[-HOSTS_SHOWN:]:
        name = host if port == "22" else f"[{host}]:{port}"
        yield _warn(
            "host key",
            f"{host} port {port} presented {key}, which was not known",
            f"Compare it on the host itself; then add to known_hosts: {name} {key}",
        )
