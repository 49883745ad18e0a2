"""A second process over the same state directory: begins turns until its input ends, and prints how many."""

import sys
import threading
from pathlib import Path

import anyio

from tests.journal.harness import open_harness


async def add_turns(home: Path, session: str, enough: threading.Event) -> int:
    added = 0
    async with open_harness(home) as harness:
        print("ready", flush=True)
        while not enough.is_set():
            await harness.begin(session, query_title="Added meanwhile")
            added += 1
    return added


def main() -> None:
    enough = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        enough.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    print(anyio.run(add_turns, Path(sys.argv[1]), sys.argv[2], enough))


if __name__ == "__main__":
    main()
