"""The signing key of a state directory: made on first use, mode 0600, and what it signs.

Public keys stay beside it for ever, so that receipts of a key that was replaced can still be checked.
"""

import base64
import hashlib
import logging
import os
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shiftlog.journal.signing.files import publish
from shiftlog.link.files import read_regular
from shiftlog.model.canonical import canonical
from shiftlog.model.errors import StorageError
from shiftlog.model.nouns import Receipt
from shiftlog.model.times import parse, shown

KEY_FILE = "ed25519"
KEY_BYTES = 32
DAMAGED_HINT = (
    "Put a backup of it in its place, or move it away: a new one is made, and recovery tokens given out so far end"
)
REPLACED_HINT = "Restart the server (shiftlog daemon stop), so that it uses the key that is there now"
RECEIPT_LABEL = b"shiftlog-receipt-v1\n"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys in one folder."""

    folder: Path
    private: Ed25519PrivateKey
    key_id: str

    @classmethod
    def load(cls, folder: Path, *, read_only: bool = False) -> "Keys":
        """Read the key, making one where there is none; two processes at once agree on one.

        With `read_only` nothing is made: without its key a folder proves receipts by its public keys alone.
        """
        path = folder / KEY_FILE
        if not read_only:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists():
                publish(path, os.urandom(KEY_BYTES))
        elif not path.exists():
            return cls(folder=folder, private=Ed25519PrivateKey.generate(), key_id="")
        try:
            private = Ed25519PrivateKey.from_private_bytes(read_regular(path))
        except OSError as error:
            reason = f"{path} cannot be read: {error.strerror}"
            raise StorageError("Storage error", details={"reason": reason}, hint=DAMAGED_HINT) from error
        except ValueError as error:
            reason = f"{path} is no key: it does not hold {KEY_BYTES} bytes"
            raise StorageError("Storage error", details={"reason": reason}, hint=DAMAGED_HINT) from error
        key_id = hashlib.sha256(private.public_key().public_bytes_raw()).hexdigest()[:16]
        keys = cls(folder=folder, private=private, key_id=key_id)
        if not read_only:
            keys._publish()
        return keys

    def _publish(self) -> None:
        path = self.folder / f"{self.key_id}.pub"
        if not path.exists():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            publish(path, self.private.public_key().public_bytes_raw())

    def keep(self) -> None:
        """Put the key file back if it is gone or damaged; refuse to sign on if another key is in its place.

        What is signed with a key that is on no disk could not be checked after a restart.
        """
        path, own = self.folder / KEY_FILE, self.private.private_bytes_raw()
        try:
            self._publish()
            held = read_regular(path) if path.is_file() else b""
            if held == own:
                return
            if len(held) != KEY_BYTES:
                log.warning("%s is gone or damaged; it is written again from memory", path)
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                publish(path, own)
                held = read_regular(path)
        except OSError as error:
            reason = f"{path} is gone and cannot be written again: {error.strerror}"
            raise StorageError("Storage error", details={"reason": reason}) from error
        if held != own:
            reason = f"{path} holds another key than the one that this server was started with"
            raise StorageError("Storage error", details={"reason": reason}, hint=REPLACED_HINT)

    def sign(self, receipt: Receipt) -> Receipt:
        """Return the receipt with this key's signature."""
        self.keep()
        receipt = replace(receipt, key_id=self.key_id, signature="")
        signature = self.private.sign(RECEIPT_LABEL + canonical(_unsigned(receipt)))
        return replace(receipt, signature=base64.b64encode(signature).decode("ascii"))

    def did_sign(self, data: bytes, signature: bytes) -> bool:
        """Return True if the present key signed some bytes; what a lost key signed is not proof of anything now."""
        try:
            self.private.public_key().verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def is_signed(self, receipt: Receipt) -> bool:
        """Return True if a key of this folder, past or present, signed the receipt."""
        path = self.folder / f"{receipt.key_id}.pub"
        if not receipt.key_id.isalnum() or not path.exists():
            return False
        try:
            public = Ed25519PublicKey.from_public_bytes(read_regular(path))
            public.verify(base64.b64decode(receipt.signature), RECEIPT_LABEL + canonical(_unsigned(receipt)))
        except (InvalidSignature, ValueError, OSError):
            return False
        return True


def _unsigned(receipt: Receipt) -> dict[str, Any]:
    document = receipt_document(receipt)
    del document["signature"]
    return document


def receipt_document(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as it is shown and signed."""
    document: dict[str, Any] = {
        "session_id": receipt.session_id,
        "seq": receipt.seq,
        "head_hash": receipt.head_hash,
        "at": shown(receipt.at),
        "key_id": receipt.key_id,
        "signature": receipt.signature,
    }
    if receipt.test_clock:
        document["test_clock"] = True
    return document


def receipt_from(document: Any) -> Receipt:
    """Read a receipt kept elsewhere; raise ValueError for anything else."""
    given: Any = document
    for wrapping in ("data", "receipt"):  # the whole answer of close_session may be kept too
        if isinstance(given, dict) and wrapping in given:
            given = cast(dict[str, Any], given)[wrapping]
    if not isinstance(given, dict):
        raise ValueError("a receipt is a JSON object")
    given = cast(dict[str, Any], given)
    missing = {"session_id", "seq", "head_hash", "at", "key_id", "signature"} - given.keys()
    if missing:
        raise ValueError(f"a receipt has the key '{min(missing)}'")
    at: datetime = parse(str(given["at"]))
    if not isinstance(given["seq"], int):
        raise ValueError("the seq of a receipt is an integer")
    return Receipt(
        session_id=str(given["session_id"]),
        seq=given["seq"],
        head_hash=str(given["head_hash"]),
        at=at,
        key_id=str(given["key_id"]),
        signature=str(given["signature"]),
        test_clock=bool(given.get("test_clock", False)),
    )
