"""Files that a command runs as code, over ssh: read and judged first; what stays open may be refused."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftlog.model.shell_errors import ApprovalRequired, PolicyDenied, PolicyUndecidable
from tests.shell.remote.ssh.places import settings_for, where
from tests.shell.remote.ssh.server import SshServer
from tests.shell.rig import ShellRig, shell_rig

SHELL = "echo before\nls /\n"
CODE = "import subprocess\nsubprocess.run(['ls', '/'])\n"
# The files of a command in two steps, and the command that runs them; each starts the denied `ls`.
TWO_STEPS: dict[str, tuple[dict[str, str], str]] = {
    "bash s.sh": ({"s.sh": SHELL}, "bash s.sh"),
    "sh with options": ({"s.sh": SHELL}, "sh -eu s.sh a b"),
    "dot": ({"s.sh": SHELL}, ". ./s.sh"),
    "source": ({"s.sh": SHELL}, "source s.sh"),
    "stdin": ({"s.sh": SHELL}, "bash < s.sh"),
    "by path": ({"s.sh": "#!/bin/bash\n" + SHELL}, "./s.sh"),
    "no first line": ({"s.sh": SHELL}, "./s.sh"),
    "env first line": ({"s.sh": "#!/usr/bin/env bash\n" + SHELL}, "$PWD/s.sh || ./s.sh"),
    "wrapped": ({"s.sh": SHELL}, "nice -n 5 timeout 9 bash s.sh"),
    "find": ({"s.sh": SHELL}, r"find . -name x -exec sh s.sh \;"),
    "xargs": ({"s.sh": SHELL}, "echo a | xargs bash s.sh"),
    "in a directory": ({"sub/s.sh": SHELL}, "cd sub && bash s.sh"),
    "nested": ({"a.sh": "bash b.sh\n", "b.sh": "bash c.sh\n", "c.sh": SHELL}, "bash a.sh"),
    "variable": ({"s.sh": "x=ls\n$x /\n"}, "bash s.sh"),
    "python": ({"x.py": CODE}, "python3 x.py"),
    "python options": ({"x.py": CODE}, "python3 -u -B x.py arg"),
    "python module": ({"x.py": CODE}, "python3 -m x"),
    "python by path": ({"x.py": "#!/usr/bin/env python3\n" + CODE}, "./x.py"),
    "python option with a value": ({"x.py": CODE}, "python3 -W ignore -X dev x.py"),
    "python directory": ({"p/__main__.py": CODE}, "python3 p"),
    "python package": ({"p/__init__.py": CODE, "p/__main__.py": ""}, "python3 -m p"),
    "node option with code": ({"x.js": "require('child_process').execSync('ls')\n"}, "node -r ./x y.js"),
    "perl option with a value": ({"x.pl": 'system("ls");\n'}, "perl -I lib x.pl"),
    "python stdin": ({"x.py": CODE}, "python3 < x.py"),
    "python test": ({"x.py": CODE}, "pytest -q x.py"),
    "php": ({"x.php": "<?php system('ls');\n"}, "php x.php"),
    "lua": ({"x.lua": 'os.execute("ls")\n'}, "lua x.lua"),
    "tcl": ({"x.tcl": "exec ls\n"}, "tclsh x.tcl"),
    "sed": ({"x.sed": "1e ls /\n"}, "echo | sed -f x.sed"),
    "sed letters": ({"x.sed": "1e ls\n"}, "echo | sed -nf x.sed"),
    "sed long option": ({"x.sed": "1e ls\n"}, "echo | sed --file=x.sed"),
    "awk include": ({"x.awk": 'BEGIN { system("ls") }\n'}, "gawk -i ./x.awk 1"),
    "awk letters": ({"x.awk": 'BEGIN { system("ls") }\n'}, "awk -vx=1 -fx.awk"),
    "named by a quoted variable": ({"s.sh": SHELL}, 'S=./s.sh; sh "$S" && echo done'),
    "pushd": ({"sub/s.sh": SHELL}, "pushd sub; bash s.sh"),
    "npm directory": ({"sub/package.json": '{"scripts": {"test": "ls /"}}'}, "npm --prefix sub run test"),
    "git hook elsewhere": ({"sub/.git/hooks/pre-commit": "#!/bin/sh\nls /\n"}, "git -C sub commit -m x"),
    "at": ({"s.sh": SHELL}, "at -f s.sh now"),
    "another shell": ({"s.sh": SHELL}, "busybox sh s.sh"),
    "git hooks elsewhere": ({"h/pre-commit": SHELL}, "git -c core.hooksPath=h commit -m x"),
    "perl": ({"x.pl": 'system("ls");\n'}, "perl x.pl"),
    "ruby": ({"x.rb": "puts `ls /`\n"}, "ruby x.rb"),
    "node": ({"x.js": "require('child_process').execSync('ls')\n"}, "node x.js"),
    "awk": ({"x.awk": 'BEGIN { system("ls") }\n'}, "awk -f x.awk"),
    "make": ({"Makefile": "all:\n\tls /\n"}, "make"),
    "make goal": ({"Makefile": "a: b\n\ttrue\nb:\n\tls /\n"}, "make a"),
    "make file": ({"other.mk": "all:\n\t@ls /\n"}, "make -f other.mk all"),
    "make directory": ({"sub/Makefile": "all:\n\tls /\n"}, "make -C sub"),
    "make variable": ({"Makefile": "RUN = ls\nall:\n\t$(RUN) /\n"}, "make"),
    "npm": ({"package.json": '{"scripts": {"test": "ls /"}}'}, "npm run test"),
    "npm before": ({"package.json": '{"scripts": {"pretest": "ls /", "test": "true"}}'}, "npm test"),
    "git hook": ({".git/hooks/pre-commit": "#!/bin/sh\nls /\n"}, "git commit -m x"),
}
INNOCENT: dict[str, tuple[dict[str, str], str]] = {
    "script": ({"s.sh": "set -e\necho ok # ls\n"}, "bash s.sh"),
    "open script": ({"s.sh": '"$PYTHON" -V || echo "$1"\n'}, "bash s.sh"),
    "another goal": ({"Makefile": "all:\n\ttrue\ndeploy:\n\tls /\n"}, "make all"),
    "another npm script": ({"package.json": '{"scripts": {"test": "true", "list": "ls"}}'}, "npm test"),
    "python": ({"x.py": "import subprocess\n# like ls\nfalls = 'toolset'\nsubprocess.run(['true'])\n"}, "python3 x.py"),
    "data": ({"notes.txt": "run `ls` with subprocess\n"}, "sed -n 1p notes.txt"),
    "no file": ({}, "pytest"),
    "missing": ({}, "bash missing.sh"),
    "inline": ({}, "python3 -c 'print(1)' ls.txt"),
}
LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
UNJUDGED = (
    "python3 x.py",
    "make",
    "bash open.sh",
    "bash missing.sh",
    "./b",
    "python3 -c 'print(1)'",
    """awk 'BEGIN{c="l" "s"; system(c)}'""",
    """awk 'BEGIN{c="l" "s"; print | c}'""",
    """awk 'BEGIN{c="l" "s"; c | getline x}'""",
    """awk 'BEGIN{f="sys" "tem"; @f("l" "s")}'""",
    "perl -e 'exec(join q(), qw(l s))'",
    """sqlite3 x '.shell l"s"'""",
    """sqlite3 x <<< '.shell l"s"'""",
    "psql -c 'select 1'",
    "echo a | xargs awk -f x.awk",
    'awk "$PROGRAM"',
    "cargo test",
    'vim -es -c \'exe "!l" . "s"\'',
    r"find . -name s.sh -exec bash {} \;",
    'for f in *.sh; do bash "$f"; done',
    '. "$1"',
    "PATH=$PWD:$PATH b",
    'export PATH="$PWD:$PATH"; b',
    '"$HOME/b"',
    "foreman start",
    "bash inline.sh",
    "bash filter.sh",
    "bash other.sh s.sh",
    "bash path.sh",
    "bash build.sh",
    "git x",
    "git -c include.path=$PWD/c status",
    "GIT_CONFIG_GLOBAL=c git status",
    "HOME=$PWD bash -lc :",
    "LD_PRELOAD=$PWD/l.so wc s.sh",
    "PYTHONPATH=. pydoc3 x",
    "echo '[core]' > .git/config",
    "cp c ~/.bashrc",
    "cp x.py ~/bin/tool; tool",
    "gcc -Bb/ -c x.c",
    "uv run x.py",
    "ssh localhost sh s.sh",
    "tmux send-keys 'python3 x.py' Enter",
    "crontab c",
    "ansible localhost -m shell -a x",
)
# Shell scripts in which no program is open, but one of them runs code that no text decides.
OPEN_SCRIPTS = {
    "inline.sh": "python3 -c 'print(1)'\n",
    "filter.sh": """awk 'BEGIN{c="l" "s"; system(c)}'\n""",
    "other.sh": 'bash "$1"\n',
    "path.sh": "PATH=$PWD:$PATH\nb\n",
    "build.sh": "cargo test\n",
}


def _write(place: Path, files: dict[str, str]) -> None:
    shutil.rmtree(place)
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    place.mkdir(exist_ok=True)


@pytest.fixture
async def rig(tmp_path: Path, server: SshServer) -> AsyncIterator[ShellRig]:
    place = tmp_path / "place"
    place.mkdir()
    settings = settings_for(server)
    async with shell_rig(tmp_path, settings=settings, **where(server, cwd=str(place), deny=["ls"])) as rig:
        yield rig


async def test_a_denied_program_does_not_start_in_two_steps(rig: ShellRig) -> None:
    passed: list[str] = []
    for name, (files, command) in TWO_STEPS.items():
        _write(rig.place, files)
        await rig.run(f"cd {rig.place}")
        try:
            await rig.run(command)
            passed.append(name)
        except (PolicyDenied, PolicyUndecidable):
            pass
    assert passed == []


async def test_code_that_names_no_denied_program_runs(rig: ShellRig) -> None:
    refused: list[str] = []
    for name, (files, command) in INNOCENT.items():
        _write(rig.place, files)
        await rig.run(f"cd {rig.place}")
        try:
            await rig.run(command)
        except (PolicyDenied, PolicyUndecidable) as error:
            refused.append(f"{name}: {error.message}")
    assert refused == []


async def test_a_copy_of_a_denied_program_is_refused_by_its_content(rig: ShellRig) -> None:
    await rig.run(f"cd {rig.place}")
    programs = {name: shutil.which(name) or "" for name in ("ls", "env", "true")}
    for name, path in programs.items():
        shutil.copy(path, rig.place / f"my{name}")
    (rig.place / "link").symlink_to(programs["ls"])
    loader = next((path for path in LOADERS if Path(path).exists()), "./myls")
    for command in ("./myls", f"{rig.place}/myls -l", "nice ./link", f"{loader} ./myls", f"{loader} {loader} ./link"):
        with pytest.raises(PolicyUndecidable, match="a copy of 'ls'"):
            await rig.run(command)
    with pytest.raises(PolicyUndecidable, match="a copy of 'env'"):
        await rig.run("./myenv A=1 true")
    assert (await rig.run("./mytrue"))["exit_code"] == 0


async def test_the_refusal_names_the_file_and_the_program(rig: ShellRig) -> None:
    _write(rig.place, {"s.sh": SHELL})
    await rig.run(f"cd {rig.place}")
    with pytest.raises(PolicyDenied, match=r"'ls' is denylisted, in 's\.sh'") as refused:
        await rig.run("bash s.sh")
    assert refused.value.details["program"] == "ls"
    assert refused.value.details["via"] == ["bash", "s.sh"]


@pytest.mark.parametrize(("mode", "error"), [("refuse", PolicyUndecidable), ("ask", ApprovalRequired)])
async def test_a_strict_operator_has_what_cannot_be_judged_refused_or_asked(
    tmp_path: Path, server: SshServer, mode: str, error: type[Exception]
) -> None:
    place = tmp_path / "place"
    settings = settings_for(server, unjudged=mode)
    place.mkdir()
    async with shell_rig(tmp_path, settings=settings, **where(server, cwd=str(place), deny=["ls"])) as rig:
        rig.shells.approvals.wait_s = 0.1
        files = {"s.sh": "echo fine\n", "x.py": "print(1)\n", "open.sh": '"$1"\n', "b": "\0ELF"}
        _write(rig.place, files | OPEN_SCRIPTS)
        await rig.run(f"cd {rig.place}")
        assert await rig.out("bash s.sh") == "fine", "it was read, and nothing in it is open"
        for command in UNJUDGED:
            with pytest.raises(error):
                await rig.run(command)
        assert await rig.out("echo plain; cat s.sh | wc -l")
        assert await rig.out("echo a b | awk '$1 == \"a\" || !n++ {print $2}' | sed 's|b|c|'") == "c"
