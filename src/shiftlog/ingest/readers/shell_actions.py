"""Shell commands, read for the commits they made and the packages they added.

A word splitter that follows quotes, operators and here-documents. It decides no policy; `guard.bash` parses for that.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

MAX_COMMAND_CHARS: Final = 64 * 1024
_MAX_NESTING = 2

_COMMIT_LINE = re.compile(
    r"^\[(?P<branch>\S[^\]\n]{0,254}?)(?: \(root-commit\))? (?P<sha>[0-9a-f]{7,64})\] (?P<subject>.*)$", re.M
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_NOTHING = ("nothing to commit", "nothing added to commit", "no changes added to commit")
_WRAPPERS = frozenset(
    "sudo env time command nohup exec builtin timeout nice ionice stdbuf setsid xvfb-run "
    "if elif while until then do else ! {".split()
)
# Flags of wrappers that take the next word, and what `timeout` wants before the program.
_WRAPPER_VALUES = frozenset({"-u", "--user", "-g", "--group", "-C", "-n", "-s", "--signal", "-k", "--kill-after"})
_DURATION = re.compile(r"\d+(?:\.\d+)?[smhd]?")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_BREAKS = ";&|()\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit made by a command; `sha` and `branch` are None if the command printed none."""

    sha: str | None
    branch: str | None
    message: str


@dataclass(frozen=True, slots=True)
class CommandWord:
    text: str
    literal: bool = True
    """False if the shell would still expand it."""


def simple_commands(script: str) -> Iterator[list[CommandWord]]:
    """Yield the simple commands of a script in order, without redirections and quotes."""
    return _WordSplitter(script[:MAX_COMMAND_CHARS]).commands()


class _WordSplitter:
    def __init__(self, script: str) -> None:
        self._script = script
        self._at = 0
        self._waiting: list[str] = []

    def commands(self) -> Iterator[list[CommandWord]]:
        words: list[CommandWord] = []
        script, size = self._script, len(self._script)
        while self._at < size:
            char = script[self._at]
            if char in _BREAKS:
                self._at += 1
                if words:
                    yield words
                    words = []
                if char == "\n" and self._waiting:
                    self._skip_documents()
            elif char.isspace():
                self._at += 1
            elif char == "#":
                end = script.find("\n", self._at)
                self._at = size if end < 0 else end
            elif char in "<>":
                self._redirect()
            else:
                word = self._word()
                if self._at < size and script[self._at] in "<>" and word.text.isdigit():
                    self._redirect()
                else:
                    words.append(word)
        if words:
            yield words

    def _redirect(self) -> None:
        script, size = self._script, len(self._script)
        start = self._at
        while self._at < size and script[self._at] in "<>&|-":
            self._at += 1
        operator = script[start : self._at]
        while self._at < size and script[self._at] in " \t":
            self._at += 1
        if self._at < size and script[self._at] not in _BREAKS + "<>":
            target = self._word()
            if operator in ("<<", "<<-"):
                self._waiting.append(target.text)

    def _skip_documents(self) -> None:
        for end in self._waiting:
            while self._at < len(self._script):
                stop = self._script.find("\n", self._at)
                stop = len(self._script) if stop < 0 else stop
                line = self._script[self._at : stop]
                self._at = stop + 1
                if line.strip("\t ") == end:
                    break
        self._waiting.clear()

    def _word(self) -> CommandWord:
        script, size = self._script, len(self._script)
        parts: list[str] = []
        literal = True
        while self._at < size:
            char = script[self._at]
            if char == "'":
                end = script.find("'", self._at + 1)
                end = size if end < 0 else end
                parts.append(script[self._at + 1 : end])
                self._at = end + 1
            elif char == '"':
                text, plain = self._quoted()
                parts.append(text)
                literal = literal and plain
            elif char == "\\":
                if script[self._at + 1 : self._at + 2] != "\n":
                    parts.append(script[self._at + 1 : self._at + 2])
                self._at += 2
            elif char in _BREAKS or char in "<>" or char.isspace():
                # `foo=$(…)` and `<(…)`: the commands in the parentheses are read on their own.
                break
            else:
                literal = literal and char not in "$`*?"
                parts.append(char)
                self._at += 1
        return CommandWord("".join(parts), literal)

    def _quoted(self) -> tuple[str, bool]:
        script, size = self._script, len(self._script)
        start = self._at + 1
        at = start
        plain = True
        nested = 0
        while at < size and (nested or script[at] != '"'):
            char = script[at]
            if char == "\\":
                at += 1
            elif char == "$" and script[at + 1 : at + 2] == "(":
                nested += 1
                plain = False
            elif nested and char == "(":
                nested += script[at - 1] != "$"
            elif nested and char == ")":
                nested -= 1
            elif char in "$`":
                plain = False
            at += 1
        self._at = at + 1
        return script[start:at], plain


def _program(words: list[CommandWord]) -> list[CommandWord]:
    # Assignments and wrappers before the program do not change what it does.
    at = 0
    wrapper = ""
    while at < len(words):
        text = words[at].text
        if at and text.startswith("-"):
            at += 2 if text in _WRAPPER_VALUES and wrapper in ("sudo", "timeout", "nice", "ionice") else 1
        elif text in _WRAPPERS:
            wrapper = text
            at += 1
        elif _ASSIGNMENT.match(text) or (wrapper == "timeout" and _DURATION.fullmatch(text)):
            at += 1
        else:
            break
    return words[at:]


def _programs(script: str, nesting: int = 0) -> Iterator[list[CommandWord]]:
    for command in simple_commands(script):
        words = _program(command)
        if not words:
            continue
        name = words[0].text.rsplit("/", 1)[-1]
        if name in _SHELLS and nesting < _MAX_NESTING:
            for flag, inner in pairwise(words[1:]):
                if flag.text.startswith("-") and not flag.text.startswith("--") and flag.text.endswith("c"):
                    yield from _programs(inner.text, nesting + 1)
                    break
            continue
        if name.startswith("python") and len(words) > 2 and words[1].text == "-m":
            words = words[2:]
            name = words[0].text
        yield [CommandWord(name), *words[1:]]


# -- commits -----------------------------------------------------------------------------------------------------------

_RUNS_SCRIPTS = frozenset({"rebase", "submodule"})
_GIT_VALUES = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})


def commit_messages(script: str) -> list[str]:
    """Return the message of each `git commit` in a script; empty if the command line gives none."""
    if "commit" not in script or "git" not in script:
        return []
    found: list[str] = []
    for words in _programs(script):
        if words[0].text != "git":
            continue
        arguments = _after_flags(words[1:], _GIT_VALUES)
        if arguments and arguments[0].text == "commit":
            texts = [word.text for word in arguments[1:]]
            if "--dry-run" not in texts:
                found.append(_message(texts))
        elif arguments and arguments[0].text in _RUNS_SCRIPTS:
            found += [message for inner in _given_scripts(arguments) for message in commit_messages(inner)]
    return found


def _given_scripts(arguments: list[CommandWord]) -> Iterator[str]:
    """Yield the scripts that `git rebase --exec` or `git submodule foreach` is given to run."""
    verb, *rest = [word.text for word in arguments]
    if verb == "submodule":
        at = rest.index("foreach") + 1 if "foreach" in rest else len(rest)
        yield " ".join(text for text in rest[at:] if text not in ("--recursive", "--quiet", "-q"))
        return
    for at, text in enumerate(rest):
        if text in ("-x", "--exec") and at + 1 < len(rest):
            yield rest[at + 1]
        elif text.startswith("--exec="):
            yield text.partition("=")[2]
        elif text.startswith("-x") and len(text) > 2:
            yield text[2:]


def _message(arguments: list[str]) -> str:
    for at, text in enumerate(arguments):
        if text.startswith("--message="):
            return _subject(text.partition("=")[2])
        short = len(text) > 1 and text[0] == "-" and text[1] != "-"
        if text == "--message" or (short and text.endswith("m")):
            return _subject(arguments[at + 1]) if at + 1 < len(arguments) else ""
        if short and text.startswith("-m"):
            return _subject(text[2:])
    return ""


def _subject(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if lines and lines[0].startswith("$(cat <<"):
        lines = lines[1:]
    return lines[0] if lines else ""


def commits_made(script: str, output: str) -> list[Commit]:
    """Return the commits of a successful command from its output; one without id if it was quiet."""
    messages = commit_messages(script)
    if not messages:
        return []
    printed = [
        Commit(sha=match["sha"], branch=match["branch"], message=match["subject"].strip())
        for match in _COMMIT_LINE.finditer(output)
    ]
    if printed or any(words in output for words in _NOTHING):
        return printed
    return [Commit(sha=None, branch=None, message=messages[0])]


# -- packages ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Manager:
    verbs: tuple[tuple[str, ...], ...]
    values: frozenset[str]
    slashes: bool = False
    """True if names of this manager may hold `/`."""


def _manager(verbs: str, values: str = "", *, slashes: bool = False) -> _Manager:
    return _Manager(tuple(tuple(verb.split()) for verb in verbs.split("|")), frozenset(values.split()), slashes)


_PIP_VALUES = (
    "-r --requirement -c --constraint -e --editable -t --target -i --index-url --extra-index-url -f --find-links "
    "--prefix --root --src --platform --python-version --trusted-host --proxy --timeout --retries --python -p --log"
)
_UV_VALUES = (
    _PIP_VALUES + " --group --extra --optional --index --default-index --tag --branch --rev --package --directory "
    "--project --bounds --script -m --marker"
)
_NPM_VALUES = "--prefix -C --dir --filter -F -w --workspace --registry --tag --loglevel --cwd"
_PNPM_VALUES = "--prefix -C --dir --filter -F --registry --tag --loglevel"  # its -w means the root of the workspace
_CARGO_VALUES = (
    "--features -F --rename --registry --path --git --branch --tag --rev -p --package --manifest-path --target --color"
)
_POETRY_VALUES = "--group -G --extras -E --source --python --platform -C --directory -P --project --markers"

MANAGERS: Final[Mapping[str, _Manager]] = {
    "npm": _manager("i|install|add", _NPM_VALUES),
    "pnpm": _manager("i|install|add", _PNPM_VALUES),
    "bun": _manager("i|install|add", _NPM_VALUES),
    "yarn": _manager("add|global add", _NPM_VALUES),
    "pip": _manager("install", _PIP_VALUES),
    "pip3": _manager("install", _PIP_VALUES),
    "uv": _manager("add|pip install", _UV_VALUES),
    "poetry": _manager("add", _POETRY_VALUES),
    "pdm": _manager("add", "-G --group -p --project"),
    "cargo": _manager("add", _CARGO_VALUES),
    "bundle": _manager("add", "--group -g --source -s --git --path --branch --require -r"),
    "go": _manager("get", "-C", slashes=True),
    "gem": _manager("install", "-i --install-dir -s --source -n --bindir -P"),
    "apt": _manager("install", "-t --target-release -o -c"),
    "apt-get": _manager("install", "-t --target-release -o -c"),
    "brew": _manager("install", "", slashes=True),
    "composer": _manager("require", "-d --working-dir", slashes=True),
    "dotnet": _manager("add package", "-f --framework -s --source --package-directory --project"),
}
_VERSION_FLAGS = frozenset({"-v", "--version"})
_TAKES_VERSION = frozenset({"gem", "dotnet", "bundle"})
_VERBS_IN_TEXT = ("install", "add", "get", "require", " i ")
_ARCHIVES = (".whl", ".tgz", ".tar.gz", ".zip", ".deb", ".gem", ".rpm")


def packages_added(script: str) -> list[tuple[str, str]]:
    """Return (manager, name) of every package that a script adds by a literal name."""
    if not any(verb in script for verb in _VERBS_IN_TEXT):
        return []
    found: list[tuple[str, str]] = []
    for words in _programs(script):
        name = words[0].text
        manager = MANAGERS.get(name)
        if manager is not None:
            found += _added(name, manager, words[1:])
    return list(dict.fromkeys(found))


def _added(name: str, manager: _Manager, words: list[CommandWord]) -> list[tuple[str, str]]:
    arguments = _after_flags(words, manager.values)
    for verb in manager.verbs:
        rest = _after_verb(name, verb, arguments)
        if rest is not None:
            shown = f"{name} {verb[0]}" if name == "uv" and len(verb) > 1 else name
            return [(shown, package) for package in _packages(name, manager, rest)]
    return []


def _after_verb(name: str, verb: tuple[str, ...], arguments: list[CommandWord]) -> list[CommandWord] | None:
    texts = [word.text for word in arguments]
    if tuple(texts[: len(verb)]) == verb:
        return arguments[len(verb) :]
    # `dotnet add app.csproj package Name` has the project between the two words.
    if name == "dotnet" and texts[:1] == ["add"] and texts[2:3] == ["package"]:
        return arguments[3:]
    return None


def _packages(name: str, manager: _Manager, words: list[CommandWord]) -> list[str]:
    found: list[str] = []
    version = ""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.text.startswith("-"):
            if name in _TAKES_VERSION and word.text in _VERSION_FLAGS and at < len(words):
                version = words[at].text if words[at].literal else ""
                at += 1
            elif word.text in manager.values:
                at += 1
        elif _is_name(word, manager):
            found.append(word.text)
    return [f"{package}@{version}" if version else package for package in found]


def _is_name(word: CommandWord, manager: _Manager) -> bool:
    text = word.text
    if not word.literal or not text or len(text) > 200 or not (text[0].isalnum() or text[0] in "@_"):
        return False
    if "://" in text or ":\\" in text or text.endswith(_ARCHIVES) or any(char.isspace() for char in text.strip()):
        return False
    if "/" in text and not manager.slashes:
        scope, _, rest = text.partition("/")
        return scope.startswith("@") and len(scope) > 1 and bool(rest) and "/" not in rest
    return not text.startswith("git+") and not text.startswith("file:")


def _after_flags(words: list[CommandWord], values: frozenset[str]) -> list[CommandWord]:
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in values else 1
    return words[at:]
