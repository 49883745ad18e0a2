"""The worktrees of a git repository, read from its own files; git is not run."""

from pathlib import Path

MOST = 100
_POINTER = "gitdir: "


def worktrees(workspace: str) -> list[str]:
    """Return the folders of all worktrees of the repository that a folder is the top of; none for another folder."""
    try:
        common = _common_folder(Path(workspace, ".git"))
        if common is None:
            return []
        pointers = sorted(common.glob("worktrees/*/gitdir"))[:MOST]
        linked = [str(Path(pointer.read_text(encoding="utf-8").strip()).parent) for pointer in pointers]
    except (OSError, ValueError):
        return []
    return [str(common.parent), *linked] if common.name == ".git" else linked


def _common_folder(git: Path) -> Path | None:
    """Return the repository's folder that all its worktrees share."""
    if git.is_dir():
        return git
    text = git.read_text(encoding="utf-8") if git.is_file() else ""
    if not text.startswith(_POINTER):
        return None
    own = (git.parent / text.removeprefix(_POINTER).strip()).resolve()
    shared = own / "commondir"
    return (own / shared.read_text(encoding="utf-8").strip()).resolve() if shared.is_file() else None
