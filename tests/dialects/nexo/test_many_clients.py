"""Many clients at once on one embedded store: every pair of create and close counts, and none fails."""

import threading
from collections import Counter
from pathlib import Path

import pytest

from tests.dialects.nexo.ledger import CLOSE, CREATE
from tests.story.agents import Agent, check_intact, read_projections


def keep_books(home: Path, number: int, pairs: int, rows: list[int], options: tuple[str, ...]) -> None:
    """Be one client: a process of its own that creates and closes rows."""
    with Agent(home, *options, "--dialect", "nexo") as agent:
        for pair in range(pairs):
            made = agent.call(CREATE, caller=f"client_{number}", backend="codex", cwd=str(home))
            agent.call(
                CLOSE, session_id=made["session_id"], input_tokens=pair + 1, output_tokens=1, total_cost_usd="0.01"
            )
            rows.append(made["session_id"])


def run_clients(home: Path, clients: int, pairs: int, *options: str) -> None:
    rows: list[int] = []
    failures: list[BaseException] = []

    def client(number: int) -> None:
        try:
            keep_books(home, number, pairs, rows, options)
        except BaseException as error:  # noqa: BLE001 - raised below, by the test
            failures.append(error)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    assert len(set(rows)) == len(rows) == clients * pairs
    runs = [session.run for session, _ in read_projections(home).values() if session is not None]
    assert {run.alias for run in runs if run} == set(rows)
    assert Counter(str(run.status) for run in runs if run) == {"ok": clients * pairs}
    tokens = sum(run.input_tokens or 0 for run in runs if run)
    assert tokens == clients * sum(range(1, pairs + 1))


def test_13_clients_at_once_lose_nothing_and_none_fails(home: Path) -> None:
    run_clients(home, 6, 5)
    check_intact(home)


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
