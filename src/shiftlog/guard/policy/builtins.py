"""What bash's own commands and variables can start: `trap`, `alias`, `hash -p`, `mapfile -C`, `PS4`, `BASH_ENV`, …"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from shiftlog.guard.bash.tree import Assign, Dyn, Word
from shiftlog.guard.bash.words import HOLE, Arg, holds_subscript_code, is_stdin, text_of
from shiftlog.guard.policy.found import Danger, Place, When
from shiftlog.guard.policy.options import NAME_VALUE
from shiftlog.guard.policy.tables import (
    BUILTINS,
    COMMAND_VARIABLES,
    DECLARATIONS,
    LOOKUP,
    PROMPTS,
    SHELL_TEXT_VARIABLES,
)
from shiftlog.guard.policy.tools import option_values

ARITHMETIC_TESTS = frozenset("-eq -ne -lt -le -gt -ge".split())
NAME_BUILTINS = frozenset("unset read getopts wait let mapfile readarray".split())
#: Letters of builtins' options that have a value, in front those whose value is a variable's name.
VALUED_OPTIONS = {"read": ("a", "dinNptu"), "mapfile": ("", "dnOsuCc"), "readarray": ("", "dnOsuCc"), "wait": ("p", "")}
COMPLETION_VALUES = "oAGWFCXPSV"
#: Variables that name or hold programs for this shell itself, so that a deny list does not see them start.
NAMING = frozenset("BASH_CMDS BASH_ALIASES BASH_ENV ENV".split())
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What makes arithmetic assign to the name before it; an element of an array counts as one.
SETS = re.compile(r"\s*(?:(?:<<|>>|[-+*/%&^|])?=(?!=)|\+\+|--|\[)")
#: The inside of `${…}` up to where it assigns a value or counts characters; a leading `!` names the name.
BRACED_SETTING = re.compile(r"(!?)([A-Za-z_][A-Za-z0-9_]*)(\[[^\]]*\])?(:?=|:(?![-=?+]))?")


class Builtins(ABC):
    """The half of a survey that knows the shell's own commands."""

    names: re.Pattern[str] | None
    functions: dict[str, bool]
    removed: set[str]
    perhaps_removed: set[str]
    aliases: dict[str, str]
    assigned: list[tuple[str, str]]
    dangers: list[Danger]
    downloaded: set[str]

    @abstractmethod
    def doubt(self, what: str, text: str, at: int, when: When) -> None: ...

    @abstractmethod
    def visit_text(self, arg: Arg, place: Place, *, data: bool = False) -> None: ...

    @abstractmethod
    def visit_expansions(self, text: str, at: int, place: Place) -> None: ...

    @abstractmethod
    def visit_argv(self, args: list[Arg], place: Place) -> None: ...

    @abstractmethod
    def visit_script(self, arg: Arg, place: Place) -> None: ...

    def visit_builtin(self, name: str, args: list[Arg], place: Place) -> None:
        """Follow what a builtin starts or will make the shell start later."""
        inside = place._replace(via=(*place.via, name), depth=place.depth + 1, certain=False)
        match name:
            case "trap":
                self._visit_trap(args, inside)
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
                self._visit_names(name, args, inside, certain=place.certain)
                for text in option_values(args, ("-C",), "dnOsuCc"):
                    self.visit_text(
                        Arg(text.value, text.text + " " + HOLE, text.at, text.word), inside, data=text.value is not None
                    )
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
                    self.doubt("a command from the history", "fc", place.at, "lists")
            case "source" | ".":
                self._visit_source(args, place._replace(via=(*place.via, name)))
            case "set":
                self._visit_set(args)
            case "printf":
                for target in option_values(args[:2], ("-v",)):
                    self._name_argument(target, inside)
                    self._doubt_name(target)
            case "test" | "[":
                self.test_arguments(args, inside, arithmetic=False)
            case _ if name in DECLARATIONS:
                self._visit_declaration(name, args, inside)
            case _ if name in NAME_BUILTINS:
                self._visit_names(name, args, inside, certain=place.certain)
            case _:
                pass

    def _visit_trap(self, args: list[Arg], place: Place) -> None:
        rest = args[1:] if args and args[0].value == "--" else args
        if len(rest) < 2 or rest[0].value in ("-", "-l", "-p", ""):
            return
        self.visit_text(rest[0], place)

    def _define_alias(self, arg: Arg, place: Place) -> None:
        name, equals, value = arg.text.partition("=")
        if HOLE in name:
            self.doubt("an alias whose name is not literal", arg.text, arg.at, "lists")
        elif equals:
            if HOLE in value:
                self.doubt(f"the alias '{name}'", arg.text, arg.at, "lists")
            self.visit_text(Arg(value, value, arg.at), place, data=True)
            self.aliases[name] = value

    def _visit_set(self, args: list[Arg]) -> None:
        """Doubt the option that makes variables of the arguments of every later command."""
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
            # Bash looks for a file of the name of a builtin that it does not have.
            if arg.value is None or ("f" in arg.value if option else arg.value not in BUILTINS):
                self.doubt(
                    "a builtin loaded from a file", arg.text, arg.at, "always" if arg.value is not None else "lists"
                )

    def _visit_source(self, args: list[Arg], place: Place) -> None:
        rest = args[1:] if args and args[0].value == "--" else args
        if not rest:
            return
        if is_stdin(rest[0]):
            if place.stdin.kind == "text" and place.stdin.text is not None:
                self.visit_text(place.stdin.text, place)
            else:
                if place.stdin.download:
                    self.dangers.append(Danger(rest[0].at, place.via[:-1], "source"))
                self.doubt("what 'source' reads from its input", rest[0].text, rest[0].at, "lists")
            return
        self.visit_script(rest[0], place)

    def _visit_declaration(self, name: str, args: list[Arg], place: Place) -> None:
        for arg in args:
            if arg.text.startswith("-") and "n" in arg.text and name in ("declare", "typeset", "local"):
                # What is assigned by the one name is the other's from then on, in later commands too.
                self.doubt("a name that stands for another variable", arg.text, arg.at, "lists")
        number = any(arg.text.startswith("-") and "i" in arg.text for arg in args)
        for arg in args:
            if arg.text.startswith(("-", "+")):
                continue
            if NAME_VALUE.match(arg.prefix):
                if number or arg.text.partition("=")[2].startswith("("):
                    self.visit_expansions(arg.text.partition("=")[2].replace(HOLE, ""), arg.at, place)
                if number:
                    self.set_by_arithmetic(arg.text.partition("=")[2], arg.at)
                self.set_from_argument(arg, place)
            elif arg.value is None and not arg.glob:
                self.doubt("a variable whose name is not literal", arg.text, arg.at, "allow")

    def _visit_names(self, name: str, args: list[Arg], place: Place, *, certain: bool) -> None:
        removed = self.removed if certain else self.perhaps_removed
        for arg in args:
            self._name_argument(arg, place)
            if place.stdin.download and name in ("read", "mapfile", "readarray"):
                self.downloaded.add(arg.text)
            if name == "unset":
                removed.update(self.functions if arg.value is None else (arg.value,))
            elif name == "let":
                self.set_by_arithmetic(arg.text, arg.at)
        for arg in _names_given(name, args):
            self._doubt_name(arg)

    def _name_argument(self, arg: Arg, place: Place) -> None:
        """Follow a variable's name given to a builtin: its subscript is expanded a second time."""
        self.visit_expansions(arg.text.replace(HOLE, ""), arg.at, place)
        name, bracket, key = arg.text.partition("[")
        if bracket:
            self.set_by_arithmetic(key, arg.at)
        self.set_elsewhere(name, arg.at)

    def _doubt_name(self, arg: Arg) -> None:
        if HOLE in arg.text.partition("[")[0]:
            self.doubt("a variable whose name is not literal", arg.text, arg.at, "allow")

    def doubt_hidden(self, text: str, at: int) -> None:
        """Doubt quoted text that arithmetic would run where a variable carries it there."""
        if holds_subscript_code(text):
            self.doubt("text that arithmetic would run", text, at, "text only")

    def doubt_read(self, text: str, program: str, at: int) -> None:
        """Doubt it also in a text that this shell itself reads from its input."""
        if not program or program in BUILTINS or program in self.functions:
            self.doubt_hidden(text, at)

    def set_by_expansion(self, part: Dyn, place: Place) -> None:
        """Follow what an expansion sets by itself: `${NAME:=value}`, `$((NAME=1))`, `${x[NAME=1]}`."""
        text, known = text_of(part.inner)
        if part.kind == "arith":
            self.set_by_arithmetic(text, place.at)
            return
        found = BRACED_SETTING.match(text)
        if found is None:
            return
        indirect, name, key, operator = found.groups("")
        value = text[found.end() :]
        self.set_by_arithmetic(key, place.at)
        if operator == ":":
            self.set_by_arithmetic(value, place.at)
        elif operator and indirect:
            self.doubt("a variable whose name is not literal", name, place.at, "allow")
        elif operator:
            downloaded = name in self.downloaded  # a variable that has a value keeps it
            word = Word(place.at, place.at, part.inner)
            self.set_variable(name, Arg(value if known else None, value, place.at, word), place)
            self.downloaded.update({name} if downloaded else ())

    def set_by_arithmetic(self, text: str, at: int) -> None:
        """Note the variables that an arithmetic expression sets."""
        for found in NAME.finditer(text):
            counted = text[max(0, found.start() - 99) : found.start()].rstrip().endswith(("++", "--"))
            if counted or SETS.match(text, found.end()):
                self.set_elsewhere(found.group(), at)

    def test_arguments(self, args: list[Arg], place: Place, *, arithmetic: bool) -> None:
        """Follow the operands of a test that bash evaluates as names or numbers."""
        for index, arg in enumerate(args):
            before = args[index - 1].value if index else ""
            after = args[index + 1].value if index + 1 < len(args) else ""
            if before in ("-v", "-R") or (arithmetic and (before in ARITHMETIC_TESTS or after in ARITHMETIC_TESTS)):
                self.visit_expansions(arg.text.replace(HOLE, ""), arg.at, place)
                if before not in ("-v", "-R"):
                    self.set_by_arithmetic(arg.text, arg.at)

    def set_elsewhere(self, name: str, at: int) -> None:
        """Note a variable that a loop or builtin sets to a value out of sight."""
        if LOOKUP.fullmatch(name):
            self.doubt(f"assigning {name}", name, at, "lists" if name in NAMING else "allow")
        elif name in PROMPTS or name in SHELL_TEXT_VARIABLES:
            self.doubt(f"the value of {name}", name, at, "lists")

    def set_from_argument(self, arg: Arg, place: Place) -> None:
        """Follow `NAME=value` given as an argument, to `export` or `env`."""
        name, _, value = arg.text.partition("=")
        plain, bracket, key = name.partition("[")
        if bracket:
            self.visit_expansions(key, arg.at, place)
        self.set_variable(
            plain, Arg(None if HOLE in value else value, value, arg.at, arg.word), place, key=key.rstrip("]")
        )

    def set_array(self, assign: Assign, place: Place) -> None:
        """Follow an array assignment: every element may be one of the dangerous settings."""
        for word in assign.elements:
            text, known = text_of(word.parts)
            key, _, value = text.partition("]=") if text.startswith("[") else ("", "", text)
            self.visit_expansions(key.replace(HOLE, ""), assign.start, place)
            self.set_by_arithmetic(key, assign.start)
            self.set_variable(assign.name, Arg(value if known else None, value, assign.start, word), place, key=key[1:])

    def set_variable(self, name: str, value: Arg, place: Place, *, key: str = "") -> None:
        """Follow an assignment: some values are run, some decide which programs are found."""
        if value.value is not None:
            self.assigned.append((name, value.value))
        name = name.removesuffix("+")
        if any(isinstance(part, Dyn) and part.download for part in (value.word.parts if value.word else ())):
            self.downloaded.add(name)
        else:
            self.downloaded.discard(name)
        if LOOKUP.fullmatch(name) and place.surety == "sure":
            self._set_lookup(name, value, place, key)
        elif name in PROMPTS:
            if value.value is None:
                self.doubt(f"the value of {name}", value.text, value.at, "lists")
            self.visit_expansions(value.text.replace(HOLE, ""), value.at, place)
        elif name in SHELL_TEXT_VARIABLES:
            self.visit_text(value, place._replace(certain=False))
        elif name == "GIT_CONFIG_PARAMETERS":
            self.doubt(f"the value of {name}", value.text, value.at, "lists")
        elif name == "TAR_OPTIONS":
            self.visit_text(
                Arg(value.value, "tar " + value.text, value.at), place._replace(surety="setting"), data=True
            )
        elif name in COMMAND_VARIABLES or name.startswith("GIT_CONFIG_VALUE"):
            text = value.text.lstrip("!") if name.startswith("GIT_CONFIG") else value.text
            text = text.lstrip("|-") if name.startswith("LESS") else text
            self.visit_text(Arg(value.value, text, value.at), place._replace(surety="setting"), data=True)
        elif self.names is not None and ("$(" in value.text or "`" in value.text) and value.value is not None:
            self.visit_expansions(value.text, value.at, place._replace(surety="stored"))

    def _set_lookup(self, name: str, value: Arg, place: Place, key: str) -> None:
        self.doubt(f"assigning {name}", f"{name}={value.text}", value.at, "allow")
        if name == "BASH_CMDS":
            self.visit_argv([value], place)
        elif name == "BASH_ALIASES":
            self._define_alias(Arg(None, f"{key or 'alias'}={value.text}", value.at), place)
        elif name.startswith("BASH_FUNC_"):
            self.visit_text(Arg(value.value, "shared_function " + value.text, value.at), place)
        elif name in ("BASH_ENV", "ENV"):
            self.visit_expansions(value.text.replace(HOLE, ""), value.at, place)
            if value.value != "":
                self.visit_script(value, place._replace(via=(*place.via, name)))


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
    """Return the values of a builtin's one-letter option, which may follow others behind one dash."""
    found: list[Arg] = []
    for index, arg in enumerate(args):
        head, given, value = arg.text.partition(letter)
        if not given or not head.startswith("-") or head.startswith("--"):
            continue
        if value:
            found.append(Arg(None if HOLE in value else value, value, arg.at))
        else:
            found.extend(args[index + 1 : index + 2])
    return found
