"""Visits every simple command of a tree, wherever it hides, and collects the programs that would start.

What builtins and settings do is in `builtins`; which of the programs may run is decided in `judge`.
"""

from __future__ import annotations

import re
from posixpath import normpath

from shiftlog.guard.bash.faults import Fault, TooMuch
from shiftlog.guard.bash.grammar import Parser
from shiftlog.guard.bash.reader import Work
from shiftlog.guard.bash.syntax import read_text
from shiftlog.guard.bash.tree import (
    Assign,
    Choice,
    Compound,
    Dyn,
    Function,
    Node,
    Part,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Word,
)
from shiftlog.guard.bash.words import HOLE, Arg, is_process, is_stdin, resolve_word, resolve_words, show, text_of
from shiftlog.guard.policy.builtins import Builtins
from shiftlog.guard.policy.found import Danger, Doubt, Known, Place, Start, Stdin, When
from shiftlog.guard.policy.sed import sed_runs
from shiftlog.guard.policy.tables import (
    BUILTINS,
    DESCRIPTOR,
    DOWNLOADERS,
    INTERPRETERS,
    LOOKUPS,
    READS_CODE,
    RUNNERS,
    STARTING,
)
from shiftlog.guard.policy.tools import downloads_to, tool_commands
from shiftlog.guard.policy.wrappers import Unwrapped, unwrap

MAX_NESTED_TEXTS = 24
PASSING_OVER = frozenset(("command", "builtin"))
IN_THIS_SHELL = frozenset(("command", "builtin", "eval"))
WRITING = frozenset("> >> >| &> &>> >&".split())


class Survey(Builtins):
    """The findings about one command; `names` are the programs that code may not name where text alone is checked."""

    def __init__(self, known: Known, *, work: Work, names: re.Pattern[str] | None = None) -> None:
        self.known = known
        self.work = work
        self.names = names
        self.starts: list[Start] = []
        self.doubts: list[Doubt] = []
        self.dangers: list[Danger] = []
        self.functions: dict[str, bool] = dict.fromkeys(known.functions, True)
        self.defined: set[str] = set()
        self.first: set[str] = set()
        self.removed: set[str] = set()
        self.perhaps_removed: set[str] = set()
        self.aliases: dict[str, str] = dict(known.aliases)
        self.assigned: list[tuple[str, str]] = []
        self.writes: dict[str, Arg | None] = {}
        self.reads: list[Arg] = []
        self.writes_something = False
        self.named_data = ""
        self.downloaded: set[str] = set()
        self._leading = True  # nothing came yet but definitions, so that nothing can have kept them from being made
        self._returned = False

    def doubt(self, what: str, text: str, at: int, when: When) -> None:
        """Note what the text leaves open."""
        self.doubts.append(Doubt(what, text.replace(HOLE, "…"), at, when))

    def walk(self, script: Script, place: Place) -> None:
        """Visit the commands of a script in text order."""
        for node in script:
            self._visit(node, place)

    def _visit(self, node: Node, place: Place) -> None:
        self._leading = self._leading and isinstance(node, Function)
        if isinstance(node, Simple):
            self._visit_simple(node, place)
        elif isinstance(node, Pipeline):
            self._visit_pipeline(node, place)
        elif isinstance(node, Choice):
            self._visit(node.nodes[0], place)
            for each in node.nodes[1:]:
                self._visit(each, place._replace(certain=False))
        elif isinstance(node, Function):
            self._visit_definition(node, place)
        else:
            self._visit_compound(node, place)

    def _visit_definition(self, node: Function, place: Place) -> None:
        leading, returned = self._leading, self._returned
        sure = place.certain and not returned
        self.functions[node.name] = self.functions.get(node.name, False) or sure
        self.defined.add(node.name)
        if sure:
            self.removed.discard(node.name)
            self.first.update({node.name} if leading else ())
        self._visit(node.body, place._replace(certain=False, stdin=Stdin(), body=True))
        self._leading, self._returned = leading, returned

    def _visit_pipeline(self, node: Pipeline, place: Place) -> None:
        stdin = place.stdin
        for stage in node.stages:
            first = len(self.starts)
            self._visit(stage, place._replace(stdin=stdin, certain=False))
            stdin = Stdin("pipe", stdin.download or self._downloads_since(first))

    def _downloads_since(self, first: int) -> bool:
        return any(start.name.rsplit("/", 1)[-1] in DOWNLOADERS for start in self.starts[first:])

    def _visit_compound(self, node: Compound, place: Place) -> None:
        place = place._replace(at=node.start)
        for word in node.words:
            self.visit_parts(word.parts, place)
        if node.kind == "test":
            self.test_arguments([arg for word in node.words for arg in resolve_word(word)], place, arithmetic=True)
        if node.variable:
            self.set_elsewhere(node.variable, node.start)
            for word in node.words:
                self.doubt_hidden(text_of(word.parts)[0], word.start)
        stdin = self._visit_redirects(node.redirects, place, "")
        inside = place._replace(stdin=stdin, certain=place.certain and node.kind == "group" and not node.redirects)
        for body in node.bodies:
            self.walk(body, inside)

    def visit_parts(self, parts: list[Part], place: Place, program: str = "") -> None:
        """Visit the scripts nested in the parts of a word."""
        for part in parts:
            if not isinstance(part, Dyn):
                continue
            if part.kind == "prompt":
                self.doubt("a value expanded like a prompt", "@P", place.at, "lists")
            if part.script is not None:
                first = len(self.starts)
                stdin = place.stdin
                if part.kind == "process" and part.name == ">":
                    stdin = Stdin("pipe", stdin.download or program.rsplit("/", 1)[-1] in DOWNLOADERS)
                self.walk(part.script, place._replace(certain=False, substituted=True, stdin=stdin))
                part.download = self._downloads_since(first)
            if part.inner:
                self.visit_parts(part.inner, place)
                part.download = part.download or any(isinstance(each, Dyn) and each.download for each in part.inner)
                if part.kind in ("arith", "param"):
                    self.set_by_expansion(part, place)

    def _visit_simple(self, node: Simple, place: Place) -> None:
        program = node.words[0].bare or "" if node.words else ""
        place = place._replace(at=node.start)
        for assign in node.assigns:
            self._visit_assign(assign, place)
        for word in node.words:
            if word.bare is None:
                self.visit_parts(word.parts, place, program)
                if program in BUILTINS or program in self.functions:
                    self.doubt_hidden(text_of(word.parts)[0], word.start)
        args = resolve_words(node.words)
        if node.redirects:
            place = place._replace(stdin=self._visit_redirects(node.redirects, place, program))
            if self.names is not None:
                self._note_named_data(args, node.redirects, place.stdin)
        if args:
            self.visit_argv(args, place)

    def _visit_assign(self, assign: Assign, place: Place) -> None:
        self.visit_parts(assign.subscript, place)
        self.set_by_arithmetic(text_of(assign.subscript)[0], assign.start)
        if "'" in assign.key:
            # Bash reads a subscript twice, so quotes keep nothing in it from being run.
            self.visit_expansions(assign.key, assign.start, place)
        for word in assign.elements:
            self.visit_parts(word.parts, place)
            self.doubt_hidden(text_of(word.parts)[0], word.start)
        if assign.value is None:
            self.set_array(assign, place)
            return
        self.visit_parts(assign.value.parts, place)
        text, known = text_of(assign.value.parts)
        self.doubt_hidden(text, assign.start)
        self.set_variable(
            assign.name, Arg(text if known else None, text, assign.start, assign.value), place, key=assign.key
        )

    def _visit_redirects(self, redirects: list[Redirect], place: Place, program: str) -> Stdin:
        stdin = place.stdin
        content: Arg | None = None
        for redirect in redirects:
            target = redirect.target
            if redirect.fd.startswith("{"):
                self.set_elsewhere(redirect.fd[1:-1].partition("[")[0], redirect.start)
            if redirect.body is not None:
                self.visit_parts(redirect.body, place)
                text, known = text_of(redirect.body)
                body = Arg(
                    text if known else None, text, redirect.start, Word(redirect.start, redirect.start, redirect.body)
                )
                content = body
                self.doubt_read(text, program, redirect.start)
                if redirect.fd in ("", "0"):
                    stdin = Stdin("text", text=body)
                continue
            if target is None:
                continue
            self.visit_parts(target.parts, place, program)
            if redirect.op == "<<<":
                text, known = text_of(target.parts)
                content = Arg(text if known else None, text, redirect.start, target)
                self.doubt_read(text, program, redirect.start)
                if redirect.fd in ("", "0"):
                    stdin = Stdin("text", text=content)
            elif redirect.op in ("<", "<>", "<&"):
                stdin = self._input_from(redirect, target, stdin)
            if redirect.op in WRITING or redirect.op == "<>":
                self._note_write(redirect, target, content, program)
        if content is not None and program == "cat":
            for redirect in redirects:
                path = redirect.target.bare if redirect.target is not None else None
                if path is not None and path in self.writes:
                    self.writes[path] = content
        return stdin

    def _note_named_data(self, args: list[Arg], redirects: list[Redirect], stdin: Stdin) -> None:
        """Remember that a denied program's name was put into a file or fed to a program that may."""
        data = stdin.text.text if stdin.kind == "text" and stdin.text is not None else ""
        if any(redirect.op in WRITING for redirect in redirects):
            data += " ".join(arg.text for arg in args[1:])
        named = self.names.search(data) if self.names is not None and data else None
        if named is not None:
            self.named_data = named.group()

    def _doubt_named_data(self, runner: str, at: int) -> None:
        if self.named_data:
            self.doubt(f"what '{runner}' runs, with '{self.named_data}' written before", runner, at, "text only")

    def _input_from(self, redirect: Redirect, target: Word, stdin: Stdin) -> Stdin:
        arg = resolve_word(target)[0]
        self.reads.append(arg)
        if redirect.fd not in ("", "0"):
            return stdin
        if redirect.op == "<&":
            return Stdin("pipe")
        if arg.value == "/dev/null":
            return Stdin("null")
        processes = [part for part in target.parts if isinstance(part, Dyn) and part.kind == "process"]
        if processes:
            return Stdin("pipe", any(part.download for part in processes))
        return Stdin("file", text=arg)

    def _note_write(self, redirect: Redirect, target: Word, content: Arg | None, program: str) -> None:
        arg = resolve_word(target)[0]
        if redirect.op == ">&" and (arg.text.rstrip("-").isdecimal() or arg.text == "-"):
            # What an earlier command opened under another number may be a file.
            self.writes_something = self.writes_something or arg.text.rstrip("-") not in ("", "0", "1", "2")
            return
        if arg.value in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"):
            return
        self.writes_something = True
        if arg.value is not None:
            self.writes[arg.value] = content if program == "cat" else None

    def visit_argv(self, args: list[Arg], place: Place) -> None:
        """Follow one argument list to every program that it starts."""
        first = args[0]
        if place.depth > MAX_NESTED_TEXTS:
            raise TooMuch(first.at, "nesting this deep")
        name = first.value
        if name is None:
            self._doubt_program(first, place)
            return
        if not name:
            return
        base = name.rsplit("/", 1)[-1]
        if name in self.aliases and "/" not in name:
            self._expand_alias(name, args, place)
        kind = "program"
        if "/" not in name and not place.started:
            if self._is_function(name, place):
                kind = "function"
            elif name in BUILTINS:
                kind = "builtin"
        later = place.body and kind == "program" and not place.started and not place.via
        defined = kind == "function" and self.functions[name]
        self.starts.append(Start(name, args[1:], first.at, place.via, kind, place.surety, later, defined))
        self._returned = self._returned or (kind == "builtin" and name == "return")
        if kind != "program" and name in BUILTINS:
            self.visit_builtin(name, args[1:], place)
        if place.substituted and base in LOOKUPS and self.names is not None:
            self._doubt_named(" ".join(arg.text for arg in args[1:]), "where to find", first.at)
        if self.names is not None and kind == "program":
            self._visit_opaque(name, base, args, place)
        answer = unwrap(base, args[1:])
        if answer is not None:
            self._follow(base, answer, first.at, place)
        else:
            self._visit_tool(base, args[1:], first.at, place)

    def _is_function(self, name: str, place: Place) -> bool:
        """Say whether a name means a function here; `command` and `builtin` pass functions over."""
        known = name in self.functions and name not in self.removed and name not in self.perhaps_removed
        return known and not (place.via and place.via[-1] in PASSING_OVER)

    def _doubt_program(self, first: Arg, place: Place) -> None:
        parts = first.word.parts if first.word else []
        if any(isinstance(part, Dyn) and part.download for part in parts):
            self.dangers.append(Danger(first.at, place.via, "eval"))
        if place.surety == "sure":
            self.doubt(f"the program '{show(first)}'", show(first), first.at, "lists")

    def _expand_alias(self, name: str, args: list[Arg], place: Place) -> None:
        value = self.aliases.pop(name)
        rest = "".join(" " + _quoted(arg) for arg in args[1:])
        self.visit_text(Arg(value + rest, value + rest, args[0].at), place._replace(via=(*place.via, name)), data=True)
        self.aliases[name] = value

    def _follow(self, base: str, answer: Unwrapped, at: int, place: Place) -> None:
        here = base in IN_THIS_SHELL and not place.started
        inside = place._replace(
            via=(*place.via, base),
            depth=place.depth + 1,
            certain=place.certain and here,
            elsewhere=place.elsewhere or not here,
        )
        for setting in answer.settings:
            self.set_from_argument(setting, inside)
        if answer.hidden and place.surety == "sure":
            self.doubt(f"the program that '{base}' starts", base, at, "lists")
        for text in answer.texts:
            self.visit_text(text, inside, data=answer.holes_are_data)
        for argv in answer.argvs:
            self.visit_argv(argv, inside._replace(started=not here))
        for script in answer.scripts:
            self.visit_script(script, inside)
        if answer.reads_stdin:
            self._visit_stdin(base, at, inside)

    def _visit_stdin(self, base: str, at: int, place: Place) -> None:
        stdin = place.stdin
        if stdin.kind == "text" and stdin.text is not None:
            self.visit_text(stdin.text, place._replace(stdin=Stdin()))
        elif stdin.kind == "file" and stdin.text is not None:
            self.visit_script(stdin.text, place)
        elif stdin.kind != "null" and place.surety == "sure":
            if stdin.download:
                self.dangers.append(Danger(at, place.via[:-1], base))
            source = "a pipe" if stdin.kind == "pipe" else "its input"
            self.doubt(f"what '{base}' reads from {source}", base, at, "lists")

    def visit_text(self, arg: Arg, place: Place, *, data: bool = False) -> None:
        """Read an argument as shell text and visit it; with `data`, its unknown parts cannot be code."""
        parts = arg.word.parts if arg.word else []
        if any(isinstance(part, Dyn) and part.download for part in parts):
            self.dangers.append(Danger(arg.at, place.via[:-1], place.via[-1] if place.via else "eval"))
        elif arg.text.strip() == HOLE and self._is_downloaded(parts, place):
            self.dangers.append(Danger(arg.at, place.via[:-1], place.via[-1]))
        if HOLE in arg.text and not data and place.surety == "sure":
            self.doubt("text that is put together when it runs", show(arg), arg.at, "lists")
        if arg.text.strip() in ("", HOLE):
            return
        reading = read_text(arg.text, work=self.work, depth=place.depth, at=arg.at)
        inside = place._replace(depth=place.depth + 1, started=False)
        if place.elsewhere:
            self._walk_elsewhere(reading.script, inside._replace(elsewhere=False, certain=True, body=False))
        else:
            self.walk(reading.script, inside)
        if isinstance(reading.fault, TooMuch):
            raise reading.fault
        if reading.fault is not None and place.surety == "sure":
            self.doubt("shell text that cannot be read", arg.text, arg.at, "lists")

    def _walk_elsewhere(self, script: Script, place: Place) -> None:
        """Visit what another shell reads: it begins without functions, and its own end with it."""
        kept = self.functions, self.defined, self.first, self.removed, self.perhaps_removed
        progress = self._leading, self._returned
        self.functions, self.defined, self.first, self.removed, self.perhaps_removed = {}, set(), set(), set(), set()
        self._leading, self._returned = False, False
        self.walk(script, place)
        self.functions, self.defined, self.first, self.removed, self.perhaps_removed = kept
        self._leading, self._returned = progress

    def _is_downloaded(self, parts: list[Part], place: Place) -> bool:
        """Say whether a text of which nothing is known comes from a download, by a variable or by `xargs`."""
        named = any(isinstance(part, Dyn) and part.name in self.downloaded for part in parts)
        return bool(place.via) and (named or (place.stdin.download and "xargs" in place.via))

    def visit_script(self, arg: Arg, place: Place) -> None:
        """Note a script file that a shell reads."""
        processes = [
            part for part in (arg.word.parts if arg.word else []) if isinstance(part, Dyn) and part.kind == "process"
        ]
        shell = place.via[-1] if place.via else "source"
        if processes:
            if any(part.download for part in processes):
                self.dangers.append(Danger(arg.at, place.via[:-1], shell))
            self.doubt(f"what '{shell}' reads from a substitution", arg.text, arg.at, "lists")
            return
        if is_stdin(arg):
            return
        if DESCRIPTOR.match(normpath(arg.text)):
            self.doubt(f"what '{shell}' reads from a descriptor", arg.text, arg.at, "lists")
        self._doubt_named_data(shell, arg.at)
        if arg.value is not None:
            self.starts.append(Start(arg.value, [], arg.at, place.via, "script", place.surety))
            self._visit_written(arg, place)
        if place.surety == "sure":
            self.doubt(f"the script '{show(arg)}'", show(arg), arg.at, "allow")

    def _visit_written(self, arg: Arg, place: Place) -> None:
        """Judge a script that this very command writes, as far as its content is known."""
        name = (arg.value or "").removeprefix("./")
        for path, content in self.writes.items():
            if path.removeprefix("./") != name:
                continue
            if content is None or content.value is None:
                self.doubt(f"the script '{name}', which this command writes", name, arg.at, "text only")
            elif self.names is not None:
                self.visit_text(Arg(content.value, content.value, arg.at), place._replace(surety="stored"))

    def visit_expansions(self, text: str, at: int, place: Place) -> None:
        """Visit the substitutions in text that a builtin expands by itself."""
        if "$" not in text and "`" not in text:
            return
        parser = Parser(text, work=self.work, depth=place.depth, fixed=at)
        try:
            parts = parser.read_body(0, len(text))
        except TooMuch:
            raise
        except Fault:
            self.doubt("text that is expanded when it runs", text, at, "lists")
            return
        self.visit_parts(parts, place._replace(depth=place.depth + 1))

    def _visit_tool(self, base: str, args: list[Arg], at: int, place: Place) -> None:
        for text in tool_commands(base, args):
            inside = place._replace(via=(*place.via, base), depth=place.depth + 1, certain=False, elsewhere=True)
            self.visit_text(text, inside, data=True)
            if text.text.strip() == HOLE:
                self.doubt(f"the command that '{base}' is told to run", "", text.at, "lists")
        for arg in args if base == "git" else ():
            if arg.text.startswith("--exec-path="):
                self.doubt("where 'git' finds its programs", arg.text, arg.at, "allow")
        if base in ("tee", "sponge", "dd"):
            self.writes.update({arg.value.removeprefix("of="): None for arg in args if arg.value})
        elif base in DOWNLOADERS:
            self.writes.update(dict.fromkeys(downloads_to(base, args)))

    def _visit_opaque(self, name: str, base: str, args: list[Arg], place: Place) -> None:
        """Look, where text is all there is, at programs that run what they read: files of their own, code, recipes."""
        at = args[0].at
        if "/" in name:
            self._visit_written(Arg(name, name, at), place)
        if "/" in name or base in RUNNERS:
            self._doubt_named_data(base, at)
        if INTERPRETERS.fullmatch(base):
            self._visit_code(base, args[1:], at, place)

    def _visit_code(self, base: str, args: list[Arg], at: int, place: Place) -> None:
        stdin = place.stdin
        code = " ".join(arg.text for arg in args)
        if stdin.kind == "text" and stdin.text is not None:
            code += "\n" + stdin.text.text
        operands = [arg for arg in args if not arg.text.startswith("-")]
        processes = [arg for arg in operands if is_process(arg)]
        if READS_CODE.fullmatch(base) and (processes or (stdin.kind == "pipe" and not operands)):
            self.doubt(f"what '{base}' reads from a pipe", base, at, "text only")
        elif base in ("sed", "gsed") and sed_runs(args):
            self.doubt("what 'sed' runs", base, at, "text only")
        elif base not in ("sed", "gsed") and STARTING.search(code):
            self._doubt_named(code, f"code for '{base}' with", at)

    def _doubt_named(self, code: str, what: str, at: int) -> None:
        named = self.names.search(code) if self.names is not None else None
        if named is not None:
            self.doubt(f"{what} '{named.group()}'", named.group(), at, "text only")


def _quoted(arg: Arg) -> str:
    if arg.value is None:
        return HOLE
    return "'" + arg.value.replace("'", "'\\''") + "'"
