"""The paths that a checkpoint never holds, those that it excludes by default, and the git arguments for both.

git itself matches names; the precedence of its exclude sources makes the secret patterns final.
"""

import hashlib
from fnmatch import fnmatchcase

from shiftlog.model.errors import InvalidParameter
from shiftlog.workspace import names
from shiftlog.workspace.ports import Scope

# Given with -x, git's first source: no .gitignore and no caller's pattern can include these again.
SECRET = ".ssh .gnupg .aws .netrc .env .env.* *.pem *.key id_rsa* id_ed25519* .cache".split()

# Given with --exclude-from, git's last source: a later `!pattern` includes them again.
BUILT_IN = "node_modules target .venv __pycache__ .mypy_cache dist build".split()

MAX_PATHS = 64
MAX_IGNORES = 256
MAX_ENTRY = 255


def exclude_arguments(scope: Scope, data_pattern: str | None) -> list[str]:
    """Return the `git ls-files` arguments that exclude what the scope does not capture."""
    final = [*SECRET, *([data_pattern] if data_pattern else [])]
    arguments = [argument for pattern in final for argument in ("-x", pattern)]
    if not scope.include_ignored:
        arguments.append("--exclude-per-directory=.gitignore")
    return arguments


def exclude_file(scope: Scope) -> bytes:
    """Return the negatable patterns, one per line."""
    return "".join(f"{pattern}\n" for pattern in (*BUILT_IN, *scope.ignores)).encode("utf-8", "surrogateescape")


def data_pattern(root: str, data: str) -> str | None:
    """Return the pattern that excludes Shiftlog's own data from a workspace that contains it."""
    prefix = root.rstrip("/") + "/"
    if not data.startswith(prefix):
        return None
    inside = data[len(prefix) - 1 :]
    return "".join(f"\\{char}" if char in "\\*?[" else char for char in inside)


def is_secret(name: bytes, pattern: str | None) -> bool:
    """Return True if a final pattern excluded this name."""
    text = name.rstrip(b"/").decode("utf-8", "surrogateescape")
    if pattern is not None and "/" + text == pattern.replace("\\", ""):
        return True
    last = text.rsplit("/", 1)[-1]
    return any(fnmatchcase(last, secret) for secret in SECRET)


def is_capturable(name: bytes, *, link: bool) -> bool:
    """Return True if git can hold a name: no part of it is .git, in any case, and no link is called .gitmodules."""
    parts = name.lower().split(b"/")
    return b".git" not in parts and not (link and parts[-1] == b".gitmodules")


def scope_key(scope: Scope) -> str:
    """Return the name of a scope's index; shells that capture the same files share one."""
    if scope == Scope():
        return "all"
    text = repr((sorted(scope.paths), scope.ignores, scope.include_ignored))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def read_scope(
    paths: list[str] | None = None, ignores: list[str] | None = None, *, include_ignored: bool = False
) -> Scope:
    """Check the arguments of `open_shell` that define the scope."""
    patterns = ignores or []
    if len(patterns) > MAX_IGNORES:
        raise wrong("checkpoint_ignores", f"at most {MAX_IGNORES} patterns", "range")
    for number, pattern in enumerate(patterns):
        if not 1 <= len(pattern) <= MAX_ENTRY or "\n" in pattern or "\0" in pattern:
            raise wrong(f"checkpoint_ignores[{number}]", f"one line of 1 to {MAX_ENTRY} characters", "format")
    return Scope(paths=read_paths(paths), ignores=tuple(patterns), include_ignored=include_ignored)


def read_paths(paths: list[str] | None) -> tuple[str, ...]:
    """Check relative sub-paths and normalize them; the root itself is no limit."""
    given = paths or []
    if len(given) > MAX_PATHS:
        raise wrong("paths", f"at most {MAX_PATHS} paths", "range")
    found: list[str] = []
    for number, path in enumerate(given):
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if not 1 <= len(path) <= MAX_ENTRY or path.startswith("/") or ".." in parts or "\0" in path:
            raise wrong(f"paths[{number}]", "a relative path inside the workspace", "format")
        if not parts:
            return ()
        found.append("/".join(parts))
    return tuple(dict.fromkeys(found))


def roots(paths: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return sub-paths as file names."""
    return tuple(names.read(path) for path in paths)


def wrong(path: str, expected: str, problem: str) -> InvalidParameter:
    """Return the error for an argument that breaks a rule."""
    return InvalidParameter(
        f'argument "{path}" must be {expected}',
        details={"parameter": path, "problem": problem, "expected": expected},
    )
