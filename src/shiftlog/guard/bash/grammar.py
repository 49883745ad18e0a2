"""Parses commands: lists, pipelines, simple commands, redirections and here-documents.

Words are read by `reader`, compound commands by `compounds`; nothing outside this package imports these three.
"""

from __future__ import annotations

import re

from shiftlog.guard.bash import tree
from shiftlog.guard.bash.compounds import CLOSERS, KEYWORDS, Compounds
from shiftlog.guard.bash.tree import BashWord, Dyn, Effort, Lit, Part, Redirect, Simple, Unclosed, UnknownSyntax

REDIRECTION = frozenset("&> &>> <<< <<- << <& <> >> >& >| < >".split())
NAMED_FD = re.compile(r"(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})(?=[<>])")
NAME_EQUALS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[.*\])?\+?=", re.S)


class ScriptParser(Compounds):
    """Reads whole scripts: the grammar of commands on top of words and compound commands."""

    def __init__(self, text: str, *, effort: Effort | None = None, depth: int = 0, fixed: int | None = None) -> None:
        super().__init__(text, effort=effort, depth=depth, fixed=fixed)
        self.pending: list[tuple[Redirect, str, bool]] = []
        self.nested = False
        self.prefixed = False

    def read_nested(self, text: str, at: int) -> tree.Script:
        """Read the text inside backquotes; every position in it is theirs."""
        parser = ScriptParser(text, effort=self.effort, depth=self.depth, fixed=self.original(at))
        script: tree.Script = []
        try:
            parser.read_into(script, "")
        except Unclosed:
            # Bash parses the inside of backquotes only when it runs them, so the outer text is not broken.
            raise UnknownSyntax(at, "backquotes") from None
        if parser.at < parser.end:
            raise UnknownSyntax(at, "backquotes")
        return script

    def read_substituted(self) -> tree.Script:
        """Read the commands of a substitution; here-documents outside it wait for a line end outside."""
        kept, self.pending = self.pending, []
        outer, self.nested = self.nested, True
        script: tree.Script = []
        self.read_into(script, ")")
        if self.pending:
            self._require_body(self.pending[0])
        self.pending, self.nested = kept, outer
        return script

    def read_into(self, script: tree.Script, closer: str) -> None:
        """Read commands into `script`, so that the commands before a fault are kept."""
        while True:
            self.skip_separators()
            if self.at >= self.end:
                break
            character = self.text[self.at]
            if character in ");" or self.peek_token() in CLOSERS:
                break
            node = self._read_choice()
            script.append(node)
            if self._read_separator(closer) == "&":
                script[-1] = tree.Compound("subshell", node.start, [], [[node]], [])
        if self.pending and not closer:
            self._require_body(self.pending[0])

    def skip_separators(self) -> None:
        """Skip blanks, comments and line ends, and read the here-documents that wait for a line end."""
        while True:
            self.skip_blanks()
            if self.char() != "\n":
                return
            self._pass_newline()

    def _read_separator(self, closer: str) -> str:
        """Skip the separator after a command, and return it."""
        self.skip_blanks()
        character = self.char()
        if character in (";", "&"):
            operator = self.peek_operator()
            if operator in (";", "&"):
                self.at += 1
            elif operator not in (";;", ";&", ";;&"):
                raise UnknownSyntax(self.at, f"'{operator}' here")
        elif character == "\n":
            self._pass_newline()
        elif character and character != ")" and self.peek_token() not in CLOSERS:
            raise UnknownSyntax(self.at, f"'{character}' here")
        elif character == ")" and closer != ")" and not self.depth:
            raise UnknownSyntax(self.at, "')' here")
        return character

    def _pass_newline(self) -> None:
        self.at += 1
        if self.pending:
            pending, self.pending = self.pending, []
            for redirect, mark, quoted in pending:
                self._read_heredoc(redirect, mark, quoted)

    def _require_body(self, waiting: tuple[Redirect, str, bool]) -> None:
        redirect, mark, _ = waiting
        raise Unclosed(redirect.start, f"here-document ({redirect.op}{mark})")

    def _read_heredoc(self, redirect: Redirect, mark: str, quoted: bool) -> None:
        start = at = self.at
        while at < self.end:
            stop = self.text.find("\n", at, self.end)
            stop = self.end if stop < 0 else stop
            line = self.text[at:stop]
            if not quoted and line.endswith("\\"):
                line, stop = self._join_lines(line, stop)
            shown = line.lstrip("\t") if redirect.op == "<<-" else line
            if shown == mark:
                self._close_heredoc(redirect, start, at, quoted)
                self.at = min(stop + 1, self.end) if stop < self.end else self.end
                return
            if self.nested and shown.startswith(mark) and ")" in shown[len(mark) :]:
                rest = shown[len(mark) :]
                if not rest.lstrip(" \t").startswith(")"):
                    raise UnknownSyntax(at, "a here-document whose end mark is followed by more")
                self._close_heredoc(redirect, start, at, quoted)
                self.at = stop - len(rest)
                return
            at = stop + 1
        self._require_body((redirect, mark, quoted))

    def _join_lines(self, line: str, stop: int) -> tuple[str, int]:
        pieces: list[str] = []
        while (len(line) - len(line.rstrip("\\"))) % 2 and stop < self.end:
            self.spend()
            pieces.append(line[:-1])
            following = self.text.find("\n", stop + 1, self.end)
            following = self.end if following < 0 else following
            line, stop = self.text[stop + 1 : following], following
        return "".join([*pieces, line]), stop

    def _close_heredoc(self, redirect: Redirect, start: int, stop: int, quoted: bool) -> None:
        if quoted:
            redirect.body = [Lit(self.text[start:stop], True)]
            return
        before = len(self.joined)
        kept = self.at
        self.at = stop
        try:
            redirect.body = self.read_body(start, stop)
        except Unclosed as fault:
            # Bash expands a body only when it runs the command, so the outer text is not broken.
            raise UnknownSyntax(fault.at, "a here-document's body") from None
        if len(self.joined) != before:
            raise tree.TooMuch(start, "a here-document with continued expansions")
        self.at = kept

    def _read_choice(self) -> tree.Node:
        nodes = [self._read_pipeline()]
        while self._pass_operator("&|", ("&&", "||")):
            nodes.append(self._read_pipeline())
        return nodes[0] if len(nodes) == 1 else tree.AndOr(nodes=nodes, start=self.original(self.at))

    def _read_pipeline(self) -> tree.Node:
        self._skip_prefixes()
        stages = [self.read_command()]
        while self._pass_operator("|", ("|", "|&")):
            stages.append(self.read_command())
        return stages[0] if len(stages) == 1 else tree.Pipeline(self.original(self.at), stages)

    def _pass_operator(self, first: str, operators: tuple[str, ...]) -> bool:
        """Skip one of these operators, which a command must follow; each begins with a character of `first`."""
        self.skip_blanks()
        operator = self.peek_operator() if self.char() and self.char() in first else ""
        if operator not in operators:
            return False
        start = self.at
        self.at += len(operator)
        self.skip_separators()
        if self.at >= self.end:
            raise Unclosed(start, f"'{operator}'")
        return True

    def _skip_prefixes(self) -> None:
        """Skip `!` and `time`, which precede a pipeline and start no program."""
        self.prefixed = False
        while True:
            self.skip_blanks()
            token = self.peek_token()
            if token not in ("!", "time"):
                return
            self.spend()
            self.read_word()
            self.prefixed = True
            if token == "time":
                self.skip_blanks()
                while self.peek_token() in ("-p", "--"):
                    self.at += 2
                    self.skip_blanks()

    def read_command(self) -> tree.Node:
        """Read a compound or simple command."""
        self.skip_blanks()
        self.spend()
        start = self.at
        character = self.char()
        if character == "(":
            return self.with_redirects(self.read_parenthesised(start))
        if (not character or character in "\n;&|)") and self.peek_operator() not in REDIRECTION:
            # `!` and `time` may stand alone; bash itself reports any other missing command.
            if character in ("\n", ";", "", ")") and self.prefixed:
                return Simple(self.original(start), start, [], [], [])
            raise UnknownSyntax(start, "a missing command")
        token = self.peek_token()
        # After a pipe `time` is an ordinary program; bash itself reports a `!` there.
        if token == "!":
            raise UnknownSyntax(start, "'!' here")
        if token in KEYWORDS and token != "time":
            self.read_word()
            return self.read_keyword(token, start)
        if token in CLOSERS:
            raise UnknownSyntax(start, f"'{token}' here")
        return self._read_simple()

    def with_redirects(self, node: tree.Compound) -> tree.Compound:
        """Read the redirections that follow a compound command."""
        while True:
            self.skip_blanks()
            redirect = self._read_redirect()
            if redirect is None:
                return node
            node.redirects.append(redirect)

    def _read_simple(self) -> tree.Node:
        start = self.at
        first = self.original(start) if self.joined or self.fixed is not None else start
        node = Simple(first, start, [], [], [])
        while True:
            self.skip_blanks()
            if self.at >= self.end:
                break
            character = self.text[self.at]
            if character in "\n;|)":
                break
            redirect = self._read_redirect()
            if redirect is not None:
                node.redirects.append(redirect)
                continue
            if character == "&":
                break
            if character == "(":
                return self.read_definition(node, start)
            word = self.read_word(subscripts=not node.words and not node.redirects)
            if not node.words and self._add_assignment(node, word):
                continue
            if word.end == word.start:
                raise UnknownSyntax(self.at, f"'{character}' here")
            if self.fixed is not None or self.joined:
                word.start = self.original(word.start)
            node.words.append(word)
        node.end = self.at
        return node

    def _add_assignment(self, node: Simple, word: BashWord) -> bool:
        first = word.parts[0] if word.parts else None
        if not isinstance(first, Lit) or first.quoted:
            return False
        simple = NAME_EQUALS.match(first.text)
        at = self.original(word.start)
        if simple and not simple.group(2):
            rest: list[Part] = list(word.parts[1:])
            if len(first.text) > simple.end():
                rest.insert(0, Lit(first.text[simple.end() :], False))
            node.assigns.append(_assignment(simple.group(1), at, word, rest, [], ""))
            node.assigns[-1].appends = simple.group().endswith("+=")
            return True
        subscript = word.parts[1] if len(word.parts) > 2 else None
        if not (isinstance(subscript, Dyn) and subscript.kind == "subscript"):
            return False
        closing = word.parts[2]
        if not (isinstance(closing, Lit) and re.match(r"\]\+?=", closing.text)):
            return False
        value = closing.text.split("=", 1)[1]
        rest = [*([Lit(value, False)] if value else []), *word.parts[3:]]
        node.assigns.append(_assignment(first.text[:-1], at, word, rest, subscript.inner, subscript.name))
        return True

    def _read_redirect(self) -> Redirect | None:
        character = self.char()
        fd = ""
        kept = self.at
        if character and (character.isdigit() or character == "{"):
            named = NAMED_FD.match(self.text, self.at, self.end)
            if named is None:
                return None
            fd = named.group()
            self.at = named.end()
        elif character not in ("<", ">", "&"):
            return None
        operator = self.peek_operator()
        if operator not in REDIRECTION or (operator in "<>" and self.text.startswith("(", self.at + 1)):
            self.at = kept
            return None
        redirect = Redirect(operator, fd, self.original(kept), None)
        self.at += len(operator)
        self.skip_blanks()
        before = self.at
        word = self.read_word()
        if self.at == before:
            raise UnknownSyntax(self.at, f"'{operator}' without a target")
        redirect.target = word
        if operator in ("<<", "<<-"):
            self._expect_heredoc(redirect, word)
        return redirect

    def _expect_heredoc(self, redirect: Redirect, word: BashWord) -> None:
        raw = self.text[word.start : word.end]
        quoted = any(character in raw for character in "\\'\"")
        if any(isinstance(part, Dyn) for part in word.parts):
            if quoted:
                raise UnknownSyntax(word.start, "this here-document mark")
            mark = raw
        else:
            mark = "".join(part.text for part in word.parts if isinstance(part, Lit))
        self.pending.append((redirect, mark, quoted and raw.replace("\\\n", "") != mark))


def _assignment(name: str, at: int, word: BashWord, rest: list[Part], subscript: list[Part], key: str) -> tree.Assign:
    array = rest[0] if rest else None
    if isinstance(array, Dyn) and array.kind == "array":
        elements = [BashWord(at, at, part.inner, part.name or None) for part in array.inner if isinstance(part, Dyn)]
        return tree.Assign(name, at, None, subscript, key, elements)
    return tree.Assign(name, at, BashWord(at, word.end, rest), subscript, key)
