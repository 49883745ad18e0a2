"""Clients that write to replicas all the time, and what their answers and the record say of it."""

import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from tests.daemon.support import eventually
from tests.server.replicas import bearer, rest_call

ANSWERED_WITHIN_S = 60.0


@dataclass(slots=True)
class Load:
    """Clients that begin turns, each at the replicas that are listed as ready.

    A client whose request got no answer, or one that says "send again", sends it again with the same idempotency key if
    it `resends`, else it counts as lost. `answered` has the title of each turn and the id in its answer.
    """

    key: str
    bases: list[str]
    resends: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    answered: dict[str, str] = field(default_factory=dict[str, str])
    sessions: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    resent: int = 0

    @contextmanager
    def running(self, clients: int) -> Generator[None]:
        """Let clients write for the time of a with block; all of them have their last answer after it."""
        threads = [threading.Thread(target=self._client, args=(number,)) for number in range(clients)]
        try:
            for thread in threads:
                thread.start()
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(2 * ANSWERED_WITHIN_S)

    def wait_for_more(self) -> None:
        before = len(self.answered)
        eventually(lambda: len(self.answered) > before + 20 or self.lost, within_s=ANSWERED_WITHIN_S)

    def _client(self, number: int) -> None:
        with httpx.Client(timeout=30) as http:
            opened = rest_call(self.bases[0], self.key, "open_session", http, agent="Codex", title=f"load {number}")
            session = opened.json()["session_id"]
            self.sessions.append(session)
            count = 0
            while not self.stop.is_set():
                count += 1
                title = f"{number}-{count}"
                asked = {"session_id": session, "query_title": title, "query_text": "x", "idempotency_key": title}
                self._send(http, count, asked)

    def _send(self, http: httpx.Client, count: int, asked: dict[str, str]) -> None:
        """Send one request until it is answered; over a refused connection nothing was sent, so that is no loss."""
        deadline, attempt = time.monotonic() + ANSWERED_WITHIN_S, 0
        while time.monotonic() < deadline:
            bases, attempt = list(self.bases), attempt + 1
            try:
                answer = rest_call(bases[(count + attempt) % len(bases)], self.key, "begin_turn", http, **asked)
            except httpx.ConnectError:
                time.sleep(0.01)
                continue
            except httpx.HTTPError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code == 200:
                    self.answered[asked["query_title"]] = answer.json()["request_id"]
                    return
                problem = answer.text
                if answer.status_code != 503 or not answer.json()["error"]["retryable"]:
                    self.lost.append(problem)
                    return
            if not self.resends:
                self.lost.append(problem)
                return
            self.resent += 1
            time.sleep(0.02)
        self.lost.append("no replica took it")


def written_turns(base: str, key: str, sessions: Iterable[str]) -> dict[str, str]:
    """Return the titles and ids of all turns that were begun, none of them twice."""
    begun: list[tuple[str, str]] = []
    with httpx.Client(headers=bearer(key), timeout=30) as http:
        for session_id in sessions:
            after: int | None = 0
            while after is not None:
                page = http.get(f"{base}/sessions/{session_id}/entries.json?limit=1000&after={after}").json()
                begun += [
                    (e["body"]["query_title"], e["request_id"]) for e in page["entries"] if e["kind"] == "turn.begun"
                ]
                after = page["next_after"]
    assert [title for title, count in Counter(title for title, _ in begun).items() if count > 1] == []
    return dict(begun)
