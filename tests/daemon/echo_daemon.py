"""A real daemon with tiny services, for tests that decide when a request is answered and what became of it.

Run as a program with the daemon's own arguments. `hold` answers when the file named in its params exists,
`count` streams numbers, `outcomes.json` in the state directory is what the journal would know.
"""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel

from shiftlog.daemon import main
from shiftlog.daemon.control import Answer
from shiftlog.daemon.lines import LineStream
from shiftlog.daemon.services import ServeMcp
from shiftlog.daemon.tasks import until
from shiftlog.daemon.upkeep import Upkeep
from shiftlog.link import wire
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InvalidParameter, SessionNotFound

#: A client whose child connects and ends, so that the kernel names a process that is gone.
BY_CHILD = """
import os, socket, sys
from shiftlog.link import wire
sock = socket.socket(socket.AF_UNIX)
child = os.fork()
if not child:
    sock.connect(sys.argv[1])
    os._exit(0)
os.waitpid(child, 0)
lines = sock.makefile("rwb")
lines.write(wire.hello_line(role="control", face="test", client_id="0", version="0.0.1"))
lines.write(b'{"id": 1, "method": "whoami", "params": {}}\\n')
lines.flush()
lines.readline()
print(lines.readline().decode())
"""


class Echo:
    """Answers every JSON-RPC request with its own method and params."""

    idle_stop_s = None
    must_restart = None
    log_level = "debug"

    def __init__(self, home: str) -> None:
        self.home = Path(home)
        self.upkeep = Upkeep()
        self.gone: list[str | None] = []
        self.heard: list[str | None] = []
        self.options: dict[str, object] = {}
        self.room = anyio.Semaphore(64)

    async def open_mcp(self, options: dict[str, object]) -> ServeMcp:
        if "nonsense" in options:
            raise InvalidParameter.unknown("nonsense", None)
        self.options = options
        return self._serve

    async def _serve(self, lines: LineStream, caller: Caller, draining: anyio.Event) -> None:
        if self.home.joinpath("breaks").exists():
            raise RuntimeError("every connection breaks")
        async with anyio.create_task_group() as requests:  # noqa: SIM117 - it outlives the reading
            async with until(draining):
                while (line := await lines.read(1 << 20)) is not None:
                    await self.room.acquire()
                    requests.start_soon(self._answer, lines, json.loads(line))

    async def _answer(self, lines: LineStream, message: dict[str, Any]) -> None:
        try:
            await self._answer_one(lines, message)
        finally:
            self.room.release()

    async def _answer_one(self, lines: LineStream, message: dict[str, Any]) -> None:
        self.heard.append(message.get("method"))
        if message.get("method") == "ask":
            await lines.send(b'{"jsonrpc":"2.0","id":"q","method":"question"}\n')
        if "id" not in message or "method" not in message:
            return
        await self._hold(message.get("params"))
        if message["method"] == "crash":
            raise RuntimeError("a secret of the client")
        result = {"method": message["method"], "params": message.get("params")}
        await lines.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")

    async def _hold(self, params: Any) -> None:
        if params and "until" in params:
            self.home.joinpath("holding").touch()
            while not Path(params["until"]).exists():  # noqa: ASYNC110 - another process makes the file
                await anyio.sleep(0.005)

    def control(self, method: str, params: dict[str, object], caller: Caller) -> Answer:
        if method == "count":
            return self._count()
        return self._one(method, params, caller)

    async def _one(self, method: str, params: dict[str, object], caller: Caller) -> object:
        await self._hold(params)
        match method:
            case "whoami":
                return {
                    "operator": caller.operator,
                    "pid": caller.pid,
                    "face": caller.face,
                    "cwd": caller.cwd,
                }
            case "run_inside":
                ask = "import sys, json; from shiftlog.link.client import connect; "
                ask += "print(json.dumps(connect(sys.argv[1], start=False).call('whoami')))"
                done = await anyio.run_process([sys.executable, "-c", ask, str(self.home)])
                return json.loads(done.stdout)
            case "connect_by_child":
                done = await anyio.run_process([sys.executable, "-c", BY_CHILD, wire.socket_path(str(self.home))])
                return json.loads(done.stdout)["result"]
            case "heard":
                return self.heard
            case "options":
                return self.options
            case "gone":
                return self.gone
            case "call_outcome":
                known = json.loads(self.home.joinpath("outcomes.json").read_text())
                return known.get(params["call_id"])
            case "fail":
                name = cast("str | None", params.get("name"))
                _fail(str(params["place"]), MemoryError if params["memory"] else RuntimeError, name)
                return None
            case "missing":
                raise SessionNotFound("No such session", details={"session_id": "s"})
            case "defect":
                raise RuntimeError("a secret of the client")
            case _:
                return {"method": method, "params": params}

    async def _count(self) -> AsyncGenerator[object]:
        number = 0
        while True:
            yield number
            number += 1
            await anyio.lowlevel.checkpoint()

    async def client_gone(self, caller: Caller) -> None:
        self.gone.append(caller.client_id)

    async def renew_leases(self, client_ids: Iterable[str]) -> None:
        pass

    async def sweep(self, client_ids: Iterable[str]) -> None:
        pass

    def busy(self) -> bool:
        return self.home.joinpath("busy").exists()

    def end_shells(self) -> None: ...

    async def status(self) -> dict[str, object]:
        return {"echo": True}

    async def run_background(self, draining: anyio.Event) -> None:
        pass


def _fail(place: str, error: type[Exception], name: str | None) -> None:
    """Raise an error where no caller gets it."""

    def fail(*_: object) -> None:
        raise error

    if place == "callback":
        asyncio.get_running_loop().call_soon(fail)
    elif place == "thread":
        thread = threading.Thread(target=fail, name=name)
        thread.start()
        thread.join()
    else:
        pool = ThreadPoolExecutor(1)
        pool.submit(lambda: None).add_done_callback(fail)
        pool.shutdown()


@asynccontextmanager
async def open_echo(home: str, connected: Callable[[], Collection[str]]) -> AsyncGenerator[Echo]:
    refusal = Path(home, "refuse")
    if refusal.exists():
        raise InvalidParameter.invalid("setting", refusal.read_text())
    if Path(home, "broken").exists():
        raise RuntimeError("the disk is gone")
    yield Echo(home)
    Path(home, "closed").touch()


if __name__ == "__main__":
    sys.exit(main(open_services=open_echo))
