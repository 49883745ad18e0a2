"""Starting from the user's own repository: faster, and yet nothing of it changes or shows."""

# ruff: noqa: PTH108, PTH118
# File names here are bytes, which pathlib does not take.

import os
import shutil
from pathlib import Path

import pytest

from shiftlog.workspace import checkpoints
from shiftlog.workspace.checkpoints import Checkpoints
from shiftlog.workspace.files import stats
from tests.programs import only_in
from tests.workspace.yard import Yard, tree_of


def snapshot(path: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(file.relative_to(path)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def committed(yard: Yard, *, packed: bool = False) -> None:
    yard.git("init", "-q")
    yard.git("add", "-A")
    yard.git("commit", "-qm", "x")
    if packed:
        yard.git("repack", "-adq")


async def test_the_users_repository_is_left_exactly_as_it_was(yard: Yard) -> None:
    yard.write("a", "1\n")
    yard.write("d/b", "1\n")
    committed(yard, packed=True)
    yard.write(".git/hooks/post-index-change", "#!/bin/sh\ntouch hook-ran\n", 0o755)
    yard.git("config", "core.fsmonitor", "touch fsmonitor-ran")
    before = snapshot(yard.path / ".git")
    await yard.open()
    saved = await yard.save()
    yard.write("a", "2\n")
    yard.write("n", "2\n")
    await yard.save()
    await yard.restore(saved.checkpoint_id, clean=True)
    await yard.service.copy_borrowed(yard.workspace)
    assert snapshot(yard.path / ".git") == before
    assert set(tree_of(yard.path)) == {b"a", b"d/b"}


async def test_files_that_git_converts_are_kept_byte_for_byte(local_yard: Yard) -> None:
    yard = local_yard
    yard.write(".gitattributes", "*.txt text eol=crlf\n*.id ident\n*.up filter=rot\n")
    yard.write("a.txt", "one\r\ntwo\r\n")
    yard.write("b.id", "$Id$\n")
    yard.write("c.up", "abc\n")
    yard.git("init", "-q")
    yard.git("config", "filter.rot.clean", "tr a-z b-za")
    yard.git("config", "filter.rot.smudge", "tr b-za a-z")
    yard.git("add", "-A")
    yard.git("commit", "-qm", "x")
    for name in ("a.txt", "b.id", "c.up"):
        (yard.path / name).unlink()
    yard.git("checkout", "-q", "--", ".")
    past = 1_000_000_000
    for name in ("a.txt", "b.id", "c.up"):
        os.utime(yard.path / name, (past, past))
    yard.git("update-index", "-q", "--refresh")
    before = tree_of(yard.path)
    assert before[b"b.id"][2] != b"$Id$\n"
    await yard.open()
    saved = await yard.save()
    for name in ("a.txt", "b.id", "c.up"):
        (yard.path / name).unlink()
    await yard.restore(saved.checkpoint_id)
    assert tree_of(yard.path) == before


async def test_closing_the_service_waits_for_copies_in_the_background(local_yard: Yard) -> None:
    yard = local_yard
    yard.write("a", "1\n")
    committed(yard)
    await yard.open()
    await yard.save()
    yard.service.copy_borrowed_soon(yard.workspace)
    await yard.service.aclose()
    assert not await yard.service.copy_borrowed(yard.workspace)


async def test_closing_the_service_ends_a_copy_that_takes_too_long(
    local_yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard = local_yard
    yard.write("a", "1\n")
    committed(yard)
    await yard.open()
    saved = await yard.save()
    monkeypatch.setattr(checkpoints, "CHECKPOINT_CLOSE_S", 0.0)
    yard.service.copy_borrowed_soon(yard.workspace)
    await yard.service.aclose()
    assert await yard.service.copy_borrowed(yard.workspace)
    yard.write("a", "2\n")
    await yard.restore(saved.checkpoint_id)
    assert yard.read("a") == "1\n"


async def test_a_copy_that_fails_in_the_background_is_logged(
    local_yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    yard = local_yard
    yard.write("a", "1\n")
    committed(yard)
    await yard.open()
    await yard.save()
    for folder in Path(yard.workspace.shadow.git_dir, "objects").glob("??"):
        shutil.rmtree(folder)
    yard.service.copy_borrowed_soon(yard.workspace)
    await yard.service.aclose()
    assert "still needs the user's repository" in caplog.text


async def test_checkpoints_outlive_the_users_repository(local_yard: Yard) -> None:
    yard = local_yard
    yard.write("a", "1\n")
    committed(yard)
    await yard.open()
    saved = await yard.save()
    assert await yard.service.copy_borrowed(yard.workspace)
    assert not await yard.service.copy_borrowed(yard.workspace)
    shutil.rmtree(yard.path / ".git")
    (yard.path / "a").unlink()
    await yard.restore(saved.checkpoint_id)
    assert yard.read("a") == "1\n"


async def test_packed_objects_are_kept_even_before_they_are_copied(local_yard: Yard) -> None:
    yard = local_yard
    yard.write("a", "1\n")
    committed(yard, packed=True)
    await yard.open()
    saved = await yard.save()
    shutil.rmtree(yard.path / ".git")
    (yard.path / "a").unlink()
    await yard.restore(saved.checkpoint_id)
    assert yard.read("a") == "1\n"


async def test_losing_borrowed_objects_does_not_stop_new_checkpoints(local_yard: Yard) -> None:
    yard = local_yard
    yard.write("a", "1\n")
    yard.write("d/b", "1\n")
    committed(yard)
    await yard.open()
    await yard.save()
    shutil.rmtree(yard.path / ".git")
    yard.write("d/b", "2\n")
    saved = await yard.save()
    yard.write("a", "2\n")
    await yard.restore(saved.checkpoint_id)
    assert yard.read("a") == "1\n"


async def test_submodules_conflicts_and_hidden_entries_are_read_from_the_disk(local_yard: Yard, tmp_path: Path) -> None:
    yard = local_yard
    library = tmp_path / "library"
    library.mkdir()
    (library / "l.c").write_text("1\n")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
        yard.git(*command, at=library)
    for name in ("a", "hidden", "assumed", "both"):
        yard.write(name, "1\n")
    committed(yard)
    yard.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "sub")
    yard.git("commit", "-qm", "sub")
    yard.git("checkout", "-q", "-b", "side")
    yard.write("both", "side\n")
    yard.git("commit", "-qam", "side")
    yard.git("checkout", "-q", "main")
    yard.write("both", "main\n")
    yard.git("commit", "-qam", "main")
    assert not yard.run("git", "-c", "user.name=a", "-c", "user.email=a@b", "merge", "-q", "side")
    yard.git("update-index", "--skip-worktree", "hidden")
    yard.git("update-index", "--assume-unchanged", "assumed")
    yard.write("hidden", "2\n")
    yard.write("assumed", "2\n")
    yard.write("intent", "")
    yard.git("add", "-N", "intent")
    yard.write("intent", "2\n")
    before = tree_of(yard.path)
    await yard.open()
    saved = await yard.save()
    assert saved.files == len(before)
    for name in before:
        os.unlink(os.path.join(os.fsencode(yard.path), name))
    await yard.restore(saved.checkpoint_id)
    assert tree_of(yard.path) == before


@pytest.mark.parametrize("kind", ["worktree", "sha256", "split-index"])
async def test_other_kinds_of_repositories_work_too(local_yard: Yard, kind: str) -> None:
    yard = local_yard
    if kind == "worktree":
        main = yard.path.parent / "main"
        main.mkdir()
        (main / "a").write_text("1\n")
        for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
            yard.git(*command, at=main)
        yard.git("worktree", "add", "-q", str(yard.path / "tree"), at=main)
        yard.path = yard.path / "tree"
    else:
        yard.write("a", "1\n")
        yard.git("init", "-q", *(["--object-format=sha256"] if kind == "sha256" else []))
        yard.git("add", "-A")
        yard.git("commit", "-qm", "x")
        if kind == "split-index":
            yard.git("update-index", "--split-index")
    await yard.open()
    saved = await yard.save()
    assert saved.files == 1
    yard.write("a", "2\n")
    await yard.restore(saved.checkpoint_id)
    assert yard.read("a") == "1\n"


async def test_tracked_files_that_a_rule_excludes_are_left_out_of_the_first_checkpoint(local_yard: Yard) -> None:
    yard = local_yard
    for name in ("a", "b.log", "out/c", "sub/.env", "sub/kept"):
        yard.write(name, "1\n")
    committed(yard)
    yard.write(".gitignore", "*.log\n/out/\n")
    yard.write("b.log", "2\n")
    await yard.open()
    saved = await yard.save()
    assert saved.files == 3
    for name in ("a", "b.log", "out/c", "sub/.env", "sub/kept", ".gitignore"):
        yard.write(name, "3\n")
    await yard.restore(saved.checkpoint_id)
    assert [yard.read(name) for name in ("a", "b.log", "out/c", "sub/.env", "sub/kept")] == [
        "1\n",
        "3\n",
        "3\n",
        "3\n",
        "1\n",
    ]


async def test_a_repository_made_in_a_tracked_directory_hides_none_of_its_files(local_yard: Yard) -> None:
    yard = local_yard
    for name in ("a", "lib/b", "lib/c"):
        yard.write(name, "1\n")
    committed(yard)
    yard.git("init", "-q", at=yard.path / "lib")
    yard.write("lib/new", "1\n")
    await yard.open()
    saved = await yard.save()
    assert saved.files == 4
    shutil.rmtree(yard.path / "lib")
    await yard.restore(saved.checkpoint_id)
    assert set(tree_of(yard.path)) == {b"a", b"lib/b", b"lib/c", b"lib/new"}


async def test_deleted_retyped_and_new_files_of_a_dirty_repository_are_seen_at_first_sight(local_yard: Yard) -> None:
    yard = local_yard
    for name in ("a", "b", "c", "d/e", "f/g"):
        yard.write(name, "1\n")
    committed(yard, packed=True)
    (yard.path / "a").unlink()
    (yard.path / "b").unlink()
    yard.write("b/now-a-directory", "2\n")
    (yard.path / "c").unlink()
    (yard.path / "c").symlink_to("d/e")
    yard.write("d/e", "2\n", 0o640)
    (yard.path / "f").rename(yard.path / "moved")
    (yard.path / "f").symlink_to("moved")
    before = tree_of(yard.path)
    await yard.open()
    saved = await yard.save()
    assert saved.files == len(before)
    for name in ("b", "d", "moved"):
        shutil.rmtree(yard.path / name)
    (yard.path / "c").unlink()
    (yard.path / "f").unlink()
    await yard.restore(saved.checkpoint_id)
    assert tree_of(yard.path) == before


async def test_permissions_of_a_clean_repository_are_kept_from_the_first_checkpoint_on(local_yard: Yard) -> None:
    yard = local_yard
    modes = {"plain": 0o644, "group": 0o664, "private": 0o600, "run": 0o755, "odd": 0o2750}
    for name, mode in modes.items():
        yard.write(name, "1\n", mode)
    committed(yard, packed=True)
    yard.write("plain", "1\n", 0o644)
    before = tree_of(yard.path)
    await yard.open()
    saved = await yard.save()
    for name in modes:
        (yard.path / name).chmod(0o666)
    await yard.restore(saved.checkpoint_id)
    assert tree_of(yard.path) == before


@pytest.mark.parametrize("mode", [0o644, 0o664])
async def test_a_clean_repository_is_saved_as_its_last_commit(
    local_yard: Yard, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    yard = local_yard
    monkeypatch.setattr(stats, "FRESH_S", -1)  # files count as old at once
    yard.write("a", "1\n", mode)
    yard.write("d/b", "1\n", 0o755)
    committed(yard, packed=True)
    before = tree_of(yard.path)
    await yard.open()
    saved = await yard.save(kind="open")
    assert saved.files == 2
    shadow = yard.workspace.shadow
    files = await shadow.script('git rev-parse "$1:files"', [saved.checkpoint_id])
    assert files.decode() == yard.git("rev-parse", "HEAD^{tree}")
    assert (await yard.save(kind="auto")).checkpoint_id == saved.checkpoint_id
    yard.write("a", "2\n", 0o600)
    (yard.path / "d/b").unlink()
    await yard.restore(saved.checkpoint_id)
    assert tree_of(yard.path) == before


async def test_a_write_after_the_users_own_add_in_the_same_second_is_seen(local_yard: Yard) -> None:
    yard = local_yard
    yard.write("a", "one")
    os.utime(yard.path / "a", (1000, 1000))
    committed(yard)
    yard.write("a", "two")
    os.utime(yard.path / "a", (1000, 1000))
    await yard.open()
    saved = await yard.save()
    (yard.path / "a").unlink()
    await yard.restore(saved.checkpoint_id)
    assert yard.read("a") == "two"


async def test_an_old_git_is_named(local_yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shiftlog.model.shell_errors import GitMissing

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text("#!/bin/sh\necho git version 2.17.1\n")
    (tmp_path / "bin/git").chmod(0o755)
    monkeypatch.setenv("PATH", only_in(tmp_path / "bin"))
    service: Checkpoints = local_yard.service
    with pytest.raises(GitMissing, match="checkpoints need git on the target") as missing:
        await service.open(local_yard.runner, str(local_yard.path))
    assert missing.value.details == {"found": "git version 2.17.1"}
