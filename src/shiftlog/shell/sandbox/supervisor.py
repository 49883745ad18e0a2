"""The supervisor: one loop that answers for every sandboxed shell, in its own process outside all sandboxes.

The daemon announces shells and receives starts over one socket; `supervision` is the daemon's side. If the supervisor
ends for any reason, the kernel refuses every further start in every shell it served.
"""

import array
import gc
import importlib
import json
import os
import select
import socket
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from shiftlog.shell.engine.reaper import mark
from shiftlog.shell.sandbox import kernel, tracing
from shiftlog.shell.sandbox.broker import Broker
from shiftlog.shell.sandbox.notify import Listener
from shiftlog.shell.sandbox.starts import BrokerRules, ProgramJudge, ProgramStart
from shiftlog.shell.sandbox.tracing import Tracer

MESSAGE_MAX = 196608
_OUTBOX_MAX = 20_000
_PR_SET_DUMPABLE = 4
_STARTS_IN_A_ROW = 64
_LOOK_AGAIN_S, _GIVE_UP_S = 0.001, 0.5
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def main() -> None:
    """Serve on the descriptor in the first argument until it closes."""
    # Not dumpable, so that a sandboxed program of the same user cannot read our memory.
    kernel.prctl(_PR_SET_DUMPABLE, 0)
    # It connects sockets for shells, and may outlive its daemon: no daemon and no holder must take it for an outsider.
    mark(kernel.libc)
    gc.freeze()
    gc.set_threshold(50_000)  # a start makes no cycles, and a collection would delay it
    serve(socket.socket(fileno=int(sys.argv[1])), tracing.stops())


def serve(control: socket.socket, woken: int | None = None) -> None:
    """Answer for shells until the other side of the control socket closes.

    `woken` can be read when a followed process has stopped; a thread of the daemon has no such descriptor and looks
    often.
    """
    _Loop(control, woken).run()


class _Loop:
    def __init__(self, control: socket.socket, woken: int | None) -> None:
        self._control = control
        self._woken = woken
        self._tracer = Tracer()
        self._control.setblocking(False)
        self._epoll = select.epoll()
        self._epoll.register(control.fileno(), select.EPOLLIN)
        if woken is not None:
            self._epoll.register(woken, select.EPOLLIN)
        self._waiting: dict[int, tuple[int, socket.socket, dict[str, Any]]] = {}
        self._brokers: dict[int, tuple[int, Broker]] = {}
        self._outbox: deque[bytes] = deque()
        self._paused: set[int] = set()
        self._open = True

    def run(self) -> None:
        try:
            while self._open:
                for fd, events in self._epoll.poll(self._patience()):
                    self._act(fd, events)
                if self._tracer.busy:
                    self._tracer.collect()
        finally:
            for fd in self._brokers:
                os.close(fd)
            for _, channel, _ in self._waiting.values():
                channel.close()
            self._epoll.close()
            self._control.close()

    def _patience(self) -> float | None:
        if not self._tracer.busy:
            return None
        return _LOOK_AGAIN_S if self._woken is None else _GIVE_UP_S

    def _act(self, fd: int, events: int) -> None:
        if fd == self._woken:
            os.read(fd, 4096)
        elif fd == self._control.fileno():
            if events & select.EPOLLOUT:
                self._flush()
            if events & (select.EPOLLIN | select.EPOLLHUP):
                self._take_messages()
        elif fd in self._waiting:
            self._take_listener(fd)
        elif fd in self._brokers:
            if events & select.EPOLLIN and len(self._outbox) >= _OUTBOX_MAX:
                self._pause(fd)
            elif events & select.EPOLLIN:
                self._answer_starts(fd)
            elif events & (select.EPOLLHUP | select.EPOLLERR):
                self._drop(fd)

    def _answer_starts(self, fd: int) -> None:
        """Answer waiting calls, in turns with other shells.

        Messages of the daemon come first: an approval is sent or revoked before the start that it concerns.
        """
        for _ in range(_STARTS_IN_A_ROW):
            self._take_messages()
            if fd not in self._brokers:
                return
            shell, broker = self._brokers[fd]
            known = broker.shell_pid
            broker.serve_one()
            if broker.shell_pid != known:
                self._send({"op": "opened", "shell": shell, "pid": broker.shell_pid})
            ready = self._epoll.poll(0)
            if len(ready) != 1 or ready[0][0] != fd or not ready[0][1] & select.EPOLLIN:
                break

    def _pause(self, fd: int) -> None:
        """Let a shell's starts wait until the daemon, or the next one, has taken the records of earlier ones."""
        self._paused.add(fd)
        self._epoll.modify(fd, 0)

    def _take_messages(self) -> None:
        while self._open:
            try:
                data, fds, _flags, _address = socket.recv_fds(self._control, MESSAGE_MAX, 4)
            except BlockingIOError:
                return
            except OSError:
                data, fds = b"", []
            if data:
                self._take(json.loads(data), fds)
            else:
                self._open = False

    def _take(self, message: dict[str, Any], fds: list[int]) -> None:
        shell: int = message["shell"]
        if message["op"] == "permit":
            for number, broker in self._brokers.values():
                if number == shell:
                    broker.permit(**message["permitted"])
            for number, _, spec in self._waiting.values():
                if number == shell:  # its launcher is on the way
                    spec["permitted"] = message["permitted"]
            return
        if message["op"] == "close":
            for fd in [fd for fd, (number, _) in self._brokers.items() if number == shell]:
                self._drop(fd)
            for fd in [fd for fd, (number, _, _) in self._waiting.items() if number == shell]:
                self._forget(fd)
            return
        channel = socket.socket(fileno=fds[0])
        with os.fdopen(fds[1], "rb") as spec:
            self._waiting[channel.fileno()] = (shell, channel, json.load(spec))
        self._epoll.register(channel.fileno(), select.EPOLLIN)

    def _take_listener(self, fd: int) -> None:
        """Take the notification descriptor from a launcher, make its broker, then let the launcher continue."""
        shell, channel, spec = self._waiting[fd]
        listener: int | None = None
        try:
            listener = _received_descriptor(channel)
            if listener is None:
                return
            record = partial(self._record, shell)
            judge, rules = _make_judge(spec["judge"]), _rules(spec["rules"])
            broker = Broker(Listener(listener), judge, rules, record, self._tracer)
            broker.permit(**spec.get("permitted", {"entries": ()}))
            self._brokers[listener] = (shell, broker)
            self._epoll.register(listener, select.EPOLLIN)
            channel.send(b"K")
            listener = None
        except Exception as problem:  # noqa: BLE001 — one shell's broken judge must not end the others' supervision
            self._send({"op": "failed", "shell": shell, "why": f"{type(problem).__name__}: {problem}"})
        finally:
            if listener is not None:
                self._brokers.pop(listener, None)
                os.close(listener)
            self._forget(fd)

    def _record(self, shell: int, start: ProgramStart) -> None:
        self._send({"op": "start", "shell": shell, "start": [getattr(start, name) for name in START_FIELDS]})

    def _send(self, message: dict[str, Any]) -> None:
        data = _encode(message).encode()
        if not self._outbox:
            try:
                self._control.send(data)
                return
            except BlockingIOError:
                self._epoll.modify(self._control.fileno(), select.EPOLLIN | select.EPOLLOUT)
            except OSError:
                self._open = False
                return
        self._outbox.append(data)

    def _flush(self) -> None:
        while self._outbox:
            try:
                self._control.send(self._outbox[0])
            except BlockingIOError:
                return
            except OSError:
                self._open = False
                return
            self._outbox.popleft()
        self._epoll.modify(self._control.fileno(), select.EPOLLIN)
        paused, self._paused = self._paused, set()
        for fd in paused & self._brokers.keys():
            self._epoll.modify(fd, select.EPOLLIN)

    def _drop(self, fd: int) -> None:
        del self._brokers[fd]
        self._epoll.unregister(fd)
        os.close(fd)

    def _forget(self, fd: int) -> None:
        _, channel, _ = self._waiting.pop(fd)
        self._epoll.unregister(fd)
        channel.close()


START_FIELDS = ("pid", "parents", "path", "argv", "argv_total", "verdict", "program", "reason")


def _received_descriptor(channel: socket.socket) -> int | None:
    _data, ancillary, _flags, _address = channel.recvmsg(1, socket.CMSG_SPACE(4))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            received = array.array("i")
            received.frombytes(content[:4])
            os.set_inheritable(received[0], False)
            return received[0]
    return None


def _make_judge(spec: dict[str, Any]) -> ProgramJudge:
    module, _, name = str(spec["factory"]).partition(":")
    factory: Callable[..., ProgramJudge] = getattr(importlib.import_module(module), name)
    return factory(**spec["options"])


def _rules(spec: dict[str, Any]) -> BrokerRules:
    listed: dict[str, Any] = {
        name: tuple(cast("list[str]", value)) if isinstance(value, list) else value for name, value in spec.items()
    }
    return BrokerRules(**listed)


if __name__ == "__main__":
    main()
