"""States of transcript readers, encrypted for the database.

Between two imports a reader remembers text as it was written (open calls, titles, lines held back). It is compared
with later text, so it cannot be masked; the key lies in a file of its own.
"""

import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LABEL = b"shiftlog-reader-state-v1"
NONCE_BYTES = 12


class StateLock:
    """Locks and unlocks states under a key."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(hmac.digest(key, LABEL, "sha256"))

    def lock(self, state: bytes) -> bytes:
        """Return a state as it is kept; none stays none."""
        if not state:
            return b""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, state, LABEL)

    def unlock(self, kept: bytes) -> bytes | None:
        """Return a state that was locked; None for one of another key, whose file is then read whole."""
        try:
            return self._cipher.decrypt(kept[:NONCE_BYTES], kept[NONCE_BYTES:], LABEL)
        except (InvalidTag, ValueError):
            return None
