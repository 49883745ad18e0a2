"""Writers that keep books: each call they make ends as acknowledged, applied or not applied, and the record must agree.

Every write carries a mark of its own, so that a lost or doubled one shows.
"""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.story.agents import Agent, Answer, read_record, result_of, said

AT_ONCE = 4
MARK = re.compile(r"w[0-9]+x[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """What a writer was told about one write: `applied`, and where in which chain it stands since."""

    mark: str
    applied: bool | None
    acknowledged: bool
    session_id: str | None = None
    seq: int | None = None
    hash: str | None = None

    @classmethod
    def of(cls, mark: str, answer: Answer) -> "Booked":
        """Book an answer: a receipt, or an error of the bridge that says what became of the call."""
        if "error" in answer:
            data = answer["error"]["data"]
            receipt: Answer = data["receipt"] or {}
            applied, acknowledged = data["applied"], False
        else:
            receipt, applied, acknowledged = result_of(answer)["receipt"], True, True
        place = {name: receipt.get(name) for name in ("session_id", "seq", "hash")}
        return cls(mark=mark, applied=applied, acknowledged=acknowledged, **place)


SHARED_TURN = "req-20260701T100000Z-shared"


class Writer:
    """One agent that writes for as long as it is told to, several calls in flight at a time."""

    agent = Agent

    def __init__(self, home: Path, name: str, *arguments: str, shared: str | None = None) -> None:
        self.name = name
        self._arguments = arguments
        self.books: list[Booked] = []
        self.acknowledged = 0
        self.failure: BaseException | None = None
        self._home = home
        self._shared = shared
        self._own: str | None = None
        self._marks = 0

    def write_until(self, stop: Callable[[], bool]) -> None:
        """Write until told to stop; what goes wrong is kept in `failure`."""
        try:
            with self.agent(self._home, *self._arguments) as agent:
                while not stop():
                    self._open(agent)
                    while self._own is not None and not stop():
                        self._write(agent)
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits for this thread
            self.failure = error

    def _open(self, agent: Agent) -> None:
        """Open a session with a turn, going on with what was applied where the answer was lost."""
        self._own = None
        opened = self._send(agent, [("open_session", {"agent": "Test", "title": self._mark()})])
        if opened[0].applied and opened[0].session_id:
            turn = {"session_id": opened[0].session_id, "query_title": self._mark(), "query_text": "go on"}
            if self._send(agent, [("begin_turn", turn)])[0].applied:
                self._own = opened[0].session_id

    def _write(self, agent: Agent) -> None:
        """Send some writes at once; after a lost answer begin a new session."""
        calls: list[tuple[str, Answer]] = []
        for number in range(AT_ONCE):
            # The turn of the shared session is another client's, so it has to be named.
            shared = {"session_id": self._shared, "request_id": SHARED_TURN}
            where = shared if self._shared and number % 2 else {"session_id": self._own}
            item = said("model", "observation", self._mark())
            calls.append(("update_turn", {**where, "dialog": [item]}))
        if not all(booked.acknowledged for booked in self._send(agent, calls)):
            self._own = None

    def booked(self, mark: str, answer: Answer) -> Booked:
        """Book an answer."""
        return Booked.of(mark, answer)

    def _mark(self) -> str:
        self._marks += 1
        return f"{self.name}x{self._marks}"

    def _send(self, agent: Agent, calls: list[tuple[str, Answer]]) -> list[Booked]:
        marks = {agent.send_call(tool, **arguments, detail="full"): _mark_in(arguments) for tool, arguments in calls}
        booked: list[Booked] = []
        while marks:
            answer = agent.bridge.read()
            booked.append(self.booked(marks.pop(answer["id"]), answer))
        self.books += booked
        self.acknowledged += sum(each.acknowledged for each in booked)
        return booked


def _mark_in(arguments: Answer) -> str:
    if "dialog" in arguments:
        return arguments["dialog"][0]["content"]
    return arguments.get("query_title") or arguments["title"]


class Crew:
    """Writers at work in threads of their own, each with a bridge process; leaving waits for all of them."""

    def __init__(self, writers: Iterable[Writer], stop: Callable[[Writer], bool]) -> None:
        self.writers = list(writers)
        self._seen = [0] * len(self.writers)
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=writer.write_until, args=(self._stop(writer, stop),)) for writer in self.writers
        ]

    def _stop(self, writer: Writer, stop: Callable[[Writer], bool]) -> Callable[[], bool]:
        return lambda: self._stopped.is_set() or stop(writer)

    def __enter__(self) -> "Crew":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._stopped.set()
        for thread in self._threads:
            thread.join()
        for writer in self.writers:
            if writer.failure is not None:
                raise writer.failure

    def stop(self) -> None:
        """Let every writer finish what it has in flight."""
        self._stopped.set()

    @property
    def acknowledged(self) -> int:
        """How many writes were answered with a receipt so far."""
        return sum(writer.acknowledged for writer in self.writers)

    def sessions_since(self) -> set[str]:
        """Return the sessions that were written to since the last time this was asked."""
        named: set[str] = set()
        for number, writer in enumerate(self.writers):
            fresh = writer.books[self._seen[number] :]
            self._seen[number] += len(fresh)
            named |= {booked.session_id for booked in fresh if booked.session_id}
        return named

    @property
    def books(self) -> list[Booked]:
        """What all of them were told."""
        return [booked for writer in self.writers for booked in writer.books]


def open_shared(agent: Agent) -> str:
    """Open a session with a turn that many may write to, and return its id."""
    name: str = agent.call("open_session", agent="Test", title="shared")["session_id"]
    turn = {"request_id": SHARED_TURN, "query_title": "shared turn", "query_text": "go on"}
    agent.call("begin_turn", session_id=name, **turn)
    return name


def check_books(home: Path, books: Iterable[Booked]) -> None:
    """See that the record holds exactly what the writers were told, once each, where they were told."""
    record = read_record(home)
    hashes = {(line.session_id, line.seq): line.hash for line in record}
    found = Counter(mark for line in record for mark in _marks_of(line.body))
    told = list(books)
    for booked in told:
        assert booked.applied is not None, f"nobody could say what became of {booked.mark}"
        assert found[booked.mark] == int(booked.applied), booked
        if booked.applied:
            assert hashes[(str(booked.session_id), booked.seq or 0)] == booked.hash, booked
    assert set(found) <= {booked.mark for booked in told}, "nobody wrote that"


def _marks_of(body: dict[str, Any]) -> list[str]:
    given = [str(body.get(name)) for name in ("content", "query_title", "title")]
    return [text for text in given if MARK.fullmatch(text)]
