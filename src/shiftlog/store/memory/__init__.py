"""The store that lives in this process alone: for tests, yours included, and for trying things out."""

from shiftlog.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
