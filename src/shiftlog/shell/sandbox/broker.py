"""The exec broker: judges every program start in one shell's process tree while the kernel holds the caller.

The supervisor waits on the listener. A start that cannot be read, resolved or judged is refused. Each start is recorded
before it is answered, so that the records are complete when a command ends.
"""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shiftlog.guard.directories import real_path
from shiftlog.guard.policy.files import inode_of
from shiftlog.shell.sandbox import kernel
from shiftlog.shell.sandbox.identity import (
    RUNS_OTHERS,
    FileFacts,
    Identifier,
    applet,
    is_systems_own,
    program_given_to_loader,
)
from shiftlog.shell.sandbox.metadata import MetadataCalls
from shiftlog.shell.sandbox.notify import Listener, Notification
from shiftlog.shell.sandbox.processes import (
    AT_FDCWD,
    ProcessMemory,
    Unresolved,
    open_file,
    parents,
    process_of,
    signed,
)
from shiftlog.shell.sandbox.sockets import SocketCalls
from shiftlog.shell.sandbox.starts import BrokerRules, ProgramJudge, ProgramStart, StartedFile
from shiftlog.shell.sandbox.tracing import Tracer

_EXCHANGED = "another program was started than judged"
_NESTED_MAX = 5  # the kernel's own limit
_LENT_MAX = 256
_DEEPEST = 1000
_COMMAND_LINE_BYTES = 4096
_ARGUMENTS_RECORDED, _CHARACTERS_RECORDED = 64, 8192


@dataclass(frozen=True, slots=True)
class _StartRequest:
    """A file that would start: its path, its identity, and its arguments.

    `named` is the path as the kernel passes it to an interpreter, `words` are the arguments exactly as the kernel
    passes them; `argv` has them with absolute paths of scripts.
    """

    pid: int
    path: str
    real: str
    named: str
    facts: FileFacts
    argv: Sequence[str]
    words: Sequence[str]
    cwd: str


@dataclass(frozen=True, slots=True)
class _ExpectedImage:
    """The file that the kernel must load for a start, and the arguments that it must get."""

    file: FileFacts
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class _Decision:
    allowed: bool
    verdict: str
    program: str
    reason: str | None
    image: _ExpectedImage | None = None
    lends: bool = False
    """True if `env` is loaded, which becomes the script's interpreter next."""

    def loading(self, image: _ExpectedImage | None, *, lends: bool = False) -> "_Decision":
        """Return this decision for a start that loads the image; None if only the kernel knows which one."""
        return replace(self, image=image, lends=lends)


class Broker:
    """Answers the notifications of one shell."""

    def __init__(
        self,
        listener: Listener,
        judge: ProgramJudge,
        rules: BrokerRules,
        record: Callable[[ProgramStart], None],
        tracer: Tracer | None = None,
    ) -> None:
        self.listener = listener
        self.shell_pid: int | None = None
        self._judge = judge
        self._rules = rules
        self._record = record
        self._tracer = tracer if rules.compares else None
        self._identifier = Identifier(rules.named)
        self._denied = frozenset(map(inode_of, rules.denied))
        self._interpreters = frozenset(map(inode_of, rules.interpreters))
        self._system_shell = inode_of("/bin/sh")
        self._helpers: set[int] = set()
        self._lent: set[int] = set()
        self._permitted: Sequence[str] = ()
        self._permitted_below: dict[int, Sequence[str]] = {}
        self._earlier: frozenset[int] | None = None
        self._execve, self._execveat = kernel.NUMBERS["execve"], kernel.NUMBERS["execveat"]
        self._connect = kernel.NUMBERS["connect"]
        self._metadata = None if rules.writable is None else MetadataCalls(rules.writable)
        self._sockets = None if rules.reachable is None else SocketCalls(rules.reachable, rules.http_port)

    def serve_one(self) -> None:
        """Take one waiting call and answer it; a caller that died meanwhile is forgotten."""
        call = self.listener.receive()
        if call is None:
            return
        try:
            if call.number in (self._execve, self._execveat):
                self._answer_start(call)
            elif call.number == self._connect and self._sockets is not None:
                self._sockets.answer(self.listener, call)
            elif self._metadata is not None:
                self._metadata.answer(self.listener, call)
            else:
                self.listener.answer(call, errno.EPERM)
        except Unresolved as problem:
            self.listener.answer(call, problem.errno or errno.EACCES)
        except Exception:  # noqa: BLE001 — the edge towards the kernel: a caller must never wait for ever, nor pass unjudged
            # Its memory or links could not be read, or the judge failed: refused.
            self.listener.answer(call, errno.EACCES)

    def _answer_start(self, call: Notification) -> None:
        if call.number == self._execve:
            dirfd, path_at, argv_at, flags = AT_FDCWD, call.args[0], call.args[1], 0
        else:
            dirfd, path_at, argv_at, flags = signed(call.args[0]), call.args[1], call.args[2], call.args[4]
        memory = ProcessMemory(call.pid)
        try:
            raw_path = memory.path(path_at)
            argv = [os.fsdecode(argument) for argument in memory.strings(argv_at)]
        finally:
            memory.close()
        fd, text = open_file(call.pid, dirfd, raw_path, flags=flags)
        try:
            named = _named(dirfd, raw_path)
            request = self._look(call.pid, fd, text, named, argv, argv or [""], os.readlink(f"/proc/{call.pid}/cwd"))
        finally:
            os.close(fd)
        if not self.listener.still_valid(call):
            return
        is_shell = self.shell_pid is None and request.real == self._rules.shell
        if is_shell:
            self._begin(call.pid)
            self.listener.let_pass(call)
            return
        if self._is_helper(request):
            self._let_start(call, request, _Decision(True, "allowed", request.path, None, _own_image(request)))
            return
        answer = self._decide_approved(request)
        self._keep_record(request, answer)
        if answer.allowed:
            self._let_start(call, request, answer)
        else:
            self.listener.answer(call, errno.EACCES)

    def _begin(self, shell_pid: int) -> None:
        """Learn the shell's process and mounts: no program of the shell has run yet."""
        self.shell_pid = shell_pid
        for calls in (self._metadata, self._sockets):
            if calls is not None:
                calls.places.look(shell_pid)

    def _let_start(self, call: Notification, request: _StartRequest, answer: _Decision) -> None:
        """Let the kernel start the program; the tracer compares what it loads with what was judged."""
        if self._tracer is None:
            self._lend(request, answer)
        else:
            self._tracer.follow(call.pid, lambda pid: self._check_loaded(pid, request, answer))
            if not self.listener.still_valid(call):
                self._tracer.follow(call.pid, lambda _: True)  # the pid may be another process by now
                return
        self.listener.let_pass(call)

    def _check_loaded(self, pid: int, request: _StartRequest, judged: _Decision) -> bool:
        """Return True if a process has loaded the image and the arguments that were judged; record it otherwise."""
        link = f"/proc/{pid}/exe"
        try:
            fd = os.open(link, os.O_PATH | os.O_CLOEXEC)
        except PermissionError:
            return request.facts.kind == "unreadable"  # then the kernel shows the image to nobody
        try:
            loaded, arguments = self._identifier.facts(fd), _command_line(pid)
            if judged.image is None:
                argv = [os.fsdecode(word) for word in arguments.split(b"\0")[:-1]]
                path = os.readlink(link)
                request = self._look(pid, fd, os.fsencode(path), path, argv, argv, request.cwd)
        finally:
            os.close(fd)
        if judged.image is None:
            answer = self._decide_approved(request)
        else:
            same = loaded == judged.image.file and arguments == _as_command_line(judged.image.words)
            answer = judged if same else replace(judged, allowed=False, verdict="denied", reason=_EXCHANGED)
        if answer.allowed:
            self._lend(request, answer)
        else:
            self._keep_record(request, answer)
        return answer.allowed

    def _lend(self, request: _StartRequest, answer: _Decision) -> None:
        """Let `env` become the script's interpreter in the same process; that one start belongs to the script too."""
        if answer.lends:
            if len(self._lent) >= _LENT_MAX:
                self._lent.clear()
            self._lent.add(process_of(request.pid))

    def permit(self, entries: Sequence[str], below: int | None = None, earlier: Sequence[int] | None = None) -> None:
        """Set what a person approved: for the process `below` and its descendants only, or for all others.

        With `earlier`, for the shell itself and its descendants, but for none below a process that ran already: what
        earlier commands left behind was not approved.
        """
        if below is None:
            self._permitted, self._earlier = entries, None if earlier is None else frozenset(earlier)
        elif entries:
            self._permitted_below[below] = entries
        else:
            self._permitted_below.pop(below, None)
        self._judge.permit(())

    def _permitted_for(self, thread: int) -> Sequence[str]:
        """Return the approvals for the process of a thread."""
        pid = process_of(thread)
        line = (pid, *parents(pid, self.shell_pid or 0, _DEEPEST))
        root = next((one for one in line if one in self._permitted_below), None)
        if root is not None:
            return self._permitted_below[root]
        if self._earlier is None:
            return self._permitted
        is_new = line[-1] == self.shell_pid and self._earlier.isdisjoint(line[:-1])
        return self._permitted if is_new else ()

    def _is_helper(self, request: _StartRequest) -> bool:
        """Return True for the engine's own terminal helper, and for the shell that it or its child becomes."""
        head = self._rules.helper
        if head and request.real == head[0] and tuple(request.argv[1 : len(head)]) == head[1:]:
            if len(self._helpers) >= _LENT_MAX:
                self._helpers.clear()
            self._helpers.add(request.pid)
            return True
        if not self._helpers or request.real != self._rules.shell:
            return False
        for pid in (request.pid, *parents(request.pid, 0, 1)):
            if pid in self._helpers:
                self._helpers.discard(pid)  # once: programs that this shell starts are judged
                return True
        return False

    def _look(
        self, pid: int, fd: int, text: bytes, named: str, argv: Sequence[str], words: Sequence[str], cwd: str
    ) -> _StartRequest:
        real = os.readlink(f"/proc/self/fd/{fd}")
        path = os.fsdecode(text)
        if "/./" in path or "/../" in path or "//" in path:
            path = os.path.join(real_path(os.path.dirname(path)), os.path.basename(path))
        return _StartRequest(pid, path, real, named, self._identifier.facts(fd), argv, words, cwd)

    def _identify_path(
        self, asking: _StartRequest, path: str, argv: Sequence[str], words: Sequence[str]
    ) -> _StartRequest:
        fd, text = open_file(asking.pid, AT_FDCWD, os.fsencode(path))
        try:
            return self._look(asking.pid, fd, text, path, argv, words, asking.cwd)
        finally:
            os.close(fd)

    def _decide_approved(self, request: _StartRequest) -> _Decision:
        """Judge a start with the approvals that hold for its process."""
        if self._permitted or self._permitted_below:
            self._judge.permit(self._permitted_for(request.pid))
        return self._decide(request)

    def _decide(self, request: _StartRequest, *, lent: bool = False, depth: int = 0) -> _Decision:
        """Judge a file under every name it has; the first refusal counts."""
        if depth > _NESTED_MAX:
            return _Decision(False, "denied", os.path.basename(request.path), "interpreters nested too deep")
        facts, argv = request.facts, request.argv
        if facts.loader:
            place = program_given_to_loader(argv)
            if place is not None:
                program = self._identify_path(request, argv[place], argv[place:], argv[place:])
                if self._rules.lists and not is_systems_own(program.path):
                    name = os.path.basename(program.path)
                    return _Decision(False, "denied", name, "its file can be exchanged while a loader opens it")
                return self._decide(program, depth=depth + 1).loading(_own_image(request))
        lent = lent or self._take_lent(request.pid)
        answer = self._judge_file(request, lent=lent)
        if answer.allowed and facts.interpreter:
            interpreter = self._judge_interpreter(request, depth)
            return answer.loading(interpreter.image, lends=interpreter.lends) if interpreter.allowed else interpreter
        return answer.loading(None if facts.kind == "other" else _own_image(request))

    def _take_lent(self, thread: int) -> bool:
        if not self._lent:
            return False
        process = process_of(thread)
        if process not in self._lent:
            return False
        self._lent.discard(process)
        return True

    def _judge_file(self, request: _StartRequest, *, lent: bool) -> _Decision:
        if request.facts.inode in self._denied:
            name = os.path.basename(request.path)
            original = request.facts.copy_of or request.real
            answer = self._ask(original, request)
            return answer if not answer.allowed else _Decision(False, "denied", name, "this file is denied")
        if lent and request.facts.inode in self._interpreters:
            return _Decision(True, "allowed", os.path.basename(request.path), None)
        original = request.facts.copy_of
        if request.facts.kind == "hidden" and self._rules.lists:
            return _Decision(False, "denied", os.path.basename(request.path), "its content cannot be read")
        called = applet(os.path.basename(original or request.real), request.argv)
        if called is not None:
            return self._judge_applet(request, *called)
        answer = self._ask(request.path, request)
        for other in (request.real, original):
            if not answer.allowed or other is None or os.path.basename(other) == os.path.basename(request.path):
                continue
            if not other.startswith("/memfd:") and not other.endswith(" (deleted)"):  # no name to judge
                second = self._ask(other, request)
                answer = answer if second.allowed else second
        return answer

    def _judge_applet(self, request: _StartRequest, name: str, wrapped: bool) -> _Decision:
        if wrapped:
            answer = self._ask(request.path, request)
            if not answer.allowed:
                return answer
        if self._rules.lists and name in RUNS_OTHERS and request.facts.inode != self._system_shell:
            # The machine's own /bin/sh starts programs by path; another box may contain the denied ones.
            box = os.path.basename(request.facts.copy_of or request.real)
            return _Decision(False, "denied", name, f"{box} can run programs inside itself")
        beside = os.path.join(os.path.dirname(request.path), name)
        argv = request.argv[1:] if wrapped else request.argv
        return self._ask(beside if os.path.exists(beside) else name, request, argv)

    def _judge_interpreter(self, script: _StartRequest, depth: int) -> _Decision:
        words = script.facts.interpreter
        rest = script.words[1:]
        request = self._identify_path(script, words[0], [*words, script.path, *rest], [*words, script.named, *rest])
        answer = self._decide(request, lent=True, depth=depth + 1)
        return replace(answer, lends=answer.lends or os.path.basename(request.real) == "env")

    def _ask(self, path: str, request: _StartRequest, argv: Sequence[str] | None = None) -> _Decision:
        facts = request.facts
        file = StartedFile(request.path, request.real, facts.inode, facts.interpreter, facts.copy_of)
        return _Decision(*self._judge.judge_start(path, request.argv if argv is None else argv, request.cwd, file))

    def _keep_record(self, request: _StartRequest, answer: _Decision) -> None:
        argv, left = list[str](), _CHARACTERS_RECORDED
        for argument in request.argv[:_ARGUMENTS_RECORDED]:
            argv.append(argument[:left])
            left -= len(argument)
            if left <= 0:
                break
        self._record(
            ProgramStart(
                pid=request.pid,
                parents=parents(request.pid, self.shell_pid or 0),
                path=request.path,
                argv=tuple(argv),
                argv_total=len(request.argv),
                verdict=answer.verdict,
                program=answer.program,
                reason=answer.reason,
            )
        )


def _command_line(pid: int) -> bytes:
    fd = os.open(f"/proc/{pid}/cmdline", os.O_RDONLY | os.O_CLOEXEC)
    try:
        whole = os.read(fd, _COMMAND_LINE_BYTES)
        while len(whole) % _COMMAND_LINE_BYTES == 0 and (more := os.read(fd, _COMMAND_LINE_BYTES)):
            whole += more
        return whole
    finally:
        os.close(fd)


def _named(dirfd: int, path: bytes) -> str:
    """Return a script's path as the kernel passes it to the interpreter."""
    if path.startswith(b"/") or dirfd == AT_FDCWD:
        return os.fsdecode(path)
    return os.path.join(f"/dev/fd/{dirfd}", os.fsdecode(path)) if path else f"/dev/fd/{dirfd}"


def _own_image(request: _StartRequest) -> _ExpectedImage:
    return _ExpectedImage(request.facts, request.words)


def _as_command_line(words: Sequence[str]) -> bytes:
    return b"".join(os.fsencode(word) + b"\0" for word in words)
