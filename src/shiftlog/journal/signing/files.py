"""Key files: written whole, readable by their owner alone, and on the disk before the key is used."""

import os
from pathlib import Path


def publish(path: Path, data: bytes) -> None:
    """Put a file in place whole, keeping one that another process put there first."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        try:
            os.write(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.link(draft, path)
    except FileExistsError:
        pass  # the other process was first; its file is the one to use
    finally:
        draft.unlink()
    # A key that a power loss took away would leave its receipts without proof, so its name must be on disk too.
    for folder in (path.parent, path.parent.parent):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
