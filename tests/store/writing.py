"""A process that writes to a database and says so: `python -m tests.store.writing STORE NAME COUNT`.

Each line of its output is `<session> <seq> <hash>` of an entry that the store has acknowledged. It writes in turns
to a session of its own and to one that all such processes share; COUNT 0 means to go on until killed. STORE is a file
or the address of a PostgreSQL database.
"""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import anyio

from shiftlog.model.canonical import first_prev_hash
from shiftlog.model.search import parse
from shiftlog.store.postgres import PostgresStore
from shiftlog.store.protocol import Filter, Reader, Store, Writer
from shiftlog.store.sqlite import SqliteStore
from tests.contract import builders as b

ROOT = Path(__file__).parents[2]
AT_ONCE = 4


def store_at(place: str) -> Store:
    """Return the store in a file or at an address, not open yet."""
    return PostgresStore(place) if place.startswith("postgresql:") else SqliteStore(Path(place))


def start(place: str | Path, name: str, count: int) -> subprocess.Popen[str]:
    """Start a process that writes; its output is one line for each acknowledged entry."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.writing", str(place), name, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )


def kill_after(place: str | Path, name: str, lines: int) -> list[str]:
    """Kill a writing process when it has said so many lines; return all it said, the last one if it is whole."""
    writer = start(place, name, 0)
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(lines)]
    writer.send_signal(signal.SIGKILL)
    said += writer.stdout.readlines()
    writer.wait(timeout=30)
    writer.stdout.close()
    return [line for line in said if line.endswith("\n")]


def hashes(reader: Reader) -> dict[str, list[str]]:
    """Return the hashes of all entries, having checked that each chain holds and each session shows its head."""
    found: dict[str, list[str]] = {}
    for session_id in reader.session_ids():
        prev, seq = first_prev_hash(session_id), 0
        for seq, entry in enumerate(reader.entries(session_id), start=1):
            assert entry.seq == seq
            assert entry.expected_hash(prev) == entry.hash
            assert entry.body_is_intact()
            prev = entry.hash
            found.setdefault(session_id, []).append(prev)
        session = reader.session(session_id)
        assert session is not None
        assert (session.head_seq, session.head_hash) == reader.head(session_id) == (seq, prev)
    return found


async def check(place: str | Path, acknowledged: Iterable[str]) -> int:
    """Check that every acknowledged entry is there and found, and that all chains hold; return how many there are."""
    async with store_at(str(place)) as store:
        stored = await store.read(hashes)
        for line in acknowledged:
            session_id, seq, digest = line.split()
            assert stored[session_id][int(seq) - 1] == digest
        total = sum(map(len, stored.values()))
        found = await store.read(
            lambda reader: reader.search(parse("number"), Filter(), unit="entry", limit=1, most=10**6)
        )
        assert found.total == total
    return total


def append(writer: Writer, name: str, text: str) -> str:
    """Append one entry after the head of a session, whoever wrote that."""
    head = writer.head(b.session_id(name))
    chain = b.Chain(name) if head is None else b.Chain(name, seq=head[0], hash=head[1])
    # Every third text is long enough to be kept as a blob.
    chain = b.put(writer, text * (400 if chain.seq % 3 == 0 else 1), of=b.session(name), chain=chain)
    writer.put_turn(b.session_id(name), replace(b.turn(), last_seq=chain.seq))
    return f"{b.session_id(name)} {chain.seq} {chain.hash}"


async def main(place: str, name: str, count: int) -> None:
    """Write from a few tasks at once, so that there are groups to commit; under a name with an even number, alone."""
    numbers = itertools.count(1)
    alone = name[-1] in "02468"

    async with store_at(place) as store, anyio.create_task_group() as group:

        async def write() -> None:
            for n in numbers:
                if count and n > count:
                    return
                where = "shared" if n % 2 else name
                line = await store.write(lambda writer, n=n, where=where: append(writer, where, f"{name} number {n} "))
                print(line, flush=True)

        for _ in range(1 if alone else AT_ONCE):
            group.start_soon(write)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
