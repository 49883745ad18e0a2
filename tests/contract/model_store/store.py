"""The in-memory store: work runs where it is called, so each piece is alone by itself."""

from collections.abc import Callable
from typing import Self, TypeVar

from shiftlog.model.errors import StorageError
from shiftlog.store.protocol import Reader, Writer
from tests.contract.model_store.reader import MemoryReader
from tests.contract.model_store.shelves import Shelves, Undo
from tests.contract.model_store.writer import MemoryWriter

T = TypeVar("T")


class MemoryStore:
    """A store without a file; what it holds stays while the object does, also when it is opened again.

    >>> async with MemoryStore() as store:
    ...     await store.read(lambda reader: reader.session_ids())
    []
    """

    def __init__(self) -> None:
        self._shelves = Shelves()
        self._is_open = False

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._is_open = False

    async def write(self, work: Callable[[Writer], T], *, lasting: bool = True) -> T:
        """Run work; when it raises, every change that it made is taken back."""
        self._check_open()
        undo = Undo()
        try:
            return work(MemoryWriter(self._shelves, undo))
        except BaseException:
            undo.roll_back()
            raise

    async def write_bulk(self, work: Callable[[Writer], T]) -> T:
        """Run work like any other."""
        return await self.write(work)

    async def sync(self) -> None:
        """Nothing here outlives the process."""

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Run work over what is there."""
        self._check_open()
        return work(MemoryReader(self._shelves))

    def _check_open(self) -> None:
        if not self._is_open:
            raise StorageError("Storage error", details={"reason": "the store is not open"})
