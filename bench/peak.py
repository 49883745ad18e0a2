"""The most memory that a measured job takes, looked at from a thread while it runs."""

import threading
from collections.abc import Callable

EVERY_S = 0.05


class Peak:
    """Asks again and again how many bytes are in use, inside a with block, and keeps the most."""

    def __init__(self, used: Callable[[], int]) -> None:
        self._used = used
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.bytes = 0

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.bytes = max(self.bytes, self._used())
