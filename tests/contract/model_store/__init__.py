"""The store that lives in this process alone: for tests, yours included, and for trying things out."""

from tests.contract.model_store.store import MemoryStore

__all__ = ["MemoryStore"]
