"""Follows what bash's builtins and variables start: `trap`, `alias`, `hash -p`, `mapfile -C`, `PS4`, `BASH_ENV`, …"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence

from shiftlog.guard.bash.tree import Assign, BashWord, Dyn, Lit, holds_download
from shiftlog.guard.bash.values import Values
from shiftlog.guard.bash.words import (
    HOLE,
    Arg,
    holds_subscript_code,
    is_process,
    is_stdin,
    resolve_words,
    text_of,
    with_holes,
)
from shiftlog.guard.policy import tables
from shiftlog.guard.policy.found import Danger, Position, When
from shiftlog.guard.policy.lists import DeniedNames
from shiftlog.guard.policy.options import NAME_VALUE
from shiftlog.guard.policy.tools import option_values

ARITHMETIC_TESTS = frozenset("-eq -ne -lt -le -gt -ge".split())
NAME_BUILTINS = frozenset("unset read getopts wait let mapfile readarray".split())
#: Option letters of builtins that take a value: first those whose value is a variable name, then the others.
VALUED_OPTIONS = {"read": ("a", "dinNptu"), "mapfile": ("", "dnOsuCc"), "readarray": ("", "dnOsuCc"), "wait": ("p", "")}
COMPLETION_VALUES = "oAGWFCXPSV"
#: Variables through which this shell itself runs a program, so that a deny list would not see its name.
NAMING = frozenset("BASH_CMDS BASH_ALIASES BASH_ENV ENV".split())
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: The operators by which arithmetic assigns to the name before them; an array subscript counts as one.
SETS = re.compile(r"\s*(?:(?:<<|>>|[-+*/%&^|])?=(?!=)|\+\+|--|\[)")
#: The inside of `${…}` up to an assignment or offset; a leading `!` means an indirect name.
BRACED_SETTING = re.compile(r"(!?)([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?(:?=|:(?![-=?+]))?")


class Builtins(ABC):
    """The part of a survey that handles builtins and variables."""

    names: DeniedNames | None
    functions: dict[str, bool]
    removed: set[str]
    perhaps_removed: set[str]
    aliases: dict[str, str]
    assigned: list[tuple[str, str]]
    dangers: list[Danger]
    downloaded: set[str]
    values: Values
    passing: set[str]
    resets: set[str]
    shifts: set[str]
    function: str

    @abstractmethod
    def doubt(self, what: str, text: str, at: int, when: When) -> None: ...

    @abstractmethod
    def visit_text(self, arg: Arg, position: Position, *, data: bool = False) -> None: ...

    @abstractmethod
    def visit_expansions(self, text: str, at: int, position: Position) -> None: ...

    @abstractmethod
    def visit_argv(self, args: list[Arg], position: Position) -> None: ...

    @abstractmethod
    def visit_script(self, arg: Arg, position: Position) -> None: ...

    @abstractmethod
    def assigned_texts(self, value: Arg) -> Sequence[str | None]: ...

    @abstractmethod
    def may_have_ended(self, name: str) -> bool: ...

    def visit_builtin(self, name: str, args: list[Arg], position: Position) -> None:
        """Follow the programs that a builtin starts now or sets up for later."""
        inside = position._replace(via=(*position.via, name), depth=position.depth + 1, certain=False)
        match name:
            case "trap":
                rest = args[1:] if args and args[0].value == "--" else args
                if len(rest) > 1 and rest[0].value not in ("-", "-l", "-p", ""):
                    self.visit_text(rest[0], inside)
            case "alias":
                for arg in args:
                    self._define_alias(arg, inside)
            case "hash":
                for target in _clustered(args, "p"):
                    self.visit_argv([target], inside)
            case "jobs":
                for index, arg in enumerate(args[:-1]):
                    if arg.text.startswith("-") and "x" in arg.text:
                        self.visit_argv(args[index + 1 :], inside)
                        break
            case "mapfile" | "readarray":
                self._visit_names(name, args, inside, certain=position.certain)
                for text in option_values(args, ("-C",), "dnOsuCc"):
                    called = Arg(text.value, text.text + " " + HOLE, text.at, text.word)
                    self.visit_text(called, inside, data=text.value is not None)
            case "compgen" | "complete":
                for text in option_values(args, ("-C",), COMPLETION_VALUES):
                    self.visit_text(text, inside)
                for text in option_values(args, ("-W",), COMPLETION_VALUES):
                    self.visit_expansions(text.text, text.at, inside)
            case "bind":
                for text in option_values(args, ("-x",), "fqurm"):
                    value = text.text.partition(":")[2]
                    self.visit_text(Arg(value, value, text.at), inside)
            case "enable":
                self._visit_enable(args)
            case "fc":
                if not any(arg.text.startswith("-l") for arg in args):
                    self.doubt("a command from the history", "fc", position.at, "lists")
            case "source" | ".":
                self._visit_source(args, position._replace(via=(*position.via, name)))
            case "set":
                self._visit_set(args)
                self.resets.update(
                    {self.function} if any(arg.text[:1] not in "-+" or arg.text == "--" for arg in args) else ()
                )
            case "shift":
                self.shifts.add(self.function)
            case "shopt":
                if any("extdebug" in arg.text or HOLE in arg.text for arg in args):
                    self.values.open_all()  # a trap may skip commands
            case "printf":
                for target in option_values(args[:2], ("-v",)):
                    self._name_argument(target, inside)
                    self._doubt_name(target)
            case "test" | "[":
                self.test_arguments(args, inside, arithmetic=False)
            case _ if name in tables.DECLARATIONS:
                self._visit_declaration(name, args, inside, certain=position.certain and not self.may_have_ended(name))
            case _ if name in NAME_BUILTINS:
                self._visit_names(name, args, inside, certain=position.certain)
            case _:
                pass

    def _define_alias(self, arg: Arg, position: Position) -> None:
        name, equals, value = arg.text.partition("=")
        if HOLE in name:
            self.doubt("an alias whose name is not literal", arg.text, arg.at, "lists")
        elif equals:
            if HOLE in value:
                self.doubt(f"the alias '{name}'", arg.text, arg.at, "lists")
            self.visit_text(Arg(value, value, arg.at), position, data=True)
            self.aliases[name] = value

    def _visit_set(self, args: list[Arg]) -> None:
        """Doubt `set -k`, which turns arguments of every later command into variables."""
        before = ""
        for arg in args:
            names = before[:1] in ("-", "+") and before.endswith("o")
            if arg.text in ("--", "-") or (not arg.text.startswith(("-", "+", HOLE)) and not names):
                return
            if HOLE in arg.text or (arg.text == "keyword" if names else arg.text[0] == "-" and "k" in arg.text):
                self.doubt("arguments that count as variables", arg.text, arg.at, "lists")
            before = arg.text

    def _visit_enable(self, args: list[Arg]) -> None:
        for arg in args:
            option = arg.text.startswith("-")
            # For an unknown builtin bash looks for a file of that name.
            if arg.value is None or ("f" in arg.value if option else arg.value not in tables.BUILTINS):
                when = "always" if arg.value is not None else "lists"
                self.doubt("a builtin loaded from a file", arg.text, arg.at, when)

    def _visit_source(self, args: list[Arg], position: Position) -> None:
        rest = args[1:] if args and args[0].value == "--" else args
        if not rest:
            return
        if is_stdin(rest[0]):
            if position.stdin.kind == "text" and position.stdin.text is not None:
                self.visit_text(position.stdin.text, position)
            else:
                if position.stdin.download:
                    self.dangers.append(Danger(rest[0].at, position.via[:-1], "source"))
                self.doubt("what 'source' reads from its input", rest[0].text, rest[0].at, "lists")
            return
        self.visit_script(rest[0], position)
        if not is_process(rest[0]):
            self.values.open_all()

    def _visit_declaration(self, name: str, args: list[Arg], position: Position, *, certain: bool) -> None:
        for arg in args:
            if arg.text.startswith("-") and "n" in arg.text and name in ("declare", "typeset", "local"):
                # Assignments to one name change the other from then on, in later commands too.
                self.doubt("a name that stands for another variable", arg.text, arg.at, "lists")
            if arg.text.startswith(("-", "+")) and set(arg.text) & set("lucnA" + HOLE):
                self.values.open_all()  # an assignment may change what is assigned
        number = any(arg.text.startswith("-") and "i" in arg.text for arg in args)
        for arg in args:
            if arg.text.startswith(("-", "+")):
                continue
            if NAME_VALUE.match(arg.prefix):
                if number or arg.text.partition("=")[2].startswith("("):
                    self.visit_expansions(arg.text.partition("=")[2].replace(HOLE, ""), arg.at, position)
                if number:
                    self.set_by_arithmetic(arg.text.partition("=")[2], arg.at)
                self.set_from_argument(arg, position)
                if certain and NAME.fullmatch(arg.text.partition("=")[0]):
                    self.values.settled.add(arg.text.partition("=")[0])
            elif arg.value is None and not arg.glob:
                code = "$(" in arg.text or "`" in arg.text
                self.doubt("a variable whose name is not literal", arg.text, arg.at, "lists" if code else "allow")
                self.values.open_all()

    def _visit_names(self, name: str, args: list[Arg], position: Position, *, certain: bool) -> None:
        removed = self.removed if certain else self.perhaps_removed
        for arg in args:
            self._name_argument(arg, position)
            if position.stdin.download and name in ("read", "mapfile", "readarray"):
                self.downloaded.add(arg.text)
            if name == "unset":
                removed.update(self.functions if arg.value is None else (arg.value,))
            elif name == "let":
                self.set_by_arithmetic(arg.text, arg.at)
        for arg in _names_given(name, args):
            self._doubt_name(arg)

    def _name_argument(self, arg: Arg, position: Position) -> None:
        """Follow a variable name given to a builtin; bash expands its subscript a second time."""
        self.visit_expansions(arg.text.replace(HOLE, ""), arg.at, position)
        name, bracket, key = arg.text.partition("[")
        if bracket:
            self.set_by_arithmetic(key, arg.at)
        if HOLE not in name:
            self.set_elsewhere(name, arg.at)

    def _doubt_name(self, arg: Arg) -> None:
        if HOLE in arg.text.partition("[")[0]:
            self.values.open_all()
            self.doubt("a variable whose name is not literal", arg.text, arg.at, "allow")

    def doubt_hidden(self, text: str, at: int) -> None:
        """Doubt quoted text that arithmetic would run if a variable carries it there."""
        if holds_subscript_code(text):
            self.doubt("text that arithmetic would run", text, at, "text only")

    def set_by_expansion(self, part: Dyn, position: Position) -> None:
        """Follow the variables that an expansion sets: `${NAME:=value}`, `$((NAME=1))`, `${x[NAME=1]}`."""
        text, known = text_of(part.inner)
        if part.kind == "arith":
            self.set_by_arithmetic(text, position.at)
            return
        found = BRACED_SETTING.match(text)
        if found is None:
            return
        indirect, name, key, operator = found.groups("")
        value = text[found.end() :]
        self.set_by_arithmetic(key, position.at)
        if operator == ":":
            self.set_by_arithmetic(value, position.at)
        elif operator and indirect:
            self.doubt("a variable whose name is not literal", name, position.at, "allow")
        elif operator:
            downloaded = name in self.downloaded  # an existing value is kept
            word = BashWord(position.at, position.at, part.inner)
            self.set_variable(name, Arg(value if known else None, value, position.at, word), position)
            self.downloaded.update({name} if downloaded else ())

    def set_by_arithmetic(self, text: str, at: int) -> None:
        """Note the variables that an arithmetic expression sets."""
        for found in NAME.finditer(text):
            counted = text[max(0, found.start() - 99) : found.start()].rstrip().endswith(("++", "--"))
            if counted or SETS.match(text, found.end()):
                self.set_elsewhere(found.group(), at)

    def test_arguments(self, args: list[Arg], position: Position, *, arithmetic: bool) -> None:
        """Follow the operands of a test that bash evaluates as names or numbers."""
        for index, arg in enumerate(args):
            before = args[index - 1].value if index else ""
            after = args[index + 1].value if index + 1 < len(args) else ""
            if before in ("-v", "-R") or (arithmetic and (before in ARITHMETIC_TESTS or after in ARITHMETIC_TESTS)):
                self.visit_expansions(arg.text.replace(HOLE, ""), arg.at, position)
                if before not in ("-v", "-R"):
                    self.set_by_arithmetic(arg.text, arg.at)

    def set_elsewhere(self, name: str, at: int, values: Sequence[str | None] = (None,)) -> None:
        """Note a variable that a loop or builtin sets, mostly to an unknown value."""
        for value in values:
            self.values.add(name, value)
        self.values.add_array(name, None)
        if tables.LOOKUP.fullmatch(name):
            self.doubt(f"assigning {name}", name, at, "lists" if name in NAMING else "allow")
        elif name in tables.PROMPTS or name in tables.SHELL_TEXT_VARIABLES:
            self.doubt(f"the value of {name}", name, at, "lists")

    def set_from_argument(self, arg: Arg, position: Position) -> None:
        """Follow `NAME=value` given as an argument, to `export` or `env`."""
        name, _, value = arg.text.partition("=")
        plain, bracket, key = name.partition("[")
        if bracket:
            self.visit_expansions(key, arg.at, position)
        self.set_variable(plain, with_holes(value, arg.at, _after_name(arg.word)), position, key=key.rstrip("]"))

    def set_array(self, assign: Assign, position: Position) -> None:
        """Follow an array assignment, element by element."""
        for word in assign.elements:
            text, known = text_of(word.parts)
            key, _, value = text.partition("]=") if text.startswith("[") else ("", "", text)
            self.visit_expansions(key.replace(HOLE, ""), assign.start, position)
            self.set_by_arithmetic(key, assign.start)
            given = Arg(value if known else None, value, assign.start, word)
            self.set_variable(assign.name, given, position, key=key[1:], element=True)
        keyed = any(text_of(word.parts)[0].startswith("[") for word in assign.elements)
        self.values.add_array(assign.name.removesuffix("+"), None if keyed else resolve_words(assign.elements))

    def set_variable(self, name: str, value: Arg, position: Position, *, key: str = "", element: bool = False) -> None:
        """Follow an assignment: some values are run, others decide where programs are found."""
        for text in (None,) if key or name.endswith("+") else self.assigned_texts(value):
            self.values.add(name.removesuffix("+"), text)
        if not element:
            self.values.add_array(name.removesuffix("+"), None)
        if value.value is not None:
            self.assigned.append((name, value.value))
        name = name.removesuffix("+")
        if value.word and holds_download(value.word.parts):
            self.downloaded.add(name)
        else:
            self.downloaded.discard(name)
        if tables.LOOKUP.fullmatch(name) and position.surety == "sure":
            self._set_lookup(name, value, position, key)
        elif name in tables.PROMPTS:
            if value.value is None:
                self.doubt(f"the value of {name}", value.text, value.at, "lists")
            self.visit_expansions(value.text.replace(HOLE, ""), value.at, position)
        elif name in tables.SHELL_TEXT_VARIABLES:
            self.visit_text(value, position._replace(certain=False))
        elif name == "GIT_CONFIG_PARAMETERS":
            self.doubt(f"the value of {name}", value.text, value.at, "lists")
        elif name == "TAR_OPTIONS":
            text = Arg(value.value, "tar " + value.text, value.at)
            self.visit_text(text, position._replace(surety="setting"), data=True)
        elif name in tables.COMMAND_VARIABLES or name.startswith("GIT_CONFIG_VALUE"):
            text = value.text.lstrip("!") if name.startswith("GIT_CONFIG") else value.text
            text = text.lstrip("|-") if name.startswith("LESS") else text
            self.visit_text(Arg(value.value, text, value.at), position._replace(surety="setting"), data=True)
        elif self.names is not None and ("$(" in value.text or "`" in value.text) and value.value is not None:
            self.visit_expansions(value.text, value.at, position._replace(surety="stored"))

    def _set_lookup(self, name: str, value: Arg, position: Position, key: str) -> None:
        self.doubt(f"assigning {name}", f"{name}={value.text}", value.at, "allow")
        if name == "BASH_CMDS":
            self.visit_argv([value], position)
        elif name == "BASH_ALIASES":
            self._define_alias(Arg(None, f"{key or 'alias'}={value.text}", value.at), position)
        elif name.startswith("BASH_FUNC_"):
            self.visit_text(Arg(value.value, "shared_function " + value.text, value.at), position)
        elif name in ("BASH_ENV", "ENV"):
            self.visit_expansions(value.text.replace(HOLE, ""), value.at, position)
            if value.value != "":
                self.visit_script(value, position._replace(via=(*position.via, name)))


def _after_name(word: BashWord | None) -> BashWord | None:
    """Return the word of the value in `NAME=value`."""
    first = word.parts[0] if word is not None and word.parts else None
    if word is None or not isinstance(first, Lit) or "=" not in first.text:
        return word
    value = Lit(first.text.partition("=")[2], first.quoted)
    return BashWord(word.start, word.end, [*([value] if value.text else []), *word.parts[1:]])


def _names_given(name: str, args: list[Arg]) -> list[Arg]:
    """Return the arguments of a builtin that name variables."""
    if name in ("getopts", "let"):
        return args[1:2] if name == "getopts" else []
    naming, valued = VALUED_OPTIONS.get(name, ("", ""))
    named: list[Arg] = []
    rest = iter(args)
    for arg in rest:
        if not arg.text.startswith("-"):
            named += () if name == "wait" else (arg,)
            continue
        at = next((at for at, letter in enumerate(arg.text) if letter in naming + valued), 0)
        if at:
            attached = arg.text[at + 1 :]
            value = Arg(None, attached, arg.at) if attached else next(rest, None)
            named += (value,) if value is not None and arg.text[at] in naming else ()
    return named


def _clustered(args: list[Arg], letter: str) -> list[Arg]:
    """Return the values of a builtin's one-letter option, which may share a dash with others."""
    found: list[Arg] = []
    for index, arg in enumerate(args):
        head, given, value = arg.text.partition(letter)
        if not given or not head.startswith("-") or head.startswith("--"):
            continue
        if value:
            found.append(with_holes(value, arg.at))
        else:
            found.extend(args[index + 1 : index + 2])
    return found
