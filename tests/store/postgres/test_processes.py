"""Several processes over one database, and processes that are killed while they write."""

from tests.store.writing import check, kill_after, start


async def test_processes_that_write_at_once_lose_and_double_nothing(postgres_url: str) -> None:
    writers = [start(postgres_url, f"writer-{n}", 40) for n in range(3)]
    outputs = [writer.communicate(timeout=100)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    lines = [line for output in outputs for line in output.splitlines()]
    assert len(lines) == len(set(lines)) == 120
    assert await check(postgres_url, lines) == 120


async def test_a_process_killed_while_another_writes_leaves_every_acknowledged_entry(postgres_url: str) -> None:
    other = start(postgres_url, "other-1", 60)
    acknowledged = [line for n in range(2) for line in kill_after(postgres_url, f"victim-{n}", 5 + 20 * n)]
    acknowledged += other.communicate(timeout=100)[0].splitlines()
    assert other.returncode == 0
    assert await check(postgres_url, acknowledged) >= len(acknowledged) >= 90
