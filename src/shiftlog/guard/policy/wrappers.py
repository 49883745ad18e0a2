"""Finds what wrappers such as `sudo`, `env`, `xargs` and `bash -c` would start.

Most are entries of a table; each irregular one has a function here. Nothing is started or judged. The text check misses
a wrapper that is not listed, but the kernel layer still sees what it starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from shiftlog.guard.bash.tree import BashWord
from shiftlog.guard.bash.words import HOLE, Arg, is_process, is_stdin, literal, unknown, with_holes
from shiftlog.guard.policy import tables
from shiftlog.guard.policy.finding import fd, find, with_hole
from shiftlog.guard.policy.found import Unwrapped
from shiftlog.guard.policy.options import read_options

ENV_PIECE = re.compile(
    r"((?:[ \t\n\v\f\r]|\\_)+)|'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|([^ \t\n\v\f\r'\"\\]+)", re.S
)
ENV_ESCAPES = {"f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "_": " "}
ARCHITECTURE = re.compile(r"[a-z0-9_]*(86|64|32|arm|ppc|mips|390|26)[a-z0-9_]*")


def unwrap(name: str, args: list[Arg]) -> Unwrapped | None:
    """Return what the program `name` (a basename) would start; None if it is not a known wrapper."""
    odd = ODD.get(name)
    if odd is not None:
        return odd(args)
    plain = tables.WRAPPERS.get(name)
    if plain is not None:
        return _follow(plain, args)
    if name in tables.SHELLS:
        return _shell(args)
    if name.startswith("ld") and tables.LOADER.fullmatch(name):
        found = read_options(args, tables.LOADER_OPTIONS)
        if found.given and found.given[-1][0] in ("--list", "--verify", "--help", "--version"):
            return Unwrapped()
        return Unwrapped(argvs=[found.rest] if found.rest else [], hidden=found.hidden)
    return None


def _follow(plain: tables.Wrapper, args: list[Arg]) -> Unwrapped:
    found = read_options(args, plain)
    if found.hidden:
        return Unwrapped(hidden=True)
    if any(arg.splits for arg in found.rest[: plain.operands]):
        return Unwrapped(hidden=True)
    rest = found.rest[plain.operands :]
    settings = [value for option, value in found.given if option == "=" and value is not None]
    if rest and plain.assignments:
        return Unwrapped(argvs=[rest], settings=settings)
    return Unwrapped(argvs=[rest] if rest else [], reads_stdin=plain.starts_shell and not rest)


def _command(args: list[Arg]) -> Unwrapped:
    for arg in args:
        if arg.value is None or not arg.value.startswith("-") or arg.value == "--":
            break
        if set(arg.value[1:]) & set("vV"):
            return Unwrapped()
    return _follow(tables.WRAPPERS["command"], args)


def _sudo(args: list[Arg]) -> Unwrapped:
    found = read_options(args, tables.WRAPPERS["sudo"])
    if (
        found.has("-l", "--list", "-V", "--version", "-v", "-k", "-K", "-e", "--edit", "--validate")
        and not found.hidden
    ):
        return Unwrapped()
    answer = _follow(tables.WRAPPERS["sudo"], args)
    if not answer.argvs and not answer.hidden:
        answer.reads_stdin = found.has("-s", "-i", "--shell", "--login")
    return answer


def _strace(args: list[Arg]) -> Unwrapped:
    answer = _follow(tables.WRAPPERS["strace"], args)
    for option, value in read_options(args, tables.WRAPPERS["strace"]).given:
        if option in ("-o", "--output") and value is not None:
            if value.text.startswith(("|", "!")):  # a shell reads the trace
                answer.texts.append(Arg(None if value.value is None else value.value[1:], value.text[1:], value.at))
            answer.hidden = answer.hidden or value.text.startswith(HOLE)
    return answer


def _env(args: list[Arg]) -> Unwrapped:
    # The split words replace the option and are read again, because the next word may be their argument.
    found = read_options(args, tables.ENV, stop=("-S", "--split-string"))
    if found.hidden:
        return Unwrapped(hidden=True)
    settings = [value for option, value in found.given if option == "=" and value is not None]
    split = found.value("-S", "--split-string")
    if split is not None:
        if split.value is None or "${" in split.value:
            return Unwrapped(hidden=True)
        inner = _env([*(literal(word, split.at) for word in _split_env(split.value)), *found.rest])
        inner.settings = [*settings, *inner.settings]
        return inner
    return Unwrapped(argvs=[found.rest] if found.rest else [], settings=settings)


def _split_env(text: str) -> list[str]:
    """Split a text as `env -S` does: blanks, quotes, escapes and a trailing comment."""
    words: list[str] = []
    word: str | None = None
    for piece in ENV_PIECE.finditer(text):
        gap, single, double, escape, plain = piece.groups()
        if gap is not None:
            words += [] if word is None else [word]
            word = None
        elif escape == "c" or (word is None and (plain or "").startswith("#")):
            break
        elif single is not None:
            word = (word or "") + re.sub(r"\\([\\'])", r"\1", single)
        elif double is not None:
            word = (word or "") + re.sub(
                r"\\(.)", lambda found: ENV_ESCAPES.get(found[1], found[1]), double, flags=re.S
            )
        else:
            word = (word or "") + (plain or ENV_ESCAPES.get(escape, escape))
    return words if word is None else [*words, word]


def _xargs(args: list[Arg]) -> Unwrapped:
    found = read_options(args, tables.XARGS)
    if found.hidden:
        return Unwrapped(hidden=True)
    if not found.rest:
        return Unwrapped(argvs=[[literal("echo", args[0].at if args else 0), unknown(args[0].at if args else 0)]])
    slot = found.value("--process-slot-var")
    settings = [] if slot is None else [Arg(None, f"{slot.text}={HOLE}", slot.at)]
    given = found.value("-I", "-i", "--replace")
    replaced = (given.text or "{}") if given is not None else ("{}" if found.has("-i", "-I", "--replace") else "")
    if replaced:
        return Unwrapped(argvs=[[with_hole(arg, replaced) for arg in found.rest]], settings=settings)
    return Unwrapped(argvs=[[*found.rest, unknown(found.rest[-1].at)]], settings=settings)


def _shell(args: list[Arg]) -> Unwrapped:
    answer = Unwrapped()
    index = 0
    command = stdin = checks = keyword = False
    while index < len(args):
        arg = args[index]
        text = arg.text
        if arg.value is None and (arg.splits or arg.prefix in ("", "-", "--", "+")):
            break
        if text in ("--", "-"):
            index += 1
            break
        if text in ("--version", "--help"):
            return answer
        if text.startswith("--"):
            if text in ("--rcfile", "--init-file") and index + 1 < len(args):
                index += 1
                answer.scripts.append(args[index])
        elif text[:1] in ("-", "+") and len(text) > 1:
            command = command or (text[0] == "-" and "c" in text)
            stdin = stdin or "s" in text
            checks = checks or (text[0] == "-" and "n" in text)
            keyword = keyword or "k" in text or any(arg.text == "keyword" for arg in args[index + 1 : index + 3])
            index += text.count("o") + text.count("O")
        else:
            break
        index += 1
    rest = args[index:]
    if command:
        answer.texts.extend(rest[:1])
        answer.hidden = bool(rest) and rest[0].splits
    elif stdin or not rest:
        answer.reads_stdin = True
    elif rest[0].splits or (len(rest) > 1 and rest[0].text == HOLE and not is_process(rest[0])):
        answer.hidden = True
    elif not checks:
        answer.scripts.append(rest[0])
        answer.reads_stdin = is_stdin(rest[0])
    answer.hidden = answer.hidden or keyword
    return answer


def _su(args: list[Arg]) -> Unwrapped:
    if any(arg.splits for arg in args):
        return Unwrapped(hidden=True)
    answer = Unwrapped()
    operands: list[Arg] = []
    shell: Arg | None = None
    rest = args
    while rest:
        found = read_options(rest, tables.SU)
        if found.hidden:
            return Unwrapped(hidden=True)
        text = found.value("-c", "--command", "--session-command")
        if text is not None:
            answer.texts.append(text)
        shell = found.value("-s", "--shell") or shell
        operands.extend(found.rest[:1])
        rest = found.rest[1:]
    names = [arg for arg in operands if arg.value != "-"]
    if shell is not None:
        answer.argvs += [[shell, literal("-c", text.at), text] for text in answer.texts] or [[shell, *names[1:]]]
        answer.texts = []
    elif len(names) > 1 and not answer.texts:
        answer.argvs.append([literal("sh", names[0].at), *names[1:]])
    elif not answer.texts:
        answer.reads_stdin = True
    return answer


def _runuser(args: list[Arg]) -> Unwrapped:
    found = read_options(args, tables.SU)
    if not found.hidden and found.has("-u", "--user"):
        return Unwrapped(argvs=[found.rest] if found.rest else [])
    return _su(args)


def _flock(args: list[Arg]) -> Unwrapped:
    found = read_options(args, tables.FLOCK)
    if found.hidden or (found.rest and found.rest[0].splits):
        return Unwrapped(hidden=True)
    rest = found.rest[1:]
    if rest and rest[0].value in ("-c", "--command"):
        return Unwrapped(texts=rest[1:2])
    return Unwrapped(argvs=[rest] if rest else [])


def _joined(args: list[Arg]) -> Arg:
    text = " ".join(arg.text for arg in args)
    parts = [part for arg in args if arg.word is not None for part in arg.word.parts]
    return with_holes(text, args[0].at, BashWord(args[0].at, args[0].at, parts))


def _eval(args: list[Arg]) -> Unwrapped:
    rest = args[1:] if args and args[0].value == "--" else args
    return Unwrapped(texts=[_joined(rest)] if rest else [])


def _watch(args: list[Arg]) -> Unwrapped:
    found = read_options(args, tables.WATCH)
    if found.hidden:
        return Unwrapped(hidden=True)
    if found.has("-x", "--exec"):
        return Unwrapped(argvs=[found.rest] if found.rest else [])
    return Unwrapped(texts=[_joined(found.rest)] if found.rest else [])


def _script(args: list[Arg]) -> Unwrapped:
    texts = [
        args[index + 1] for index in range(len(args) - 1) if re.fullmatch(r"-[aefq]*c|--command", args[index].text)
    ]
    if texts:
        return Unwrapped(texts=texts[:1])
    attached = [arg for arg in args if re.match(r"-[aefq]*c.|--command=", arg.text, re.S)]
    if attached:
        text = re.sub(r"^(-[aefq]*c|--command=)", "", attached[0].text)
        return Unwrapped(texts=[with_holes(text, attached[0].at)])
    found = read_options(args, tables.SCRIPT)
    return Unwrapped(hidden=found.hidden, reads_stdin=True)


def _parallel(args: list[Arg]) -> Unwrapped:
    found = read_options(args, tables.PARALLEL)
    if found.hidden:
        return Unwrapped(hidden=True)
    marks = [index for index, arg in enumerate(found.rest) if arg.value in (":::", ":::+", "::::", "::::+")]
    stop = marks[0] if marks else len(found.rest)
    command, values = found.rest[:stop], found.rest[stop + 1 :]
    if command:
        joined = " ".join(arg.text for arg in command)
        text = re.sub(r"\{[^{}\s]{0,8}\}", HOLE, joined)
        return Unwrapped(
            texts=[Arg(text, text if HOLE in text else text + " " + HOLE, command[0].at)], holes_are_data=True
        )
    if marks and found.rest[marks[0]].value == ":::":
        return Unwrapped(texts=[arg for arg in values if arg.value != ":::"])
    return Unwrapped(hidden=True)


def _multi_call(args: list[Arg]) -> Unwrapped:
    if args and args[0].value is not None and args[0].value.startswith("-"):
        if args[0].value.startswith("--coreutils-prog="):
            return Unwrapped(argvs=[[literal(args[0].value.split("=", 1)[1], args[0].at), *args[1:]]])
        return Unwrapped()
    return Unwrapped(argvs=[args] if args else [])


def _setarch(args: list[Arg]) -> Unwrapped:
    found = read_options(args, tables.SETARCH)
    if found.hidden:
        return Unwrapped(hidden=True)
    rest = found.rest
    if rest and ARCHITECTURE.fullmatch(rest[0].text):
        found = read_options(rest[1:], tables.SETARCH)
        rest = found.rest
    return Unwrapped(argvs=[rest] if rest else [], hidden=found.hidden, reads_stdin=not rest)


def _after(*words: str, takes: str = "") -> Callable[[list[Arg]], Unwrapped]:
    """Follow programs of the form `tool WORD [options] program …`."""

    def follow(args: list[Arg]) -> Unwrapped:
        index = next((at for at, arg in enumerate(args) if arg.value is None or not arg.value.startswith("-")), None)
        if index is None or args[index].value not in words:
            return Unwrapped()
        rest = args[index + 1 :]
        while rest and rest[0].value is not None and rest[0].value.startswith("-"):
            option = rest[0].value
            rest = rest[2:] if option in takes.split() else rest[1:]
            if option == "--":
                break
        return Unwrapped(argvs=[rest] if rest else [])

    return follow


def _subcommands(table: dict[str, str]) -> Callable[[list[Arg]], Unwrapped]:
    follows = {word: _after(word, takes=takes) for word, takes in table.items()}

    def follow(args: list[Arg]) -> Unwrapped:
        for arg in args:
            if arg.value is not None and arg.value in follows:
                return follows[arg.value](args)
            if arg.value is None or not arg.value.startswith("-"):
                break
        return Unwrapped()

    return follow


def _valgrind(args: list[Arg]) -> Unwrapped:
    rest = list(args)
    while rest and rest[0].value is not None and rest[0].value.startswith("-"):
        rest = rest[1:]
    return Unwrapped(argvs=[rest] if rest else [])


def _stdin_text(args: list[Arg]) -> Unwrapped:
    return Unwrapped(reads_stdin=not any(arg.value in ("-f", "-l", "-r", "-c", "-d") for arg in args))


def _gdb(args: list[Arg]) -> Unwrapped:
    for index, arg in enumerate(args):
        if arg.value in ("--args", "-args"):
            return Unwrapped(argvs=[args[index + 1 :]] if args[index + 1 :] else [])
    return Unwrapped()


def _newgrp(args: list[Arg]) -> Unwrapped:
    texts = [following for arg, following in pairwise(args) if arg.value in ("-c", "--command")]
    return Unwrapped(texts=texts, reads_stdin=not texts)


def _cmake(args: list[Arg]) -> Unwrapped:
    """Follow `cmake -E env|time|chdir`, which start a program."""
    words = [arg.value for arg in args[:2]]
    if words[:1] != ["-E"] or len(words) < 2:
        return Unwrapped()
    rest = args[3:] if words[1] == "chdir" else args[2:]
    if words[1] == "env":
        return _env([arg for arg in rest if not arg.text.startswith(("--unset=", "--modify"))])
    return Unwrapped(argvs=[rest] if rest and words[1] in ("chdir", "time") else [])


def _ip(args: list[Arg]) -> Unwrapped:
    """Follow `ip netns exec NAME program` and `ip vrf exec NAME program`."""
    for index, (arg, following) in enumerate(pairwise(args)):
        if arg.value in ("netns", "vrf") and following.value == "exec":
            rest = args[index + 2 :] if any(one.value in ("-all", "-a") for one in args[:index]) else args[index + 3 :]
            return Unwrapped(argvs=[rest] if rest else [])
    return Unwrapped()


def _texts(args: list[Arg]) -> Unwrapped:
    """Take every argument with a blank or without a dash for shell text."""
    return Unwrapped(texts=[arg for arg in args if not arg.text.startswith("-")], holes_are_data=True)


def _capsh(args: list[Arg]) -> Unwrapped:
    for index, arg in enumerate(args):
        if arg.value in ("--", "=="):
            return _shell(args[index + 1 :])
    return Unwrapped()


def _bwrap(args: list[Arg]) -> Unwrapped:
    index = 0
    while index < len(args) and args[index].text.startswith("--"):
        option = args[index].text
        if args[index].value is None or option == "--args":
            return Unwrapped(hidden=True)
        index += 1 + (option in tables.BWRAP_ONE) + 2 * (option in tables.BWRAP_TWO)
    if any(arg.splits for arg in args[:index]):
        return Unwrapped(hidden=True)
    return Unwrapped(argvs=[args[index:]] if args[index:] else [])


ODD: dict[str, Callable[[list[Arg]], Unwrapped]] = {
    "command": _command,
    "sudo": _sudo,
    "strace": _strace,
    "env": _env,
    "xargs": _xargs,
    "find": find,
    "fd": fd,
    "fdfind": fd,
    "su": _su,
    "sg": _su,
    "runuser": _runuser,
    "flock": _flock,
    "eval": _eval,
    "watch": _watch,
    "script": _script,
    "parallel": _parallel,
    "setarch": _setarch,
    "valgrind": _valgrind,
    "gdb": _gdb,
    "capsh": _capsh,
    "bwrap": _bwrap,
    "run-parts": lambda _: Unwrapped(hidden=True),
    "at": _stdin_text,
    "batch": _stdin_text,
    "perf": _subcommands({"stat": "-e -o -C -p -r -x", "record": "-e -o -F -c -C -p", "trace": "-e -o -p"}),
    "uv": _subcommands({"run": "--with --python -p --extra --group --project --directory --env-file --package"}),
    "mise": _after("exec", "x"),
    "newgrp": _newgrp,
    "cmake": _cmake,
    "ip": _ip,
    **dict.fromkeys(("hyperfine", "pee", "mispipe"), _texts),
    **dict.fromkeys(("poetry", "pipenv", "pdm", "hatch", "rye"), _after("run")),
    **dict.fromkeys(("bundle", "pnpm"), _after("exec")),
    **dict.fromkeys(("conda", "mamba"), _after("run", takes="-n --name -p --prefix --cwd")),
    **dict.fromkeys(("busybox", "toybox", "coreutils", "uutils", "sbase-box", "ubase-box"), _multi_call),
}
