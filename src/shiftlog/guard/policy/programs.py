"""The survey: visits every simple command of a tree, at any depth, and collects the programs that would start.

`builtins` handles the shell's own commands and variables; `judge` decides which of the programs may run.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from posixpath import normpath

from shiftlog.guard.bash import tree
from shiftlog.guard.bash.script import read_expansions, read_script
from shiftlog.guard.bash.values import Values
from shiftlog.guard.bash.words import (
    HOLE,
    Arg,
    is_stdin,
    resolve_word,
    resolve_words,
    show,
    text_of,
    with_holes,
)
from shiftlog.guard.policy import tables
from shiftlog.guard.policy.finding import FIND_STARTS
from shiftlog.guard.policy.found import Danger, Definitions, Doubt, Position, Start, Stdin, Unwrapped, When
from shiftlog.guard.policy.late import Late
from shiftlog.guard.policy.lists import DeniedNames
from shiftlog.guard.policy.tools import downloads_to, local_command, tool_commands
from shiftlog.guard.policy.wrappers import unwrap

MAX_NESTED_TEXTS = 24
PASSING_OVER = frozenset(("command", "builtin"))  # they skip functions
IN_THIS_SHELL = frozenset(("command", "builtin", "eval"))
WRITING = frozenset("> >> >| &> &>> >&".split())


class Survey(Late):
    """The findings about one command; `names` matches denied programs in code if only the text is checked."""

    def __init__(self, definitions: Definitions, *, effort: tree.Effort, names: DeniedNames | None = None) -> None:
        self.effort = effort
        self.names = names
        self.starts: list[Start] = []
        self.doubts: list[Doubt] = []
        self.dangers: list[Danger] = []
        self.functions: dict[str, bool] = dict.fromkeys(definitions.functions, True)
        self.defined: set[str] = set()
        self.first: set[str] = set()
        self.removed: set[str] = set()
        self.perhaps_removed: set[str] = set()
        self.aliases: dict[str, str] = dict(definitions.aliases)
        self.assigned: list[tuple[str, str]] = []
        self.writes: dict[str, list[Arg | None]] = {}
        self.reads: list[Arg] = []
        self.writes_something = False
        self.writes_startup = False
        self.written_data = ""
        self.downloaded: set[str] = set()
        self.passing: set[str] = set(definitions.passing)
        self.shifts: set[str] = set(definitions.shifts)
        self.resets: set[str] = set()
        self.function = ""
        self.loops = False  # a part of the text may run twice
        self.values = Values(dict(definitions.values), set(definitions.settled))
        self.followed: set[int] = set()
        self.late: list[Callable[[], None]] = []
        self.finders: set[str] = set()
        self.defined_anywhere: set[str] = set()
        self.calls: list[tuple[Values, list[Arg], Position]] = []
        self._leading = True  # only definitions so far, so that they are certain to be made
        self._returned = False

    def doubt(self, what: str, text: str, at: int, when: When) -> None:
        """Note something that the text leaves open."""
        self.doubts.append(Doubt(what, text.replace(HOLE, "…"), at, when))

    def walk(self, script: tree.Script, position: Position) -> None:
        """Visit the commands of a script in text order."""
        for node in script:
            self._visit(node, position)

    def _visit(self, node: tree.Node, position: Position) -> None:
        self._leading = self._leading and isinstance(node, tree.Function)
        self.loops = self.loops or isinstance(node, tree.Function) or getattr(node, "kind", "") in ("for", "loop")
        if isinstance(node, tree.Simple):
            self._visit_simple(node, position)
        elif isinstance(node, tree.Pipeline):
            self._visit_pipeline(node, position)
        elif isinstance(node, tree.AndOr):
            self._visit(node.nodes[0], position)
            for each in node.nodes[1:]:
                self._visit(each, position._replace(certain=False))
        elif isinstance(node, tree.Function):
            self._visit_definition(node, position)
        else:
            self._visit_compound(node, position)

    def _visit_definition(self, node: tree.Function, position: Position) -> None:
        leading, returned = self._leading, self._returned
        sure = position.certain and not returned
        self.functions[node.name] = self.functions.get(node.name, False) or sure
        self.defined.add(node.name)
        self.defined_anywhere.add(node.name)
        if sure:
            self.removed.discard(node.name)
            self.first.update({node.name} if leading else ())
        outer, self.function = self.function, node.name
        self._visit(node.body, position._replace(certain=False, stdin=Stdin(), body=True))
        self._leading, self._returned, self.function = leading, returned, outer

    def _visit_pipeline(self, node: tree.Pipeline, position: Position) -> None:
        stdin = position.stdin
        for stage in node.stages:
            first = len(self.starts)
            self._visit(stage, position._replace(stdin=stdin, certain=False))
            listed = self.lists_files(first, stdin)
            printed = self.printed_text(stage)
            stdin = Stdin("pipe", stdin.download or self._downloads_since(first), file_names=listed)
            stdin = stdin if printed is None else Stdin("text", text=printed)

    def _downloads_since(self, first: int) -> bool:
        return any(start.name.rsplit("/", 1)[-1] in tables.DOWNLOADERS for start in self.starts[first:])

    def _visit_compound(self, node: tree.Compound, position: Position) -> None:
        position = position._replace(at=node.start)
        for word in node.words:
            self.visit_parts(word.parts, position)
        if node.kind == "test":
            self.test_arguments([arg for word in node.words for arg in resolve_word(word)], position, arithmetic=True)
        if node.variable:
            given = [arg.value for arg in resolve_words(node.words)] if node.kind == "for" else []
            self.set_elsewhere(node.variable, node.start, given or (None,))
            self.values.settled.update({node.variable} if given and position.certain else ())
            for word in node.words:
                self.doubt_hidden(text_of(word.parts)[0], word.start)
        stdin = self._visit_redirects(node.redirects, position, "")
        certain = position.certain and node.kind == "group" and not node.redirects
        inside = position._replace(stdin=stdin, certain=certain)
        for body in node.bodies:
            self.walk(body, inside)

    def visit_parts(self, parts: list[tree.Part], position: Position, program: str = "") -> None:
        """Visit the scripts nested in the parts of a word."""
        for part in parts:
            if not isinstance(part, tree.Dyn):
                continue
            if part.kind == "prompt":
                self.doubt("a value expanded like a prompt", "@P", position.at, "lists")
            if part.script is not None:
                first = len(self.starts)
                stdin = position.stdin
                if part.kind == "process" and part.name == ">":
                    stdin = Stdin("pipe", stdin.download or program.rsplit("/", 1)[-1] in tables.DOWNLOADERS)
                self.walk(part.script, position._replace(certain=False, substituted=True, stdin=stdin))
                part.download = self._downloads_since(first)
            if part.inner:
                self.visit_parts(part.inner, position)
                part.download = part.download or tree.holds_download(part.inner)
                if part.kind in ("arith", "param"):
                    self.set_by_expansion(part, position)

    def _visit_simple(self, node: tree.Simple, position: Position) -> None:
        program = node.words[0].bare or "" if node.words else ""
        position = position._replace(at=node.start)
        for assign in node.assigns:
            self._visit_assign(assign, position)
        if position.certain and not node.words and not node.redirects and not self._returned:
            self.values.settled.update(assign.name for assign in node.assigns if not assign.key and not assign.appends)
        for word in node.words:
            if word.bare is None:
                self.visit_parts(word.parts, position, program)
                if program in tables.BUILTINS or program in self.functions:
                    self.doubt_hidden(text_of(word.parts)[0], word.start)
        args = resolve_words(node.words)
        if node.redirects:
            stdin = self._visit_redirects(node.redirects, position, program)
            position = position._replace(stdin=stdin, certain=False)  # a redirection that fails stops the command
            if self.names is not None:
                self._note_named_data(args, node.redirects, position.stdin)
        if args:
            self.visit_argv(args, position)

    def _visit_assign(self, assign: tree.Assign, position: Position) -> None:
        self.visit_parts(assign.subscript, position)
        self.set_by_arithmetic(text_of(assign.subscript)[0], assign.start)
        if "'" in assign.key:
            # Bash reads a subscript twice, so quotes do not protect it.
            self.visit_expansions(assign.key, assign.start, position)
        for word in assign.elements:
            self.visit_parts(word.parts, position)
            self.doubt_hidden(text_of(word.parts)[0], word.start)
        if assign.value is None:
            self.set_array(assign, position)
            return
        self.visit_parts(assign.value.parts, position)
        text, known = text_of(assign.value.parts)
        self.doubt_hidden(text, assign.start)
        value = Arg(text if known else None, text, assign.start, assign.value)
        if assign.appends:
            self.values.add(assign.name, None)
        self.set_variable(assign.name, value, position, key=assign.key)

    def _visit_redirects(self, redirects: list[tree.Redirect], position: Position, program: str) -> Stdin:
        stdin = position.stdin
        content: Arg | None = None
        written: list[str] = []
        for redirect in redirects:
            target = redirect.target
            if redirect.fd.startswith("{"):
                self.set_elsewhere(redirect.fd[1:-1].partition("[")[0], redirect.start)
            if redirect.body is not None:
                target = tree.BashWord(redirect.start, redirect.start, redirect.body)
            if target is None:
                continue
            self.visit_parts(target.parts, position, program if redirect.body is None else "")
            if redirect.body is not None or redirect.op == "<<<":
                text, known = text_of(target.parts)
                content = Arg(text if known else None, text, redirect.start, target)
                if not program or program in tables.BUILTINS or program in self.functions:
                    self.doubt_hidden(text, redirect.start)
                if redirect.fd in ("", "0"):
                    stdin = Stdin("text", text=content)
            elif redirect.op in ("<", "<>", "<&"):
                stdin = self._input_from(redirect, target, stdin)
            if redirect.op in WRITING or redirect.op == "<>":
                written += self._note_write(redirect, target)
        for path in written:
            self._wrote(path, content if program == "cat" else None)
        return stdin

    def _note_named_data(self, args: list[Arg], redirects: list[tree.Redirect], stdin: Stdin) -> None:
        """Remember what was written to a file or to a program's input, because it may name a denied program."""
        data = stdin.text.text if stdin.kind == "text" and stdin.text is not None else ""
        if any(redirect.op in WRITING for redirect in redirects):
            data += " ".join(arg.text for arg in args[1:])
        self.written_data += "\n" + data if data else ""
        for redirect in redirects:
            path = text_of(redirect.target.parts)[0] if redirect.target is not None and redirect.op in WRITING else ""
            if tables.STARTUP_FILES.fullmatch(path):
                self.writes_startup = True
                self._doubt_named(self.written_data, f"what programs run from '{path}' with", redirect.start)

    def _input_from(self, redirect: tree.Redirect, target: tree.BashWord, stdin: Stdin) -> Stdin:
        arg = resolve_word(target)[0]
        self.reads.append(arg)
        if redirect.fd not in ("", "0"):
            return stdin
        if redirect.op == "<&":
            return Stdin("pipe")
        if arg.value == "/dev/null":
            return Stdin("null")
        processes = [part for part in target.parts if isinstance(part, tree.Dyn) and part.kind == "process"]
        if processes:
            return Stdin("pipe", any(part.download for part in processes))
        return Stdin("file", text=arg)

    def _note_write(self, redirect: tree.Redirect, target: tree.BashWord) -> list[str]:
        """Return the file that a redirection writes, if its name is literal."""
        arg = resolve_word(target)[0]
        if redirect.op == ">&" and (arg.text.rstrip("-").isdecimal() or arg.text == "-"):
            # An earlier command may have opened a file under another number.
            self.writes_something = self.writes_something or arg.text.rstrip("-") not in ("", "0", "1", "2")
            return []
        if arg.value in ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"):
            return []
        self.writes_something = True
        return [] if arg.value is None else [arg.value]

    def may_have_ended(self, name: str) -> bool:
        """Return True if a builtin may not run here: after a `return`, or because a function has its name."""
        return self._returned or name in self.functions

    def visit_argv(self, args: list[Arg], position: Position) -> None:
        """Follow one argument list to every program that it starts."""
        first = args[0]
        if position.depth > MAX_NESTED_TEXTS:
            raise tree.TooMuch(first.at, "nesting this deep")
        name = first.value
        if name is None:
            self._doubt_program(args, position)
            return
        if not name:
            return
        if self.names is not None:
            args = [first, *map(self.as_one_word, args[1:])]
            self.calls.append((self.values, args, position))
        base = name.rsplit("/", 1)[-1]
        if name in self.aliases and "/" not in name:
            self._expand_alias(name, args, position)
        kind = "program"
        if "/" not in name and not position.started:
            known = name in self.functions and name not in self.removed and name not in self.perhaps_removed
            if known and not (position.via and position.via[-1] in PASSING_OVER):
                kind = "function"
            elif name in tables.BUILTINS:
                kind = "builtin"
        later = position.body and kind == "program" and not position.started and not position.via
        defined = kind == "function" and self.functions[name]
        start = Start(name, args[1:], first.at, position.via, kind, position.surety, later, defined)
        start.values = self.values
        self.starts.append(start)
        self._returned = self._returned or (kind == "builtin" and name == "return")
        if kind != "program" and name in tables.BUILTINS:
            self.visit_builtin(name, args[1:], position)
        if position.substituted and base in tables.LOOKUPS and self.names is not None:
            self._doubt_named(" ".join(arg.text for arg in args[1:]), "where to find", first.at)
        if self.names is not None and kind == "program":
            self._visit_opaque(name, base, args, position)
        answer = unwrap(base, args[1:])
        if answer is not None:
            self._follow(base, answer, first.at, position)
        else:
            self._visit_tool(base, args[1:], first.at, position)

    def _doubt_program(self, args: list[Arg], position: Position) -> None:
        first = args[0]
        parts = first.word.parts if first.word else []
        if tree.holds_download(parts):
            self.dangers.append(Danger(first.at, position.via, "eval"))
        if position.surety != "sure":
            return

        def doubt() -> None:
            self.doubt(f"the program '{show(first)}'", show(first), first.at, "lists")

        if not self.follow_named(args, position, doubt):
            doubt()

    def _expand_alias(self, name: str, args: list[Arg], position: Position) -> None:
        value = self.aliases.pop(name)
        words = [HOLE if arg.value is None else "'" + arg.value.replace("'", "'\\''") + "'" for arg in args[1:]]
        text = " ".join([value, *words])
        self.visit_text(Arg(text, text, args[0].at), position._replace(via=(*position.via, name)), data=True)
        self.aliases[name] = value

    def _follow(self, base: str, answer: Unwrapped, at: int, position: Position) -> None:
        here = base in IN_THIS_SHELL and not position.started
        inside = position._replace(
            via=(*position.via, base),
            depth=position.depth + 1,
            certain=position.certain and here,
            elsewhere=position.elsewhere or not here,
            file_names=base == "find" or (base == "xargs" and position.stdin.file_names) or position.file_names,
        )
        for setting in answer.settings:
            self.set_from_argument(setting, inside)
        if base == "find" and any(argv[0].text.rsplit("/", 1)[-1] in tables.SHELLS for argv in answer.argvs):
            told = takewhile(lambda arg: arg.value not in FIND_STARTS, self.starts[-1].args)
            self._doubt_named(" ".join(arg.text for arg in told), "files for a shell named", at)
        if position.surety == "sure":

            def doubt() -> None:
                self.doubt(f"the program that '{base}' starts", base, at, "lists")

            for arg in answer.splitting:
                self.starts[-1].unjudged = True
                self.doubt_unless_plain(arg, doubt, unset=True)
            if answer.hidden:
                doubt()
        for text in answer.texts:
            self.visit_text(text, inside, data=answer.holes_are_data)
        for argv in answer.argvs:
            self.visit_argv(argv, inside._replace(started=not here))
        for script in answer.scripts:
            self.visit_script(script, inside)
        if answer.reads_stdin:
            self._visit_stdin(base, at, inside)

    def _visit_stdin(self, base: str, at: int, position: Position) -> None:
        stdin = position.stdin
        if stdin.kind == "text" and stdin.text is not None:
            self.visit_text(stdin.text, position._replace(stdin=Stdin()))
        elif stdin.kind == "file" and stdin.text is not None:
            self.visit_script(stdin.text, position)
        elif stdin.kind != "null" and position.surety == "sure":
            if stdin.download:
                self.dangers.append(Danger(at, position.via[:-1], base))
            source = "a pipe" if stdin.kind == "pipe" else "its input"
            self.doubt(f"what '{base}' reads from {source}", base, at, "lists")

    def visit_text(self, arg: Arg, position: Position, *, data: bool = False) -> None:
        """Read an argument as shell text and visit it; with `data`, its unknown parts cannot be code."""
        parts = arg.word.parts if arg.word else []
        if tree.holds_download(parts):
            self.dangers.append(Danger(arg.at, position.via[:-1], position.via[-1] if position.via else "eval"))
        elif arg.text.strip() == HOLE and position.via:
            named = any(isinstance(part, tree.Dyn) and part.name in self.downloaded for part in parts)
            if named or (position.stdin.download and "xargs" in position.via):
                self.dangers.append(Danger(arg.at, position.via[:-1], position.via[-1]))
        if HOLE in arg.text and not data and position.surety == "sure":
            self._doubt_text(arg, position)
        if arg.text.strip() in ("", HOLE):
            return
        script, fault = read_script(arg.text, effort=self.effort, depth=position.depth, at=arg.at)
        inside = position._replace(depth=position.depth + 1, started=False, file_names=False)
        if position.elsewhere:
            self._walk_elsewhere(script, inside._replace(elsewhere=False, certain=True, body=False))
        else:
            self.walk(script, inside)
        if isinstance(fault, tree.TooMuch):
            raise fault
        if fault is not None and position.surety == "sure":
            self.doubt("shell text that cannot be read", arg.text, arg.at, "lists")

    def _walk_elsewhere(self, script: tree.Script, position: Position) -> None:
        """Visit a script of another shell, which starts without functions and keeps none."""
        kept = self.functions, self.defined, self.first, self.removed, self.perhaps_removed
        progress = self._leading, self._returned
        self.functions, self.defined, self.first, self.removed, self.perhaps_removed = {}, set(), set(), set(), set()
        self._leading, self._returned = False, False
        values, self.values = self.values, self.values.child()
        function, self.function = self.function, ""
        self.walk(script, position)
        self.values, self.function = values, function
        self.functions, self.defined, self.first, self.removed, self.perhaps_removed = kept
        self._leading, self._returned = progress

    def visit_script(self, arg: Arg, position: Position) -> None:
        """Note a script file that a shell reads."""
        parts = arg.word.parts if arg.word else []
        processes = [part for part in parts if isinstance(part, tree.Dyn) and part.kind == "process"]
        shell = position.via[-1] if position.via else "source"
        if processes:
            if any(part.download for part in processes):
                self.dangers.append(Danger(arg.at, position.via[:-1], shell))
            if self.names is not None and self.sets_environment(arg):
                self.starts[-1].unjudged = True
            else:
                self.doubt(f"what '{shell}' reads from a substitution", arg.text, arg.at, "lists")
            return
        if is_stdin(arg):
            return
        if tables.DESCRIPTOR.match(normpath(arg.text)):
            self.doubt(f"what '{shell}' reads from a descriptor", arg.text, arg.at, "lists")
        self._doubt_named_data(shell, [], arg.at)
        if arg.value is not None:
            self.starts.append(Start(arg.value, [], arg.at, position.via, "script", position.surety))
            self._visit_written(arg, position)
        else:
            self.starts[-1].unjudged = True
            self.follow_scripts(arg, position)
            if arg.glob:
                self.doubt(f"the script '{show(arg)}'", show(arg), arg.at, "text only")
        if position.surety == "sure":
            self.doubt(f"the script '{show(arg)}'", show(arg), arg.at, "allow")

    def visit_expansions(self, text: str, at: int, position: Position) -> None:
        """Visit the substitutions in a text that a builtin expands."""
        if "$" not in text and "`" not in text:
            return
        try:
            parts = read_expansions(text, effort=self.effort, depth=position.depth, at=at)
        except tree.TooMuch:
            raise
        except tree.Fault:
            self.doubt("text that is expanded when it runs", text, at, "lists")
            return
        self.visit_parts(parts, position._replace(depth=position.depth + 1))

    def _visit_tool(self, base: str, args: list[Arg], at: int, position: Position) -> None:
        for text in tool_commands(base, args):
            via = (*position.via, base)
            inside = position._replace(via=via, depth=position.depth + 1, certain=False, elsewhere=True)
            self.visit_text(text, inside, data=True)
            if text.text.strip() == HOLE:
                self.doubt(f"the command that '{base}' is told to run", "", text.at, "lists")
        if base == "ssh" and self.names is not None:
            self._visit_ssh(args, at, position)
        for arg in args if base == "git" else ():
            if arg.text.startswith("--exec-path="):
                self.doubt("where 'git' finds its programs", arg.text, arg.at, "allow")
        if base in ("tee", "sponge", "dd"):
            for path in (arg.value.removeprefix("of=") for arg in args if arg.value):
                self._wrote(path, None)
        elif base in tables.DOWNLOADERS:
            for path in downloads_to(base, args):
                self._wrote(path, None)

    def _visit_ssh(self, args: list[Arg], at: int, position: Position) -> None:
        """Visit what `ssh` runs on this same machine; only denied programs count there."""
        told = local_command(args)
        inside = position._replace(
            via=(*position.via, "ssh"), depth=position.depth + 1, certain=False, elsewhere=True, surety="setting"
        )
        if told:
            self.visit_text(with_holes(" ".join(arg.text for arg in told), at), inside, data=True)
        elif told is not None and position.stdin.kind == "text":
            self._visit_stdin("ssh", at, inside)
