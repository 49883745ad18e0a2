"""Finds commands in the options of ordinary programs: `git -c alias.x=!…`, `tar --to-command`, `rsync -e`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shiftlog.guard.bash.words import HOLE, Arg, is_stdin, with_holes
from shiftlog.guard.policy.tables import (
    COMMAND_OPTIONS,
    GIT_COMMAND_KEYS,
    GLOBAL_VALUES,
    MAKES,
    SSH_COMMAND_KEYS,
    VALUED_LETTERS,
)

GIT_VALUES = GLOBAL_VALUES["git"]
GIT_CONFIG_VALUES = frozenset("-f --file --blob -t --type --default --comment --value".split())
SHORTEST_NAME = 4  # of an abbreviated long option
# Option letters before the one whose value is code; none of them takes a value.
CODE_LETTERS = {
    "perl": re.compile(r"-[acflnpsStTuUwWX0-9]*[eE]"),
    "python": re.compile(r"-[bBdEIOPqRsSuvVx]*c"),
    "ruby": re.compile(r"-[alnpsSUvwW0-9]*e"),
    "php": re.compile(r"-[nqe]*r"),
}
THIS_MACHINE = re.compile(r"(?:localhost[^/]*|ip6-l\w+|127\.[0-9.]+|0(?:\.0\.0\.0)?|\[?::1?\]?)(?::\d+)?/?", re.I)
KEEPS_NAME = re.compile(r"--remote-name|-(?!-).*O", re.S)  # of `curl`
GIT_VALUED_LETTERS = "ABCcefmtoubjX"
GIT_TEXT_OPTIONS = {
    "rebase": ("-x", "--exec"),
    "difftool": ("-x", "--extcmd"),
    "grep": ("-O", "--open-files-in-pager"),
    "clone": ("-u", "--upload-pack"),
    **dict.fromkeys(("fetch", "pull"), ("--upload-pack",)),
    **dict.fromkeys(("fetch-pack", "send-pack"), ("--exec", "--upload-pack", "--receive-pack")),
    "send-email": ("--sendmail-cmd", "--to-cmd", "--cc-cmd", "--header-cmd"),
    "ls-remote": ("--upload-pack", "--exec"),
    "push": ("--receive-pack", "--exec"),
    "archive": ("--exec",),
    "filter-branch": ("--tree-filter", "--index-filter", "--env-filter", "--msg-filter", "--commit-filter",
                      "--parent-filter", "--tag-name-filter", "--setup"),
}  # fmt: skip


def tool_commands(base: str, args: list[Arg]) -> list[Arg]:
    """Return the shell commands in a program's options."""
    if base == "git":
        return list(_git_commands(args))
    if base in ("ssh", "scp", "sftp"):
        return [*_ssh_commands(args), *option_values(args, COMMAND_OPTIONS.get(base, ()), VALUED_LETTERS[base])]
    if base == "tar":
        args = _with_dash(args)
    if base in ("apt", "apt-get", "dpkg", "aptitude"):
        hooks = [arg.text.partition("=") for arg in args if "invoke" in arg.text.lower()]
        return [with_holes(command, args[0].at) for _, equals, command in hooks if equals]
    if base == "socat":
        return list(_socat_commands(args))
    return option_values(args, COMMAND_OPTIONS.get(base, ()), VALUED_LETTERS.get(base, ""))


def downloads_to(base: str, args: list[Arg]) -> list[str]:
    """Return the files that `curl` or `wget` writes, as far as its arguments name them."""
    letter, long = ("o", "--output") if base == "curl" else ("O", "--output-document")
    named = option_values(args, (long,))
    for arg, following in zip(args, [*args[1:], None], strict=False):
        head, given, attached = arg.text.partition(letter)
        if given and head.startswith("-") and not head.startswith("--"):
            named += [with_holes(attached, arg.at)] if attached else [following] if following else []
    by_address = not named if base == "wget" else any(KEEPS_NAME.match(arg.text) for arg in args)
    if by_address:
        named += [with_holes(arg.text.partition("?")[0].rpartition("/")[2], arg.at) for arg in args if "/" in arg.text]
    return [arg.text for arg in named if arg.text and HOLE not in arg.text]


def option_values(args: list[Arg], options: tuple[str, ...], valued: str = "") -> list[Arg]:
    """Return the values of some options, attached or as the next argument.

    Long names may be abbreviated. Letters may share a dash if `valued` lists the letters that take a value.
    """
    values: list[Arg] = []
    for index, arg in enumerate(args):
        for option in options:
            following = args[index + 1] if index + 1 < len(args) else None
            value = _value_of(option.rstrip("."), arg.text, following, arg.at, valued)
            if value is None:
                continue
            if not option.endswith("."):
                values.append(value)
            elif value.text.startswith("exec="):
                values.append(with_holes(value.text[5:], value.at))
    return values


def _value_of(option: str, text: str, following: Arg | None, at: int, valued: str = "") -> Arg | None:
    if text == option:
        return following
    if option.startswith("--"):
        name, equals, value = text.partition("=")
        if len(name) < SHORTEST_NAME or not option.startswith(name):
            return None
        return with_holes(value, at) if equals else following
    if len(option) != 2 or not text.startswith("-") or text.startswith("--"):
        return None
    letters = text[1:] if valued else text[1:2]
    for index, letter in enumerate(letters):
        if letter == option[1]:
            attached = text[index + 2 :]
            return with_holes(attached, at) if attached else following
        if letter in valued:
            break
    return None


def _with_dash(args: list[Arg]) -> list[Arg]:
    """Write `tar cIf program file` as `tar -c -I program -f file`."""
    if not args or args[0].value is None or not args[0].value.isalpha():
        return args
    values = iter(args[1:])
    spelt: list[Arg] = []
    for letter in args[0].value:
        if letter in VALUED_LETTERS["tar"]:
            value = next(values, None)
            spelt += [] if value is None else [with_holes("-" + letter, args[0].at), value]
    return [*spelt, *values]


def _ssh_commands(args: list[Arg]) -> Iterator[Arg]:
    for setting in option_values(args, ("-o",), VALUED_LETTERS["ssh"]):
        found = SSH_COMMAND_KEYS.match(setting.text)
        if found and found.group(2) != "none":
            yield with_holes(found.group(2), setting.at)


def local_command(args: list[Arg]) -> list[Arg] | None:
    """Return the words that `ssh` has a shell of this same machine run; None if its host is another one."""
    index = 0
    while index < len(args) and args[index].text.startswith("-"):
        letters = args[index].text[1:]
        valued = next((at for at, letter in enumerate(letters) if letter in VALUED_LETTERS["ssh"]), -2)
        index += 2 if valued == len(letters) - 1 else 1
    host = args[index].text.removeprefix("ssh://").rpartition("@")[2] if index < len(args) else ""
    return args[index + 1 :] if THIS_MACHINE.fullmatch(host) else None


def _socat_commands(args: list[Arg]) -> Iterator[Arg]:
    for arg in args:
        kind, colon, command = arg.text.partition(":")
        if colon and kind.upper() in ("EXEC", "SYSTEM", "SHELL"):
            yield with_holes(command.split(",", 1)[0], arg.at)


def _git_commands(args: list[Arg]) -> Iterator[Arg]:
    index = 0
    yield from (with_holes(arg.text[5:], arg.at) for arg in args if arg.text.startswith("ext::"))
    while index < len(args) and args[index].text.startswith(("-", HOLE)):
        option = args[index].text
        if args[index].splits or ("=" not in args[index].prefix and HOLE in option):  # may be `-c`
            yield Arg(None, HOLE, args[index].at)
        following = args[index + 1] if index + 1 < len(args) else None
        if option == "-c" and following is not None:
            key, _, value = following.text.partition("=")
            yield from _git_setting(key.strip(), value, following.at)
        setting = _value_of("--config-env", option, following, args[index].at)
        if setting is not None:  # the value is in an environment variable
            yield from _git_setting(setting.text.rpartition("=")[0] or setting.text, HOLE, setting.at)
        index += 2 if option in GIT_VALUES else 1
    if index >= len(args):
        return
    subcommand, rest = args[index].text, args[index + 1 :]
    yield from option_values(rest, GIT_TEXT_OPTIONS.get(subcommand, ()), GIT_VALUED_LETTERS)
    if subcommand == "config":
        operands = [
            arg
            for before, arg in zip(("", *(arg.text for arg in rest)), rest, strict=False)
            if not arg.text.startswith("-") and arg.text not in ("set", "add") and before not in GIT_CONFIG_VALUES
        ]
        if len(operands) > 1:
            yield from _git_setting(operands[0].text, operands[1].text, operands[1].at)
    elif subcommand == "remote-ext":
        yield from rest[1:2]
    elif subcommand == "bisect" and rest and rest[0].text == "run":
        yield with_holes(" ".join(arg.text for arg in rest[1:]), rest[0].at)
    elif subcommand == "submodule" and any(arg.text == "foreach" for arg in rest):
        after = rest[[arg.text for arg in rest].index("foreach") + 1 :]
        yield with_holes(" ".join(arg.text for arg in after if arg.text not in ("--recursive", "--quiet")), rest[0].at)


def _git_setting(key: str, value: str, at: int) -> Iterator[Arg]:
    if HOLE in key or key.startswith("url.ext::"):
        yield Arg(None, HOLE, at)
    if value.startswith("ext::"):
        yield with_holes(value[5:], at)
    if not GIT_COMMAND_KEYS.fullmatch(key):
        return
    lowered = key.lower()
    if lowered.startswith("alias.") or lowered.endswith(".helper"):
        if value.startswith(("!", HOLE)) or (lowered.endswith(".helper") and value.startswith("/")):
            yield with_holes(value.removeprefix("!"), at)
        elif lowered.startswith("alias."):
            yield with_holes("git " + value, at)
        return
    if lowered == "core.fsmonitor" and value.lower() in ("true", "false", "1", "0"):
        return
    yield with_holes(value, at)


def takes_stdin(base: str, args: list[Arg]) -> bool:
    """Return True if a program may read its code from its standard input."""
    if any(is_stdin(arg) for arg in args):
        return True
    if any(_holds_code(base, arg) for arg in args[:1]):
        return False
    if base in MAKES:
        return any(arg.value is None or arg.value.endswith("-") for arg in args)
    first = next((arg.text for arg in args if arg.text == "-" or not arg.text.startswith("-")), "-")
    return first == "-"


def _holds_code(base: str, arg: Arg) -> bool:
    """Return True if an option such as `-lne'print'` has code in the same word."""
    family = next((name for name in CODE_LETTERS if base.startswith(name)), "")
    found = CODE_LETTERS[family].match(arg.prefix) if family else None
    return found is not None and len(arg.text) > found.end()
