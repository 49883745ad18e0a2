"""Nothing that a repository in the workspace configures is run by git of checkpoints."""

from pathlib import Path

from tests.workspace.yard import Yard


def _trap(yard: Yard, ran: Path) -> Path:
    """Write a program that leaves a trace when it is run."""
    trap = yard.path.parent / "trap"
    trap.write_text(f'#!/bin/sh\necho "$0 $*" >>{ran}\nexit 1\n')
    trap.chmod(0o755)
    return trap


def _set_traps(yard: Yard, trap: Path, at: Path) -> None:
    for key in ("core.fsmonitor", "gpg.program", "diff.external", "filter.trap.clean", "filter.trap.process"):
        yard.git("config", key, str(trap), at=at)
    yard.git("config", "core.hooksPath", str(trap.parent), at=at)


async def _use_everything(yard: Yard) -> None:
    await yard.open()
    saved = await yard.save()
    yard.write("kept", "changed\n")
    yard.write("sub/inner", "changed\n")
    await yard.before_command()
    await yard.restore(saved.checkpoint_id)
    assert (yard.read("kept"), yard.read("sub/inner")) == ("kept\n", "inner\n")


async def test_the_programs_of_a_submodule_are_not_run(yard: Yard, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    trap, sub = _trap(yard, ran), yard.path / "sub"
    yard.write("kept", "kept\n")
    yard.write("sub/inner", "inner\n")
    for place, named in ((sub, "inner"), (yard.path, "kept")):
        yard.git("init", "-q", at=place)
        yard.git("add", named, at=place)
        yard.git("commit", "-qm", "first", at=place)
    yard.git("-c", "advice.addEmbeddedRepo=false", "add", "sub")
    yard.git("commit", "-qm", "second")
    for place in (sub, yard.path):
        _set_traps(yard, trap, place)
    yard.run("git", "status")
    assert ran.read_text(), "the traps work"
    ran.unlink()
    await _use_everything(yard)
    assert not ran.exists(), ran.read_text()


async def test_missing_objects_are_not_fetched_by_programs_of_the_workspace(yard: Yard, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    trap = _trap(yard, ran)
    yard.write("kept", "kept\n")
    yard.write("sub/inner", "inner\n")
    yard.git("init", "-q")
    yard.git("add", "-A")
    yard.git("commit", "-qm", "first")
    tree = yard.git("rev-parse", "HEAD^{tree}").strip()
    (yard.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    settings = {"url": str(tmp_path), "promisor": "true", "uploadpack": str(trap)}
    for name, value in settings.items():
        yard.git("config", f"remote.origin.{name}", value)
    yard.git("config", "core.repositoryFormatVersion", "1")
    yard.git("config", "extensions.partialClone", "origin")
    yard.run("git", "ls-tree", "HEAD")
    assert ran.read_text(), "the trap works"
    ran.unlink()
    await _use_everything(yard)
    assert not ran.exists(), ran.read_text()
