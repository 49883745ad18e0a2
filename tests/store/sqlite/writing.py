"""A process that writes to a database and says so: `python -m tests.store.sqlite.writing FILE NAME COUNT`.

Each line of its output is `<session> <seq> <hash>` of an entry that the store has acknowledged. It writes in turns
to a session of its own and to one that all such processes share; COUNT 0 means to go on until killed.
"""

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import anyio

from shiftlog.store.protocol import Writer
from shiftlog.store.sqlite import SqliteStore
from tests.contract import builders as b

AT_ONCE = 4


def append(writer: Writer, name: str, text: str) -> str:
    """Append one entry after the head of a session, whoever wrote that."""
    head = writer.head(b.session_id(name))
    chain = b.Chain(name) if head is None else b.Chain(name, seq=head[0], hash=head[1])
    # Every third text is long enough to be kept as a blob.
    chain = b.put(writer, text * (400 if chain.seq % 3 == 0 else 1), of=b.session(name), chain=chain)
    writer.put_turn(b.session_id(name), replace(b.turn(), last_seq=chain.seq))
    return f"{b.session_id(name)} {chain.seq} {chain.hash}"


async def main(path: Path, name: str, count: int) -> None:
    """Write from a few tasks at once, so that there are groups to commit; under a name with an even number, alone."""
    numbers = itertools.count(1)
    alone = name[-1] in "02468"

    async with SqliteStore(path) as store, anyio.create_task_group() as group:

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
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
