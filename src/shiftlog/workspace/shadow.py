"""The shadow repository of one workspace: its location, its isolation from other git settings, and running scripts.

Every script runs on the target in one environment; an unexpected exit code is an error, never a result.
"""

import asyncio
import errno
import hashlib
import os
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from shiftlog.model.errors import StorageError
from shiftlog.model.limits import CHECKPOINT_STEP_S
from shiftlog.model.shell_errors import GitMissing, WorkspaceInvalid
from shiftlog.workspace import names
from shiftlog.workspace.ports import Location, Ran, Runner, Scope, WorkTree
from shiftlog.workspace.rules import data_pattern, exclude_arguments, exclude_file, scope_key

OLDEST_GIT = (2, 22)

# With a split index a small change costs a small write. git (2.36 and newer) only starts writing objects to the disk;
# the last step of a checkpoint waits once for all of them.
_CONFIG = b"""[core]
\trepositoryformatversion = 0
\tbare = false
\tfilemode = true
\tsymlinks = true
\tignorecase = false
\tprecomposeunicode = false
\tprotectHFS = false
\tprotectNTFS = false
\tautocrlf = false
\tsafecrlf = false
\teol = lf
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\thooksPath = /dev/null
\tfsmonitor = false
\tuntrackedCache = false
\tsplitIndex = true
\tpreloadIndex = true
\tlogAllRefUpdates = false
\tcompression = 1
\tfsync = loose-object
\tfsyncMethod = writeout-only
\tquotePath = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""

# git's first source of attributes. `!` makes each one unspecified, regardless of the project's own attributes.
_ATTRIBUTES = "* !text !eol !crlf !ident !filter !working-tree-encoding !diff !merge !whitespace !export-subst\n"

# A missing workspace keeps its checkpoints: its real path is that of the directory above it, and the missing names.
_FIND = """
umask 077
data=${2:-$HOME/.shiftlog}
mkdir -p "$data/checkpoints" && cd -P -- "$data" || exit 6
data=$(pwd -P && echo x) && data=${data%??}
top=${1%/} rest=
while [ ! -d "$top/" ]; do
  if [ -e "$top" ] || [ -L "$top" ]; then exit 5; fi
  rest=/${top##*/}$rest top=${top%/*}
done
cd -P -- "$top/" 2>/dev/null || exit 5
printf '%s\\0%s\\0%s\\0' "${PWD%/}$rest" "$rest" "$data"
git --version 2>/dev/null || :
"""

_EXCLUDE = """new=$(cat; printf x)
[ "$new" = "$(cat "$1" 2>/dev/null; printf x)" ] && exit 0
printf %s "${new%x}" | cat >"$1.$$" && mv "$1.$$" "$1" && exit 0
rm -f "$1.$$"; exit 8
"""

_ENTER = """cd "$GIT_WORK_TREE" 2>/dev/null || { if [ -e "$GIT_WORK_TREE" ]; then exit 5; else exit 4; fi; }
"""

_INIT = """
umask 077
if [ ! -f "$GIT_DIR/ready-2" ]; then
  rm -f "$GIT_DIR/config"
  git init -q --template= >/dev/null || exit 7
  mkdir -p "$GIT_DIR/info" "$GIT_DIR/refs/checkpoints" "$GIT_DIR/refs/tips" "$GIT_DIR/objects/info" || exit 6
  cat >"$GIT_DIR/config" && git hash-object -w --stdin </dev/null >/dev/null || exit 6
  printf '%s' "$1" >"$GIT_DIR/info/attributes" && : >"$GIT_DIR/ready-2" || exit 6
  git rev-parse --git-dir >/dev/null || exit 7
fi
"""


# Borrowed objects are visible to reading scripts only: a git that writes would refresh the times of the user's files.
# A lender with lenders of its own is not used: git would follow a list that a program in the workspace wrote. The limit
# of 4 GiB ends a git that was led to an endless file all the same.
READ = """
ulimit -d 4194304 2>/dev/null
lenders=
[ -d "$GIT_DIR/borrowed" ] && lenders=$GIT_DIR/borrowed
if [ -f "$GIT_DIR/lender" ]; then
  IFS= read -r lender <"$GIT_DIR/lender"
  [ -e "$lender/info/alternates" ] || lenders=$lenders:$lender
fi
export GIT_ALTERNATE_OBJECT_DIRECTORIES="$lenders"
"""


class ShadowBroken(StorageError):
    """A step on the shadow repository failed without changing the workspace."""

    def __init__(self, step: str, ran: Ran) -> None:
        error = ran.stderr.decode("utf-8", "replace").strip()
        super().__init__(f"checkpoints: {step} ended with {ran.exit_code}: {error[-500:]}")
        self.exit_code = ran.exit_code


class StepTimeout(StorageError):
    """A program of a checkpoint did not end in time and was ended."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"checkpoints: git did not end within {limit_s:.0f} s")


class WorkspaceGone(WorkspaceInvalid):
    """The directory of an open workspace no longer exists; its checkpoints are kept."""

    hint = "restore_checkpoint brings it back: its checkpoints are kept"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(_cannot(path, why), details={"why": why})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """One workspace and its shadow repository, seen through one scope; `tree` is the workspace while it is open."""

    runner: Runner
    location: Location
    data: str
    git_dir: str
    scope: Scope = field(default_factory=Scope)
    tree: WorkTree | None = None

    @property
    def work(self) -> WorkTree:
        """The open workspace."""
        assert self.tree is not None, "the workspace was not entered"
        return self.tree

    @property
    def key(self) -> str:
        """Name the scope's index."""
        return scope_key(self.scope)

    @property
    def state_file(self) -> str:
        """Name the file that says what the index holds."""
        return f"{self.git_dir}/{self.key}.state"

    @property
    def lock_path(self) -> str:
        """Name the lock that every change of the shadow repository is made under."""
        return f"{self.git_dir}/lock"

    @property
    def exclude_path(self) -> str:
        """Name the file of negatable patterns."""
        return f"{self.git_dir}/{self.key}.exclude"

    @property
    def final_pattern(self) -> str | None:
        """Return the pattern of Shiftlog's own data, where the workspace contains it."""
        return data_pattern(self.location.path, self.data)

    def excludes(self) -> list[str]:
        """Return the exclude arguments of `git ls-files` for this scope."""
        return [f"--exclude-from={self.exclude_path}", *exclude_arguments(self.scope, self.final_pattern)]

    def pathspec(self) -> list[str]:
        """Return the scope's sub-paths as arguments."""
        return ["--", *(os.fsdecode(names.read(path)) for path in self.scope.paths)] if self.scope.paths else []

    def environment(self, index: str | None = None) -> dict[str, str]:
        """Return the whole environment of a script: git reads nothing but the shadow repository."""
        return {
            "LC_ALL": "C",
            "HOME": self.git_dir,
            "XDG_CONFIG_HOME": self.git_dir,
            "GIT_DIR": self.git_dir,
            "GIT_WORK_TREE": "." if self.tree and self.tree.directory is not None else self.location.path,
            "GIT_INDEX_FILE": index or f"{self.git_dir}/{self.key}.index",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_DEFAULT_HASH": "sha1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_AUTHOR_NAME": "shiftlog",
            "GIT_AUTHOR_EMAIL": "shiftlog@localhost",
            "GIT_COMMITTER_NAME": "shiftlog",
            "GIT_COMMITTER_EMAIL": "shiftlog@localhost",
        }

    async def script(
        self,
        text: str,
        arguments: Sequence[str] = (),
        *,
        stdin: bytes = b"",
        index: str | None = None,
        writes: bool = False,
        limit_s: float = CHECKPOINT_STEP_S,
    ) -> bytes:
        """Run a script in the workspace, if it is open, and return its output; raises `ShadowBroken`.

        A script that `writes` objects sees only the shadow repository's own. A missing workspace is `WorkspaceGone`.
        """
        enter = _ENTER if self.tree is not None and self.tree.directory is None else ""
        lines = f"{enter}{'' if writes else READ}{text}"
        argv = ["sh", "-c", lines, "sh", *arguments]
        ran = await self.run(argv, stdin=stdin, env=self.environment(index), limit_s=limit_s)
        if ran.exit_code in _WHY:
            raise WorkspaceGone(self.location.path, _WHY[ran.exit_code])
        if ran.exit_code != 0:
            steps = [line.strip() for line in text.splitlines() if line.strip().endswith(f"exit {ran.exit_code}")]
            raise ShadowBroken((steps or text.strip().splitlines())[0], ran)
        return ran.stdout

    async def git(self, *arguments: str, stdin: bytes = b"", files: Sequence[int] = ()) -> bytes:
        """Run git on the shadow repository alone, with descriptors of its own; raises `ShadowBroken`."""
        ran = await self.run(["git", *arguments], stdin=stdin, env=self.environment(), files=files)
        if ran.exit_code != 0:
            raise ShadowBroken(f"git {arguments[0]}", ran)
        return ran.stdout

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes,
        env: Mapping[str, str] | None = None,
        files: Sequence[int] = (),
        limit_s: float = CHECKPOINT_STEP_S,
    ) -> Ran:
        """Run a program in the workspace, if it is open; one that takes too long is ended."""
        try:
            async with asyncio.timeout(limit_s):
                return await (self.tree or self.runner).run(argv, stdin=stdin, env=env, files=files)
        except TimeoutError:
            raise StepTimeout(limit_s) from None

    @asynccontextmanager
    async def entered(self, *, create: bool = False) -> AsyncGenerator["Shadow"]:
        """Open the workspace; raise `WorkspaceGone` if its path names no directory any more."""
        async with AsyncExitStack() as held:
            try:
                tree = await held.enter_async_context(self.runner.enter(self.location.path, create=create))
            except OSError as error:
                missing = error.errno == errno.ENOENT
                raise WorkspaceGone(self.location.path, _WHY[4 if missing else 5]) from None
            yield replace(self, tree=tree)


async def find_shadow(runner: Runner, path: str, scope: Scope, data: str | None) -> Shadow:
    """Check a workspace and prepare its shadow repository; without `data` it lies below the target's home."""
    if not path.startswith("/") or "\0" in path:
        raise invalid(path, "not an absolute path")
    ran = await runner.run(["sh", "-c", _FIND, "sh", path, data or ""])
    if ran.exit_code != 0:
        raise invalid(path, _WHY.get(ran.exit_code, "its shadow repository cannot be made"))
    root, missing, data_root, version = (part.decode("utf-8", "surrogateescape") for part in ran.stdout.split(b"\0"))
    if root in ("", "/"):
        raise invalid(path, "it is the root directory")
    if root == data_root or root.startswith(data_root + "/"):
        raise invalid(path, "it lies inside Shiftlog's own data")
    if "\n" in root:
        raise invalid(path, "its name has a line break")
    match = re.match(r"git version (\d+)\.(\d+)", version)
    if match is None or (int(match[1]), int(match[2])) < OLDEST_GIT:
        raise GitMissing("checkpoints need git on the target", details={"found": version.strip() or None})
    location = Location(target=runner.target, path=root)
    named = hashlib.sha256(f"{runner.target or 'local'}\0{root}".encode("utf-8", "surrogateescape")).hexdigest()
    shadow = Shadow(
        runner=runner, location=location, data=data_root, git_dir=f"{data_root}/checkpoints/{named[:32]}", scope=scope
    )
    if not await _is_ready(shadow):
        if missing:
            raise invalid(path, _WHY[4])
        await prepare(shadow)
    else:
        await write_excludes(shadow)
    return shadow


async def prepare(shadow: Shadow) -> None:
    """Create the shadow repository."""
    await shadow.script('umask 077; mkdir -p "$GIT_DIR" || exit 6')
    async with shadow.runner.lock(shadow.lock_path):
        await shadow.script(_INIT, [_ATTRIBUTES], stdin=_CONFIG)
    await write_excludes(shadow)


async def _is_ready(shadow: Shadow) -> bool:
    return bool(await shadow.script('[ ! -f "$GIT_DIR/ready-2" ] || echo yes'))


async def write_excludes(shadow: Shadow) -> None:
    """Write the negatable patterns of a scope for git; a reader sees the old file or the new one.

    An unchanged file is not written again, so that scanning needs no disk space.
    """
    await shadow.script(_EXCLUDE, [shadow.exclude_path], stdin=exclude_file(shadow.scope))


def invalid(path: str, why: str) -> WorkspaceInvalid:
    """Return the error for a directory that cannot be a workspace."""
    return WorkspaceInvalid(_cannot(path, why), details={"why": why})


def _cannot(path: str, why: str) -> str:
    return f"workspace {path} cannot be used: {why}"


_WHY = {4: "it does not exist", 5: "it is not a directory"}
