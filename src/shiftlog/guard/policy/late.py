"""Follows programs that variables and arguments of functions name, and checks code, where there is only the text.

A later command of the same text may change a variable or a function, so most of this is decided at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from shiftlog.guard.bash.tree import AndOr, Dyn, Lit, Node, Part, Redirect, Simple, TooMuch
from shiftlog.guard.bash.values import BRANCH, NAME, PLAIN, Values, array_name, assigned_text, parameter_name
from shiftlog.guard.bash.words import GLOB, HOLE, Arg, is_process, is_stdin, literal, resolve_words, show, text_of
from shiftlog.guard.policy import tables
from shiftlog.guard.policy.builtins import Builtins
from shiftlog.guard.policy.filters import filter_files, sed_runs
from shiftlog.guard.policy.found import Position, Start, Stdin
from shiftlog.guard.policy.tools import option_values, takes_stdin
from shiftlog.guard.policy.wrappers import unwrap

HARMLESS = re.compile(r"[\w./@+=~:,*?!()\[\]-]+", re.A)  # nothing here ends a command or starts an expansion
UNKNOWN_PLACE = "…"  # stands for a directory that the text does not tell
MAX_LATE = 400
MAX_ROUNDS = 4
CALLED_BY_BASH = frozenset(("command_not_found_handle", "shared_function"))


class Late(Builtins):
    """The part of a survey that waits for the end of the text."""

    late: list[Callable[[], None]]
    finders: set[str]
    defined_anywhere: set[str]  # also in other shells of the text
    calls: list[tuple[Values, list[Arg], Position]]
    followed: set[int]
    starts: list[Start]
    writes: dict[str, list[Arg | None]]  # all that is written to a file; None is unknown
    writes_something: bool
    writes_startup: bool  # a file that programs read by themselves
    written_data: str
    loops: bool

    def finish(self) -> None:
        """Decide what waited for the end, again as long as that finds new values or functions."""
        self._decide()
        for name in sorted(self.finders & self.defined_anywhere):  # a function of that name may print another program
            self.doubt(f"what '{name}' prints", name, 0, "lists")
        if self.names is not None:
            self._mark_unjudged()

    def _mark_unjudged(self) -> None:
        """Mark what runs code that no argument names: found on another PATH, or loaded by a variable or a file."""
        loads = self.writes_startup or any(map(tables.LOADING.fullmatch, self.values.known))
        made = {path.rsplit("/", 1)[-1] for path in self.writes}
        for start in self.starts:
            base = start.name.rsplit("/", 1)[-1]
            made |= {start.args[-1].text.rsplit("/", 1)[-1]} if start.args and base in tables.COPIERS else set()
            named = start.kind == "program" and "/" not in start.name and ("PATH" in self.values.known or base in made)
            copied = base in tables.COPIERS and any(tables.STARTUP_FILES.fullmatch(arg.text) for arg in start.args)
            start.unjudged = start.unjudged or loads or named or copied

    def _decide(self) -> None:
        for _ in range(MAX_ROUNDS):
            before = self._state()
            index = 0
            while index < len(self.late):  # deciding may add more
                self.late[index]()
                index += 1
                if index > MAX_LATE:
                    raise TooMuch(0, "naming programs by variables this often")
            self._follow_calls()
            if self._state() == before:
                return
        if self.late:
            raise TooMuch(0, "naming programs by variables this often")

    def _state(self) -> tuple[object, ...]:
        return dict(self.values.known), set(self.passing), set(self.resets), set(self.shifts), len(self.late)

    def _follow_calls(self) -> None:
        """Follow each call of a function that runs its arguments, once."""
        index = 0
        while index < len(self.calls):
            values, args, position = self.calls[index]
            if args[0].value in self.passing and index not in self.followed:
                self.followed.add(index)
                self._with(values, lambda args=args, position=position: self._follow_call(args, position))
                if len(self.followed) > MAX_LATE:
                    raise TooMuch(0, "calling functions this often")
            index += 1

    def _with(self, values: Values, visit: Callable[[], None]) -> None:
        kept, self.values = self.values, values
        visit()
        self.values = kept

    def _wait(self, decide: Callable[[], None]) -> None:
        values = self.values
        self.late.append(lambda: self._with(values, decide))

    def follow_named(self, args: list[Arg], position: Position, doubt: Callable[[], None]) -> bool:
        """Follow a program that a variable or `"$@"` names, at the end; False if the word is neither."""
        word = args[0].word
        parts = [part for part in (word.parts if word else ()) if part != Lit("", True)]
        dynamic = [part for part in parts if isinstance(part, Dyn)]
        if HOLE in "".join(part.text for part in parts if isinstance(part, Lit)) or self.names is None:
            return False
        if len(parts) == 1 and args[0].parameter == "@" and dynamic[0].quoted and self.function:
            return self._pass_on(args, position, doubt)
        if array_name(word):
            self._wait(lambda: self._follow_array(array_name(word), args, position, doubt))
            return True
        found = self._looked_up(dynamic[0]) if len(parts) == 1 and dynamic else []
        if found:
            self._wait(lambda: self._follow_texts(found, args, position, quoted=dynamic[0].quoted))
            return True
        if self._ends_in_a_name(parts):
            self._wait(lambda: self._follow_path(args, position, doubt))
            return True
        if not dynamic or not all(parameter_name(part) for part in dynamic):
            return False
        self._wait(lambda: self._follow_values(args, position, doubt))
        return True

    def assigned_texts(self, value: Arg) -> Sequence[str | None]:
        """Return the values that a variable may get; None stands for an unknown one."""
        parts = [part for part in (value.word.parts if value.word else ()) if part != Lit("", True)]
        part = parts[0] if len(parts) == 1 and value.value is None and value.text == HOLE else None
        if not isinstance(part, Dyn):
            return [assigned_text(value)]
        printed = NAME if self._prints_word(part) else BRANCH if self._prints(part, tables.BRANCHES) else None
        return self._looked_up(part) or [printed or assigned_text(value)]

    def _looked_up(self, part: Dyn) -> list[str]:
        """Return the programs that `command -v` and its like look for in a substitution, and "": there may be none."""
        script = part.script or []
        nodes = script[0].nodes if len(script) == 1 and isinstance(script[0], AndOr) else script
        found: list[str] = []
        for node in nodes:
            if not isinstance(node, Simple) or node.assigns or not all(map(_is_to_null, node.redirects)):
                return []
            words = [arg.value or HOLE for arg in resolve_words(node.words)]
            heads = [head for head in tables.FINDERS if tuple(words[:-1]) == head]
            if not heads or not PLAIN.fullmatch(words[-1]) or {words[0], words[-1]} & {*self.functions, *self.aliases}:
                return []
            found.append(words[-1])
            self.finders.add(words[0])
        return [*found, ""] if found else []

    @staticmethod
    def _ends_in_a_name(parts: list[Part]) -> bool:
        """Return True for one word that is a path below unknown places, and whose last component is literal."""
        steady = all(
            isinstance(part, Lit) or parameter_name(part).isidentifier() or (part.quoted and part.kind == "command")
            for part in parts
        )
        last = parts[-1] if parts else None
        is_open = any(isinstance(part, Dyn) or (not part.quoted and GLOB.search(part.text)) for part in parts)
        return steady and isinstance(last, Lit) and _last_name(parts) != "" and is_open

    def _follow_path(self, args: list[Arg], position: Position, doubt: Callable[[], None]) -> None:
        """Follow a program in an unknown directory by its name; the file itself is not read."""
        parts = [part for part in (args[0].word.parts if args[0].word else ()) if part != Lit("", True)]
        name = _last_name(parts)
        is_one = all(isinstance(part, Lit) or part.quoted or self._is_plain(part, unset=True) for part in parts)
        is_written = any(path.rsplit("/", 1)[-1] == name for path in self.writes)
        if self.values.texts(args[0].word):
            self._follow_values(args, position, doubt)
        elif not is_one or is_written or not PLAIN.fullmatch(name):
            doubt()
        else:
            self.doubt(f"the program '{show(args[0])}'", show(args[0]), args[0].at, "allow")
            first = len(self.starts)
            self.visit_argv([literal(f"{UNKNOWN_PLACE}/{name}", args[0].at), *args[1:]], position)
            self.starts[first].unjudged = True

    def _follow_values(self, args: list[Arg], position: Position, doubt: Callable[[], None]) -> None:
        texts = self.values.texts(args[0].word)
        if not texts or (self.names is not None and self.names.search(" ".join(texts))):
            doubt()
        else:
            parts = args[0].word.parts if args[0].word else []
            quoted = all(part.quoted for part in parts if isinstance(part, Dyn))
            self._follow_texts(texts, args, position, quoted=quoted)

    def _follow_texts(self, texts: list[str], args: list[Arg], position: Position, *, quoted: bool) -> None:
        """Follow each program that a word may be; in place of an empty word that is not quoted, the next one."""
        self.doubt(f"the program '{show(args[0])}'", show(args[0]), args[0].at, "allow")
        for text in texts:
            if text:
                self.visit_argv([literal(text, args[0].at), *args[1:]], position)
            elif args[1:] and not quoted:
                self.visit_argv(args[1:], position)

    def _follow_array(self, name: str, args: list[Arg], position: Position, doubt: Callable[[], None]) -> None:
        elements = self.values.arrays.get(name) if name in self.values.settled and not self.values.open else None
        if not elements or (self.names is not None and self.names.search(" ".join(each.text for each in elements))):
            doubt()
        else:
            self.doubt(f"the program '{show(args[0])}'", show(args[0]), args[0].at, "allow")
            self.visit_argv([*elements, *args[1:]], position)

    def follow_scripts(self, arg: Arg, position: Position) -> None:
        """Note the scripts that a variable names; it may hold another name, too."""

        def note() -> None:
            for text in filter(None, self.values.texts(arg.word)):
                self.starts.append(Start(text, [], arg.at, position.via, "script", position.surety))

        if self.names is not None:
            self._wait(note)

    def _pass_on(self, args: list[Arg], position: Position, doubt: Callable[[], None]) -> bool:
        """Note a function that runs its arguments; its callers name the program."""
        function = self.function
        if function in CALLED_BY_BASH:
            return False
        self.passing.add(function)
        self.doubt(f"the program \"$@\" of '{function}'", "$@", args[0].at, "allow")
        self._wait(lambda: doubt() if function in self.resets else None)
        return True

    def _follow_call(self, args: list[Arg], position: Position) -> None:
        """Follow the arguments of a function that runs them; after a `shift` any of them may be the program."""
        name = args[0].value or ""
        if name in self.passing:
            last = len(args) if name in self.shifts else 2
            for first in range(1, min(last, len(args))):
                self.visit_argv(args[first:], position._replace(via=(*position.via, name)))

    def doubt_unless_plain(self, arg: Arg, doubt: Callable[[], None], *, unset: bool) -> None:
        """Doubt an argument at the end, unless its unknown parts are variables with plain values."""
        parts = arg.word.parts if arg.word else []
        dynamic = [part for part in parts if isinstance(part, Dyn)]
        if self.names is None or not dynamic or len(dynamic) != arg.text.count(HOLE):
            doubt()
        else:
            self._wait(lambda: None if all(self._is_plain(part, unset=unset) for part in dynamic) else doubt())

    def _is_plain(self, part: Dyn, *, unset: bool) -> bool:
        known = self.values.is_plain(part, unset=unset) or self._prints_word(part)
        return known or (unset and self._prints(part, tables.PLACES))

    def sets_environment(self, arg: Arg) -> bool:
        """Return True for what tools such as `ssh-agent` print for `eval`."""
        parts = [
            part for part in (arg.word.parts if arg.word else ()) if not isinstance(part, Lit) or part.text.strip()
        ]
        steady = all(values is not None for values in self.values.known.values())
        part = parts[0] if steady and len(parts) == 1 else None
        return isinstance(part, Dyn) and (self._prints(part, tables.PRINTERS) or self._prints_hook(part))

    def _prints_hook(self, part: Dyn) -> bool:
        """Return True for `tool init bash` and its like, if the tool is not one that prints files or its arguments."""
        words = self._printing(part)
        base = words[0].rsplit("/", 1)[-1] if words else ""
        prints_any = base in tables.TEXT_TOOLS or tables.INTERPRETERS.fullmatch(base) or unwrap(base, []) is not None
        return len(words) == 3 and words[1] in tables.HOOKS and words[2] in tables.SHELLS and not prints_any

    def _prints(self, part: Dyn, known: frozenset[tuple[str, ...]]) -> bool:
        """Return True if a substitution is one of these commands, by literal words."""
        words = self._printing(part)
        whole = known is not tables.PRINTERS
        return all(HARMLESS.fullmatch(word) for word in words) and any(
            tuple(words if whole else words[: len(head)]) == head for head in known
        )

    def _prints_word(self, part: Dyn) -> bool:
        """Return True if a substitution prints one plain word without a dash before it, or nothing."""
        words = self._printing(part)
        if words[:1] == ["date"]:
            formats = [word for word in words if word.startswith("+")]
            return len(formats) == 1 and tables.DATE_FORMAT.fullmatch(formats[0]) is not None
        if words[:1] in (["dirname"], ["basename"]) and len(words) == 2:
            return PLAIN.fullmatch(words[1].replace("{}", "")) is not None and "/-" not in words[1]
        return self._prints(part, tables.ONE_WORD)

    def _printing(self, part: Dyn) -> list[str]:
        """Return the literal words of the one command in a substitution; nothing if they may mean another program."""
        script = part.script or []
        node = script[0] if len(script) == 1 else None
        if not isinstance(node, Simple) or node.assigns or node.redirects or not node.words:
            return []
        words = [arg.value for arg in resolve_words(node.words)]
        literals = [word for word in words if word]
        if len(literals) < len(words) or literals[0] in self.functions or literals[0] in self.aliases:
            return []
        return literals

    def as_one_word(self, arg: Arg) -> Arg:
        """Return an argument that stays one word, because all that it substitutes is one."""
        parts = arg.word.parts if arg.word and arg.splits and not arg.glob else []
        printed = [self._prints_word(part) for part in parts if isinstance(part, Dyn)]
        literal_too = any(isinstance(part, Lit) and part.text for part in parts)
        return replace(arg, splits=False) if printed and all(printed) and literal_too else arg

    def prints_branch(self, arg: Arg) -> bool:
        """Return True if an argument is the name of a git branch, which is no option."""
        parts = [part for part in (arg.word.parts if arg.word else ()) if part != Lit("", True)]
        return len(parts) == 1 and isinstance(parts[0], Dyn) and self._prints(parts[0], tables.BRANCHES)

    def printed_text(self, stage: Node) -> Arg | None:
        """Return the text that a stage of a pipe prints, if it is an `echo` of literal words."""
        if not isinstance(stage, Simple) or stage.assigns or stage.redirects or not stage.words:
            return None
        name, *given = [arg.value for arg in resolve_words(stage.words)] or [None]
        text = " ".join(word for word in given if word is not None)
        plain = None not in given and "\\" not in text and not text.startswith("-")
        if name != "echo" or not plain or name in self.defined_anywhere | {*self.functions, *self.aliases}:
            return None
        return literal(text, stage.start)

    def lists_files(self, first: int, stdin: Stdin) -> bool:
        """Return True if a stage of a pipe, whose starts begin at `first`, prints names of files."""
        starts = self.starts[first:]
        known = (
            tables.LISTERS if stdin.kind != "pipe" else tables.LINE_FILTERS if stdin.file_names else frozenset[str]()
        )
        harmless = all(HARMLESS.fullmatch(arg.text) or not arg.text for start in starts for arg in start.args)
        return bool(starts) and harmless and all(start.name in known for start in starts)

    def is_quiet(self) -> bool:
        """Return True if the command so far makes no file."""
        return all(start.name.rsplit("/", 1)[-1] in tables.QUIET for start in self.starts)

    def _doubt_text(self, arg: Arg, position: Position) -> None:
        """Doubt text with unknown parts, unless those are plain values, names of files or settings of a known tool."""

        def doubt() -> None:
            self.doubt("text that is put together when it runs", show(arg), arg.at, "lists")

        known = not any(isinstance(part, Dyn) for part in (arg.word.parts if arg.word else ()))
        if not self.starts or self.names is None:
            doubt()
        elif position.file_names and known and arg.text.strip() != HOLE:
            self.starts[-1].unjudged = True
            if self.writes_something or self.loops or not self.is_quiet():
                doubt()
        elif position.via[-1:] == ("eval",) and self.sets_environment(arg):
            self.starts[-1].unjudged = True
        elif arg.text.strip() == HOLE:
            doubt()
        else:
            self.doubt_unless_plain(arg, doubt, unset=False)

    def _doubt_named_data(self, runner: str, args: list[Arg], at: int) -> None:
        """Doubt a program that may run what was written before; its arguments may complete a denied command."""
        if self.written_data:
            told = " ".join((self.written_data, *(arg.text for arg in args)))
            self._doubt_named(told, f"what '{runner}' runs from files with", at)

    def _doubt_written_code(self, base: str, args: list[Arg], at: int) -> None:
        """Doubt a program file or module that this same command writes, with a denied name in what it wrote."""
        written = {path.removeprefix("./") for path in self.writes}
        given = {arg.text.removeprefix("./") for arg in args}
        if written & (given | {f"{name}.py" for name in given}):
            self._doubt_named_data(base, args, at)

    def _doubt_named(self, code: str, what: str, at: int) -> None:
        named = self.names.search(code) if self.names is not None else None
        if named is not None:
            self.doubt(f"{what} '{named}'", named, at, "text only")

    def _wrote(self, path: str, content: Arg | None) -> None:
        self.writes.setdefault(path, []).append(content)

    def _visit_written(self, arg: Arg, position: Position) -> None:
        """Visit a script that this same command writes, as far as its content is known."""
        name = (arg.value or "").removeprefix("./")
        contents = [each for path, listed in self.writes.items() if path.removeprefix("./") == name for each in listed]
        texts = [content.value for content in contents if content is not None and content.value is not None]
        if len(texts) < len(contents):
            self.doubt(f"the script '{name}', which this command writes", name, arg.at, "text only")
        elif self.names is not None:
            for text in dict.fromkeys((*texts, "".join(texts))):  # not each need be written
                self.visit_text(literal(text, arg.at), position._replace(surety="stored"))

    def _visit_opaque(self, name: str, base: str, args: list[Arg], position: Position) -> None:
        """Check programs that run files or code; only needed if nothing but the text is checked."""
        at = args[0].at
        self._visit_written(Arg(name, name, at), position)
        if "/" in name or base in tables.RUNNERS:
            self._doubt_named_data(base, args, at)
        if base in tables.READS_COMMANDS and position.stdin.kind == "text" and position.stdin.text is not None:
            self._doubt_named(position.stdin.text.text, f"what '{base}' reads with", at)
        if any(is_process(value) for value in option_values(args, tables.CODE_OPTIONS.get(base, ()))):
            self.doubt(f"what '{base}' reads from a substitution", base, at, "text only")
        if tables.INTERPRETERS.fullmatch(base):
            self._doubt_written_code(base, args[1:], at)
            self._visit_code(base, args[1:], at, position)

    def _visit_code(self, base: str, args: list[Arg], at: int, position: Position) -> None:
        stdin = position.stdin
        code = " ".join(arg.text for arg in args)
        if stdin.kind == "text" and stdin.text is not None:
            code += "\n" + stdin.text.text
        operands = [arg for arg in args if not arg.text.startswith("-")]
        processes = [arg for arg in operands if is_process(arg)]
        reads = tables.READS_CODE.fullmatch(base) or _reads_script(base, args)
        if reads and (processes or (stdin.kind == "pipe" and (base in tables.FILTERS or takes_stdin(base, args)))):
            self.doubt(f"what '{base}' reads from a pipe", base, at, "text only")
        elif reads and stdin.kind == "file":
            self.starts[-1].code = stdin.text
        elif base in tables.TERMINALS or (reads and base in tables.SEDS):
            self._doubt_named(code, f"code for '{base}' with", at)
        elif base in tables.SEDS and sed_runs(args):
            self.doubt("what 'sed' runs", base, at, "text only")
        elif base in tables.MAKES:
            told = [value.text for value in option_values(args, ("-E", "--eval"))]
            settings = [arg.text for arg in args if "=" in arg.text and not arg.text.startswith("-")]
            self._doubt_named("\n".join((*told, *settings)).replace("=", "= "), f"code for '{base}' with", at)
        elif base not in tables.SEDS and tables.STARTING.search(code):
            self._doubt_named(code, f"code for '{base}' with", at)


def _reads_script(base: str, args: list[Arg]) -> bool:
    """Return True if `sed` or `awk` reads its program from the standard input."""
    files = filter_files(base, args) if base in tables.FILTERS else []
    return any(name == "-" or is_stdin(literal(name, 0)) for name in files)


def _last_name(parts: list[Part]) -> str:
    """Return the literal text after the last slash of a word; empty if an unknown part may be in it."""
    text, _ = text_of(parts)
    _, slash, name = text.rpartition("/")
    return name if slash and HOLE not in name and not GLOB.search(name) else ""


def _is_to_null(redirect: Redirect) -> bool:
    target = redirect.target.bare if redirect.target is not None else None
    return redirect.op in (">", "&>", ">>") and target == "/dev/null"
