r"""Sends one file to a remote target and fetches one from it, over a wire beside the shell.

The target writes to a hidden file in the directory of the destination and renames it once size and digest are right, so
that a broken connection changes nothing. The target needs the usual small programs; without `sha256sum` on
the target, only the size is compared.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from shiftlog.shell.engine import protocol
from shiftlog.shell.ports import Stream
from shiftlog.shell.remote.carrier import TokenReader
from shiftlog.shell.remote.ports import RemoteHost, Wire, WireEnd, WireListener

_FAIL = r"""fail() { printf 'fail %s' "$1"; exit 9; }
cd -- "$1" 2>/dev/null || fail cwd
path=$2
case $path in '~') path=$HOME;; '~/'*) path=$HOME/${path#??};; /*) ;; *) path=./$path;; esac
"""
_PUT = (
    _FAIL
    + r"""
if [ -d "$path" ]; then path=$path/$3; fi
case $path in */*) dir=${path%/*}/ name=${path##*/};; *) dir=. name=$path;; esac
[ -n "$name" ] || fail directory
[ -z "$7" ] || root=$(cd -P -- "$7" 2>/dev/null && pwd -P) || fail workspace
cd -P -- "$dir" 2>/dev/null || fail directory
here=$(pwd -P)
[ -z "$7" ] || case $here/ in "$root"/*) ;; *) fail outside;; esac
[ ! -d "./$name" ] || fail folder
part=./.shiftlog-$8
trap 'rm -f "$part"' EXIT
trap 'exit 1' HUP INT TERM PIPE
umask 077
cat 2>/dev/null >"$part" || fail write
[ "$(wc -c <"$part")" -eq "$4" ] || fail size
compared=size
if command -v sha256sum >/dev/null 2>&1; then
  sum=$(sha256sum <"$part"); [ "${sum%% *}" = "$5" ] || fail digest
  compared=digest
fi
mode=$6
[ ! -f "./$name" ] || mode=$(stat -L -c %a "./$name" 2>/dev/null) || mode=600
chmod "$mode" "$part" && mv -f "$part" "./$name" 2>/dev/null || fail write
trap - EXIT
printf 'done %s %s/%s' "$compared" "${here%/}" "$name"
"""
)
_GET = (
    _FAIL
    + r"""
[ ! -d "$path" ] || fail folder
[ -f "$path" ] || fail missing
exec 3<"$path" || fail unreadable
size=$(wc -c <"$path") || fail unreadable
mode=$(stat -L -c %a "$path" 2>/dev/null) || mode=600
printf '%s %s %s ' "$3" "$((size))" "$mode"
head -c "$size" <&3
sum=
if command -v sha256sum >/dev/null 2>&1; then sum=$(sha256sum <"$path"); fi
printf '%s %s' "$3" "${sum%% *}"
"""
)
_WHY = {
    "cwd": "the directory of the shell is gone",
    "directory": "its directory does not exist there, or cannot be entered",
    "workspace": "the shell's workspace is gone",
    "outside": "it lies outside the shell's workspace",
    "folder": "it is a directory there",
    "write": "it cannot be written there",
    "size": "it did not arrive whole",
    "digest": "it changed on its way",
    "missing": "it does not exist there as a regular file",
    "unreadable": "it cannot be read there",
}
_HEADER_BYTES = 256
_TAIL_BYTES = 256


class RemoteFileFailed(Exception):
    """The target refused, or what arrived is not what was sent; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file that arrived: its path on the target, and whether its digest was compared there."""

    path: str
    compared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """A file that was fetched whole; `compared` says that the target's digest of it is the same."""

    size: int
    mode: int
    sha256: str
    compared: bool


async def send_file(
    host: RemoteHost,
    content: AsyncIterator[bytes],
    *,
    cwd: str,
    path: str,
    name: str,
    size: int,
    sha256: str,
    mode: int,
    root: str | None,
) -> SentFile:
    """Send a file; a directory as `path` gets it under `name`, and with `root` it must lie below that directory."""
    token, heard = protocol.draw_token(), TokenReader(_TAIL_BYTES * 64)
    arguments = [cwd, path, name, str(size), sha256, f"{mode:o}", root or "", protocol.draw_token()[:16]]
    wire = await _start(host, heard, _PUT, arguments, token)
    try:
        await _until_or_end(heard, token)
        async for piece in content:
            if heard.end.done():
                break
            await wire.send(piece)
        wire.write_eof()
        end = await asyncio.shield(heard.end)
    finally:
        wire.close()
    words = bytes(heard.streams["stdout"]).decode("utf-8", "surrogateescape").split(" ", 2)
    if end.lost or words[0] not in ("done", "fail"):
        raise ConnectionError("the connection was lost")
    if words[0] == "fail":
        raise RemoteFileFailed(_WHY.get(words[1], words[1]))
    return SentFile(path=words[2], compared=words[1] == "digest")


async def fetch_file(
    host: RemoteHost,
    *,
    cwd: str,
    path: str,
    begin: Callable[[int], None],
    take: Callable[[bytes], None],
) -> FetchedFile:
    """Fetch a file: `begin` gets its size, `take` each piece in order."""
    token = protocol.draw_token()
    receiver = _FileReceiver(token.encode(), take)
    wire = await _start(host, receiver, _GET, [cwd, path, token], None)
    try:
        await receiver.news.wait()
        if receiver.size is not None:
            begin(receiver.size)
        end = await asyncio.shield(receiver.end)
    finally:
        wire.close()
    if receiver.error is not None:
        raise receiver.error
    if receiver.size is None:
        said = bytes(receiver.head).decode("utf-8", "replace").split()
        if end.lost or said[:1] != ["fail"]:
            raise ConnectionError("the connection was lost")
        raise RemoteFileFailed(_WHY.get(said[1], said[1]))
    mark, _, digest = bytes(receiver.tail).partition(b" ")
    if receiver.taken != receiver.size or mark != token.encode():
        raise ConnectionError("the connection was lost") if end.lost else RemoteFileFailed("it changed meanwhile")
    found = receiver.digest.hexdigest()
    if digest and digest.decode("ascii", "replace") != found:
        raise RemoteFileFailed("it changed meanwhile")
    return FetchedFile(size=receiver.size, mode=receiver.mode, sha256=found, compared=bool(digest))


async def _start(
    host: RemoteHost, listener: WireListener, program: str, arguments: Sequence[str], token: str | None
) -> Wire:
    wire = await host.open_wire(listener)
    words = " ".join(map(protocol.quote, ["sh", "-c", program, "sh", *arguments]))
    # Only after the token has the program taken over the input that the shell read its line from.
    ready = f"printf %s {token}; " if token else ""
    wire.write(f"{{ {ready}exec {words}; }}\n".encode("utf-8", "surrogateescape"))
    return wire


async def _until_or_end(heard: TokenReader, token: str) -> None:
    try:
        await heard.until(token.encode())
    except ConnectionError:
        if heard.end.done() and heard.end.result().lost:
            raise


class _FileReceiver:
    """Takes the header, the content and the digest of a fetched file from a wire."""

    def __init__(self, token: bytes, take: Callable[[bytes], None]) -> None:
        self._token = token
        self._take = take
        self.head, self.tail = bytearray(), bytearray()
        self.size: int | None = None
        self.mode = 0o600
        self.taken = 0
        self.digest = hashlib.sha256()
        self.error: OSError | None = None
        self.news = asyncio.Event()  # the header is known, or the wire has ended
        self.end: asyncio.Future[WireEnd] = asyncio.get_running_loop().create_future()

    def received(self, stream: Stream, data: bytes) -> None:
        if stream != "stdout" or self.end.done():
            return
        if self.size is None:
            self.head += data
            words = bytes(self.head).split(b" ", 3)
            if len(words) < 4 or words[0] != self._token:
                del self.head[_HEADER_BYTES:]
                return
            self.size, self.mode, data = int(words[1]), int(words[2], 8) & 0o777, words[3]
            self.news.set()
        content = data[: self.size - self.taken]
        self.tail += data[len(content) :][: _TAIL_BYTES - len(self.tail)]
        self._keep(content)

    def _keep(self, content: bytes) -> None:
        if not content:
            return
        try:
            self._take(content)
        except OSError as error:
            self.error = error
            self.finished(WireEnd(exit_code=None))
            return
        self.digest.update(content)
        self.taken += len(content)

    def finished(self, end: WireEnd) -> None:
        if not self.end.done():
            self.end.set_result(end)
        self.news.set()
