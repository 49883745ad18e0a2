"""States of readers at rest: they hold text of transcripts as it was written, so they are kept under the store's key.

What a reader remembers between two imports (open calls, titles, lines held back) is compared with what comes later and
cannot be masked; the database holds it only encrypted, and the key lies in a file of its own.
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
