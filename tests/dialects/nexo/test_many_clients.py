"""Many clients at once on one embedded store: every pair of create and close counts, and none fails."""

import threading
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.dialects.nexo.ledger import CLOSE, CREATE
from tests.story.agents import Agent, check_intact, read_projections

STARTING_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DelxServer:
    """Where the clients meet: processes start a few at a time, and then all of them work at once."""

    home: Path
    options: tuple[str, ...]
    pairs: int
    ready: threading.Barrier
    starting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(STARTING_AT_ONCE))
    rows: list[int] = field(default_factory=list[int])
    failures: list[BaseException] = field(default_factory=list[BaseException])

    def work(self, number: int) -> None:
        """Be one client; what goes wrong is kept, and nobody waits for it any longer."""
        try:
            with ExitStack() as process:
                with self.starting:
                    agent = process.enter_context(Agent(self.home, *self.options, "--dialect", "nexo"))
                self.ready.wait()
                self._keep_books(agent, number)
        except BaseException as error:  # noqa: BLE001 - raised by the test
            self.failures.append(error)
            self.ready.abort()

    def _keep_books(self, agent: Agent, number: int) -> None:
        for pair in range(self.pairs):
            made = agent.call(CREATE, caller=f"client_{number}", backend="codex", cwd=str(self.home))
            figures = {"input_tokens": pair + 1, "output_tokens": 1, "total_cost_usd": "0.01"}
            agent.call(CLOSE, session_id=made["session_id"], **figures)
            self.rows.append(made["session_id"])


def run_clients(home: Path, clients: int, pairs: int, *options: str) -> None:
    server = DelxServer(home=home, options=options, pairs=pairs, ready=threading.Barrier(clients))
    threads = [threading.Thread(target=server.work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if server.failures:
        raise server.failures[0]
    rows = server.rows
    assert len(set(rows)) == len(rows) == clients * pairs
    runs = [session.run for session, _ in read_projections(home).values() if session is not None]
    assert {run.alias for run in runs if run} == set(rows)
    assert Counter(str(run.status) for run in runs if run) == {"ok": clients * pairs}
    tokens = sum(run.input_tokens or 0 for run in runs if run)
    assert tokens == clients * sum(range(1, pairs + 1))


def test_13_clients_at_once_lose_nothing_and_none_fails(home: Path) -> None:
    run_clients(home, 6, 5)
    check_intact(home)


@pytest.mark.long
def test_13_processes_that_share_the_file_itself_lose_nothing_and_none_fails(home: Path) -> None:
    run_clients(home, 3, 5, "--in-process")
    check_intact(home)


@pytest.mark.soak
@pytest.mark.parametrize("options", [(), ("--in-process",)], ids=["daemon", "in-process"])
def test_13_with_32_processes_of_100_pairs_3200_rows_are_closed_and_none_failed(
    home: Path, options: tuple[str, ...]
) -> None:
    run_clients(home, 32, 100, *options)
    check_intact(home)
