"""What a checkpoint holds and what it leaves out: odd names, links, modes, nested repositories, rules, limits."""

# ruff: noqa: PTH108, PTH118
# File names here are bytes, which pathlib does not take.

import os
import shutil
from pathlib import Path

import pytest

from shiftlog.model.errors import InvalidParameter
from shiftlog.model.shell_errors import CheckpointTooLarge, WorkspaceInvalid
from shiftlog.workspace.ports import CheckpointLimits
from shiftlog.workspace.rules import read_scope
from tests.workspace.yard import Yard, tree_of

ODD_NAMES = [
    b"line\nbreak",
    b"-rf",
    b"caf\xe9",
    b"tab\there",
    b" lead and trail ",
    b"quote\"'`$x",
    b"back\\slash",
    b"back\\x41slash",
    b"dir\n/-x/\xff\xfe",
    b":(top)star*",
    b"a\\",
    b"git~1",
    b"CON",
    "müsli ☃".encode(),
]


async def test_any_file_name_is_saved_and_restored(yard: Yard) -> None:
    for name in ODD_NAMES:
        yard.write(name, b"1 " + name)
    await yard.open()
    saved = await yard.save()
    before = tree_of(yard.path)
    assert saved.files == len(ODD_NAMES)
    for name in ODD_NAMES:
        os.unlink(os.path.join(os.fsencode(yard.path), name))
    yard.write(b"new\nname", "2")

    result = await yard.restore(saved.checkpoint_id, clean=True)

    assert tree_of(yard.path) == before
    assert "new\\x0aname" in [change.path for change in result.changes]
    assert "caf\\xe9" in [change.path for change in result.changes]


async def test_a_shown_name_limits_a_restore_to_that_file(yard: Yard) -> None:
    yard.write(b"caf\xe9", "1")
    yard.write("other", "1")
    await yard.open()
    saved = await yard.save()
    yard.write(b"caf\xe9", "2")
    yard.write("other", "2")

    result = await yard.restore(saved.checkpoint_id, paths=["caf\\xe9"])

    assert [change.path for change in result.changes] == ["caf\\xe9"]
    assert yard.read("other") == "2"


async def test_a_link_to_itself_takes_the_place_of_a_directory(yard: Yard) -> None:
    yard.write("a/b/c", "1\n")
    yard.write("a/d", "2\n")
    await yard.open()
    saved = await yard.save()
    before = tree_of(yard.path)
    shutil.rmtree(yard.path / "a")
    (yard.path / "a").symlink_to("a")
    looped = await yard.save()
    assert looped.files == 1
    await yard.restore(saved.checkpoint_id)
    assert tree_of(yard.path) == before
    await yard.restore(looped.checkpoint_id, clean=True)
    assert tree_of(yard.path) == {b"a": ("link", 0, b"a")}
    assert (await yard.save()).files == 1


async def test_links_modes_and_bytes_come_back_exactly(yard: Yard) -> None:
    yard.write("run.sh", "#!/bin/sh\n", 0o755)
    yard.write("private", "x", 0o600)
    yard.write("shared", "x", 0o664)
    yard.write("group-run", "x", 0o750)
    yard.write("crlf.txt", "one\r\ntwo\n\r\n")
    yard.write("binary", bytes(range(256)))
    (yard.path / "dangling").symlink_to("nowhere")
    (yard.path / "to-dir").symlink_to("/etc")
    await yard.open()
    saved = await yard.save()
    before = tree_of(yard.path)

    (yard.path / "run.sh").chmod(0o644)
    (yard.path / "private").chmod(0o644)
    (yard.path / "shared").unlink()
    yard.write("group-run", "y", 0o755)
    yard.write("crlf.txt", "one\ntwo\n\n")
    (yard.path / "dangling").unlink()
    yard.write("dangling", "now a file")
    (yard.path / "to-dir").unlink()
    (yard.path / "to-dir").symlink_to("/usr")

    result = await yard.restore(saved.checkpoint_id)

    assert tree_of(yard.path) == before
    assert {change.path: change.action for change in result.changes} == {
        "run.sh": "mode",
        "private": "mode",
        "shared": "created",
        "group-run": "written",
        "crlf.txt": "written",
        "dangling": "written",
        "to-dir": "written",
    }


async def test_a_change_of_mode_alone_is_a_change(yard: Yard) -> None:
    yard.write("a", "x", 0o644)
    await yard.open()
    first = await yard.save(kind="open")
    (yard.path / "a").chmod(0o640)
    second = await yard.before_command()
    assert second.checkpoint_id != first.checkpoint_id
    diff = await yard.service.diff(yard.workspace)
    assert [(file.path, file.status) for file in diff.files] == [("a", "mode_changed")]
    listing = await yard.service.list(yard.workspace)
    assert [line.saved.files_changed for line in listing.checkpoints] == [1, 0]


async def test_attributes_and_filters_of_the_project_change_no_byte(yard: Yard) -> None:
    yard.write(
        ".gitattributes", "* text=auto eol=crlf ident\n*.up filter=up\n*.u16 working-tree-encoding=UTF-16\n*.b -diff\n"
    )
    yard.write("a.txt", "$Id$\none\r\ntwo\n")
    yard.write("b.up", "lower\r\n")
    yard.write("c.u16", "plain\n")
    yard.write("d.b", "text\n")
    await yard.open()
    saved = await yard.save()
    before = tree_of(yard.path)
    for name in ("a.txt", "b.up", "c.u16", "d.b"):
        yard.write(name, "changed\n")

    diff = await yard.service.diff(yard.workspace, as_patch=True)
    await yard.restore(saved.checkpoint_id)

    assert tree_of(yard.path) == before
    assert not any(file.binary for file in diff.files)


@pytest.mark.parametrize("commits", [False, True])
async def test_files_of_nested_repositories_are_captured_as_files(yard: Yard, commits: bool) -> None:
    yard.write("top", "1")
    for folder in ("vendor/lib", "vendor/lib/deep/inner", "empty"):
        (yard.path / folder).mkdir(parents=True)
        yard.git("init", "-q", at=yard.path / folder)
    yard.write("vendor/lib/x.c", "1")
    yard.write("vendor/lib/deep/inner/y.c", "1")
    if commits:
        for folder in ("vendor/lib/deep/inner", "vendor/lib"):
            yard.git("add", "-A", at=yard.path / folder)
            yard.git("commit", "-qm", "x", at=yard.path / folder)
    await yard.open()
    saved = await yard.save()
    assert saved.files == 3
    assert (await yard.save(kind="auto")).checkpoint_id == saved.checkpoint_id
    yard.write("vendor/lib/x.c", "2")
    yard.write("vendor/lib/deep/inner/y.c", "2")

    await yard.restore(saved.checkpoint_id)

    assert (yard.read("vendor/lib/x.c"), yard.read("vendor/lib/deep/inner/y.c")) == ("1", "1")


async def test_what_rules_leave_out_is_counted_and_a_named_directory_once(yard: Yard) -> None:
    for name in (
        ".env",
        ".env.local",
        "certs/a.pem",
        "certs/b.pem",
        ".ssh/known_hosts",
        ".ssh/config",
        "src/id_rsa.pub",
    ):
        yard.write(name, "s")
    yard.write(".gitignore", "*.log\nout/\n!.env\n!.ssh\n")
    for name in (
        "1.log",
        "logs/2.log",
        "logs/3.log",
        "out/x",
        "out/y",
        "node_modules/p/x",
        "node_modules/p/.env",
        "src/dist/z",
    ):
        yard.write(name, "i")
    yard.write("src/main.py", "m")
    (yard.path / "void/inner").mkdir(parents=True)
    (yard.path / "build").mkdir()
    await yard.open()

    saved = await yard.save()

    assert saved.files == 2
    assert saved.not_covered is not None
    # out, node_modules, src/dist and three logs; .env, .env.local, two .pem, .ssh, id_rsa.pub
    assert saved.not_covered.as_dict() == {"ignored": 6, "secret": 6, "too_large": 0}


async def test_secrets_tracked_by_the_user_are_not_captured_either(local_yard: Yard) -> None:
    yard = local_yard
    yard.write(".env", "KEY=1")
    yard.write("build/tracked", "b")
    yard.write("a", "1")
    yard.git("init", "-q")
    yard.git("add", "-A", "-f")
    yard.git("commit", "-qm", "x")
    await yard.open()
    saved = await yard.save()
    assert saved.files == 1
    assert saved.not_covered is not None
    assert saved.not_covered.as_dict() == {"ignored": 1, "secret": 1, "too_large": 0}


async def test_ignores_are_negatable_secrets_are_not(yard: Yard) -> None:
    for name in ("build/a", "dist/b", "x.sql", "out/c", ".env"):
        yard.write(name, "1")
    yard.write(".gitignore", "out\n")
    await yard.open(ignores=("!build", "*.sql", "!.env"))
    assert (await yard.save()).files == 2  # build/a and .gitignore
    await yard.open(include_ignored=True)
    assert (await yard.save()).files == 3  # out/c, x.sql and .gitignore


async def test_a_file_over_the_limit_is_skipped_counted_and_never_touched(yard: Yard) -> None:
    yard.limits = CheckpointLimits(file_bytes=10)
    yard.service = yard.fresh_service()
    yard.write("small", "1")
    yard.write("grows", "1")
    yard.write("big", "x" * 11)
    await yard.open()
    saved = await yard.save()
    assert saved.files == 2
    assert saved.not_covered is not None
    assert saved.not_covered.too_large == 1
    yard.write("grows", "y" * 11)
    yard.write("big", "z" * 12)

    preview = await yard.restore(saved.checkpoint_id, dry_run=True, clean=True)

    assert [failure.path for failure in preview.failed] == ["grows"]
    assert preview.not_covered.too_large == 2
    assert preview.changes == ()


@pytest.mark.parametrize("limits", [CheckpointLimits(tree_files=3), CheckpointLimits(tree_bytes=30)])
async def test_a_tree_over_the_limit_is_an_error(yard: Yard, limits: CheckpointLimits) -> None:
    yard.limits = limits
    yard.service = yard.fresh_service()
    for number in range(3):
        yard.write(f"f{number}", "x" * 10)
    await yard.open()
    await yard.save()
    for _ in range(3):
        yard.write("f0", "y" * 10)
        await yard.save()
    yard.write("f3", "x" * 10)
    with pytest.raises(CheckpointTooLarge, match="workspace exceeds"):
        await yard.save()
    (yard.path / "f3").unlink()
    await yard.save()


async def test_only_the_paths_of_a_shell_are_captured_and_restored(yard: Yard) -> None:
    yard.write("src/a", "1")
    yard.write("doc/b", "1")
    await yard.open(paths=("src",))
    saved = await yard.save()
    assert saved.files == 1
    yard.write("src/a", "2")
    yard.write("doc/b", "2")
    await yard.open()
    result = await yard.restore(saved.checkpoint_id, clean=True)
    assert [change.path for change in result.changes] == ["src/a"]
    assert yard.read("doc/b") == "2"


async def test_a_write_in_the_same_second_with_the_old_time_is_seen(yard: Yard) -> None:
    yard.write("a", "one")
    os.utime(yard.path / "a", (1000, 1000))
    await yard.open()
    first = await yard.save(kind="open")
    yard.write("a", "two")
    os.utime(yard.path / "a", (1000, 1000))
    second = await yard.save(kind="auto")
    assert second.checkpoint_id != first.checkpoint_id
    await yard.restore(first.checkpoint_id)
    assert yard.read("a") == "one"


async def test_a_directory_that_became_a_link_to_itself_is_seen(yard: Yard) -> None:
    yard.write("d/x", "1")
    await yard.open()
    first = await yard.save(kind="open")
    (yard.path / "d").rename(yard.path / "e")
    (yard.path / "d").symlink_to("e")
    second = await yard.save(kind="auto")
    assert second.checkpoint_id != first.checkpoint_id
    await yard.restore(first.checkpoint_id, clean=True)
    assert tree_of(yard.path) == {b"d/x": ("file", 0o644, b"1")}


async def test_special_files_and_names_that_git_refuses_do_not_stop_a_checkpoint(yard: Yard) -> None:
    yard.write("a", "1")
    yard.write("was-file", "1")
    await yard.open()
    await yard.save()
    os.mkfifo(yard.path / "pipe")
    (yard.path / "was-file").unlink()
    os.mkfifo(yard.path / "was-file")
    yard.write(".GIT/config", "x")
    (yard.path / ".gitmodules").symlink_to("a")
    assert (await yard.save()).files == 1


async def test_a_directory_that_cannot_be_a_workspace_says_why(yard: Yard, tmp_path: Path) -> None:
    yard.write("file", "x")
    inside = yard.data / "checkpoints"
    inside.mkdir(parents=True)
    for path, why in (
        ("/", "root"),
        (str(yard.path / "nothing"), "does not exist"),
        (str(yard.path / "file"), "not a directory"),
        ("relative", "absolute"),
    ):
        with pytest.raises(WorkspaceInvalid, match=why):
            await yard.service.open(yard.runner, path)
    if yard.runner.target is None:
        with pytest.raises(WorkspaceInvalid, match="inside"):
            await yard.service.open(yard.runner, str(inside))


async def test_shiftlogs_own_data_in_the_workspace_is_left_out(local_yard: Yard) -> None:
    yard = local_yard
    yard.data = yard.path / "st*te [x]"
    yard.service = yard.fresh_service()
    yard.write("a", "1")
    yard.write("state [x]/b", "1")
    await yard.open()
    saved = await yard.save()
    assert saved.files == 2
    assert saved.not_covered is not None
    assert saved.not_covered.secret == 1
    assert (await yard.save(kind="auto")).checkpoint_id == saved.checkpoint_id


def test_sub_paths_must_stay_inside() -> None:
    assert read_scope(["./src//lib/", "doc"]).paths == ("src/lib", "doc")
    assert read_scope(["src", "."]).paths == ()
    for bad in ("/etc", "../x", "a/../../b", ""):
        with pytest.raises(InvalidParameter, match=r'argument "paths\[0\]" must be'):
            read_scope([bad])
    with pytest.raises(InvalidParameter, match="checkpoint_ignores"):
        read_scope(None, ["a\nb"])
