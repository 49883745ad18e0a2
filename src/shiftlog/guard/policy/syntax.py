"""Reads bash text into a tree of commands, and says where and how a text is broken.

The reader is our own because a verdict must never rest on a guess: it follows bash's grammar, stops at what it does
not know, and reports as broken only what bash refuses, too. What the commands mean is not decided here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from shiftlog.guard.policy.faults import Fault, TooMuch, Unfinished, Unreadable
from shiftlog.guard.policy.reader import Reader, Work
from shiftlog.guard.policy.tree import (
    Assign,
    Choice,
    Compound,
    Dyn,
    Function,
    Lit,
    Node,
    Part,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Word,
)

KEYWORDS = frozenset("if while until for select case function { [[ time coproc !".split())
CLOSERS = frozenset("then elif else fi do done esac }".split())
OPENERS = frozenset("if while until for select case function { [[".split())
OPERATOR = re.compile(r"&>>|&>|&&|\|\||\|&|;;&|;;|;&|<<<|<<-|<<|<&|<>|>>|>&|>\||[|&;()<>\n]")
REDIRECTION = frozenset("&> &>> <<< <<- << <& <> >> >& >| < >".split())
NAMED_FD = re.compile(r"(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})(?=[<>])")
TOKEN = re.compile(r"[^ \t\n\\'\"`$|&;()<>]+(?=[ \t\n|&;()<>]|$)")
NAME_EQUALS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[.*\])?\+?=", re.S)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxFault:
    """Where a text breaks off, as the caller is told."""

    line: int
    column: int
    message: str

    @property
    def stderr(self) -> str:
        """The line that stands in for the shell's own complaint."""
        return f"syntax error: line {self.line}, column {self.column}: {self.message}"


@dataclass(slots=True)
class Reading:
    """A text as read: the commands before the fault, if there is one."""

    script: Script
    fault: Fault | None = None


def read_text(text: str, *, work: Work | None = None, depth: int = 0, at: int | None = None) -> Reading:
    """Read a whole text; with `at`, every position in the tree is that one."""
    parser = Parser(text, work=work, depth=depth, fixed=at)
    script: Script = []
    try:
        parser.read_into(script, "")
        if parser.at < parser.end:
            raise Unreadable(parser.at, f"'{parser.char()}' here")
        fault = None
    except Fault as caught:
        caught.at = parser.original(caught.at)
        fault = caught
    return Reading(script, fault)


def place_of(text: str, at: int) -> tuple[int, int]:
    """Return line and column, both from 1, of an offset."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def describe_fault(text: str, fault: Unfinished) -> SyntaxFault:
    """Say what was opened where and never closed."""
    line, column = place_of(text, fault.at)
    return SyntaxFault(line=line, column=column, message=f"the {fault.what} opened on line {line} is never closed")


class Parser(Reader):
    """The grammar of commands over the words of a `Reader`."""

    def __init__(self, text: str, *, work: Work | None = None, depth: int = 0, fixed: int | None = None) -> None:
        super().__init__(text, work=work, depth=depth)
        self.fixed = fixed
        self.pending: list[tuple[Redirect, str, bool]] = []
        self.nested = ""

    def original(self, at: int) -> int:
        """Translate an offset back to the text as it was given."""
        if self.fixed is not None:
            return self.fixed
        for removed in reversed(self.joined):
            if at >= removed:
                at += 2
        return at

    def read_nested(self, text: str, at: int) -> Script:
        """Read the text of backquotes; its positions are theirs."""
        parser = Parser(text, work=self.work, depth=self.depth, fixed=self.original(at))
        script: Script = []
        try:
            parser.read_into(script, "")
        except Unfinished as fault:
            raise Unfinished(at, fault.what) from None
        if parser.at < parser.end:
            raise Unreadable(at, "backquotes")
        return script

    def read_script(self, closer: str) -> Script:
        """Read commands until `closer`; here-documents of the outside wait for a line end outside."""
        kept, self.pending = self.pending, []
        outer, self.nested = self.nested, closer
        script: Script = []
        self.read_into(script, closer)
        if self.pending:
            self._require_body(self.pending[0])
        self.pending, self.nested = kept, outer
        return script

    def read_into(self, script: Script, closer: str) -> None:
        """Read commands into `script`, so that what came before a fault is known."""
        while True:
            self._skip_separators()
            if self.at >= self.end:
                break
            character = self.text[self.at]
            if character == ")" or self._at_closer(character):
                break
            script.append(self._read_choice())
            self._read_separator(closer)
        if self.pending and not closer:
            self._require_body(self.pending[0])

    def _at_closer(self, character: str) -> bool:
        if character == ";":
            return True
        return self._peek_token() in CLOSERS

    def _peek_token(self) -> str:
        found = TOKEN.match(self.text, self.at, self.end)
        if found:
            return found.group()
        if self.joins and "\\\n" in self.text[self.at : self.at + 40]:
            kept = self.at
            word = self.read_word()
            self.at = kept
            return word.bare or ""
        return ""

    def _skip_separators(self) -> None:
        while True:
            self.skip_blanks()
            if self.char() != "\n":
                return
            self._pass_newline()

    def _read_separator(self, closer: str) -> None:
        self.skip_blanks()
        character = self.char()
        if character in (";", "&"):
            operator = self._peek_operator()
            if operator in (";", "&"):
                self.at += 1
            elif operator not in (";;", ";&", ";;&"):
                raise Unreadable(self.at, f"'{operator}' here")
        elif character == "\n":
            self._pass_newline()
        elif character and character != ")" and self._peek_token() not in CLOSERS:
            raise Unreadable(self.at, f"'{character}' here")
        elif character == ")" and closer != ")" and not self.depth:
            raise Unreadable(self.at, "')' here")

    def _peek_operator(self) -> str:
        found = OPERATOR.match(self.text, self.at, self.end)
        operator = found.group() if found else ""
        if self.joins and operator and operator != "\n" and self.text.startswith("\\\n", self.at + len(operator)):
            self.at += len(operator) - 1
            self.join()
            self.at -= len(operator) - 1
            found = OPERATOR.match(self.text, self.at, self.end)
            operator = found.group() if found else ""
        return operator

    def _pass_newline(self) -> None:
        self.at += 1
        if self.pending:
            pending, self.pending = self.pending, []
            for redirect, mark, quoted in pending:
                self._read_heredoc(redirect, mark, quoted)

    def _require_body(self, waiting: tuple[Redirect, str, bool]) -> None:
        redirect, mark, _ = waiting
        raise Unfinished(redirect.start, f"here-document ({redirect.op}{mark})")

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
                # The line end stays for whoever reads on, so that a command after the body starts anew.
                return
            if self.nested == ")" and shown.startswith(mark) and ")" in shown[len(mark) :]:
                rest = shown[len(mark) :]
                if not rest.lstrip(" \t").startswith(")"):
                    raise Unreadable(at, "a here-document whose end mark is followed by more")
                self._close_heredoc(redirect, start, at, quoted)
                self.at = stop - len(rest)
                return
            at = stop + 1
        self._require_body((redirect, mark, quoted))

    def _join_lines(self, line: str, stop: int) -> tuple[str, int]:
        while (len(line) - len(line.rstrip("\\"))) % 2 and stop < self.end:
            following = self.text.find("\n", stop + 1, self.end)
            following = self.end if following < 0 else following
            line = line[:-1] + self.text[stop + 1 : following]
            stop = following
            self.spend()
        return line, stop

    def _close_heredoc(self, redirect: Redirect, start: int, stop: int, quoted: bool) -> None:
        if quoted:
            redirect.body = [Lit(self.text[start:stop], True)]
            return
        before = len(self.joined)
        kept = self.at
        self.at = stop
        redirect.body = self.read_body(start, stop)
        if len(self.joined) != before:
            raise TooMuch(start, "a here-document with continued expansions")
        self.at = kept

    def _read_choice(self) -> Node:
        first = self._read_pipeline()
        nodes = [first]
        while True:
            self.skip_blanks()
            if self.char() not in ("&", "|"):
                break
            operator = self._peek_operator()
            if operator not in ("&&", "||"):
                break
            self.at += 2
            self._skip_separators()
            nodes.append(self._read_pipeline())
        return first if len(nodes) == 1 else Choice(nodes=nodes, start=self.original(self.at))

    def _read_pipeline(self) -> Node:
        self._skip_prefixes()
        stages = [self._read_command()]
        while True:
            self.skip_blanks()
            if self.char() != "|":
                break
            operator = self._peek_operator()
            if operator not in ("|", "|&"):
                break
            self.at += len(operator)
            self._skip_separators()
            self._skip_prefixes()
            stages.append(self._read_command())
        return stages[0] if len(stages) == 1 else Pipeline(self.original(self.at), stages)

    def _skip_prefixes(self) -> None:
        """Pass over `!` and `time`, which stand before a pipeline and start nothing."""
        while True:
            self.skip_blanks()
            token = self._peek_token()
            if token == "!" or (token == "time" and self.text.startswith("time", self.at)):
                self.at += len(token)
                if token == "time":
                    self._skip_time_options()
            else:
                return

    def _skip_time_options(self) -> None:
        while True:
            self.skip_blanks()
            token = self._peek_token()
            if token not in ("-p", "--"):
                return
            self.at += 2

    def _read_command(self) -> Node:
        self.skip_blanks()
        self.spend()
        start = self.at
        character = self.char()
        if character == "(":
            return self._with_redirects(self._read_parenthesised(start))
        if not character or character in "\n;&|)":
            # `!` and `time` may stand alone; anything else that is missing is the shell's to complain about.
            if character in ("\n", ";", "", ")") and self.text[:start].rstrip().endswith(("!", "time", "-p", "--")):
                return Simple(self.original(start), start, [], [], [])
            raise Unreadable(start, "a missing command")
        token = self._peek_token()
        if token in KEYWORDS:
            word = self.read_word()
            return self._read_keyword(token, start, word)
        if token in CLOSERS or token == "in":
            if token != "in":
                raise Unreadable(start, f"'{token}' here")
        return self._read_simple()

    def _read_keyword(self, token: str, start: int, word: Word) -> Node:
        self.deeper()
        if token == "coproc":
            node = self._read_coproc()
        elif token == "function":
            node = self._read_function_keyword(start)
        else:
            node = self._with_redirects(self._read_compound(token, start))
        self.depth -= 1
        return node

    def _read_compound(self, token: str, start: int) -> Compound:
        match token:
            case "{":
                return Compound("group", self.original(start), [], [self._read_until(("}",), start, "{")], [])
            case "if":
                return self._read_if(start)
            case "while" | "until":
                condition = self._read_until(("do",), start, token)
                return Compound(
                    "loop", self.original(start), [], [condition, self._read_until(("done",), start, token)], []
                )
            case "for" | "select":
                return self._read_for(start, token)
            case "case":
                return self._read_case(start)
            case _:
                return self._read_test(start)

    def _read_until(self, closers: tuple[str, ...], start: int, opener: str) -> list[Node]:
        body: Script = []
        self.read_into(body, closers[0])
        token = self._peek_token() if self.at < self.end else ""
        if token not in closers:
            if self.at >= self.end:
                raise Unfinished(start, f"brace ({opener})" if opener == "{" else f"'{opener}'")
            raise Unreadable(self.at, f"'{token or self.char()}' here")
        self.read_word()
        return body

    def _read_if(self, start: int) -> Compound:
        bodies: list[list[Node]] = []
        while True:
            bodies.append(self._read_until(("then",), start, "if"))
            body: Script = []
            self.read_into(body, "fi")
            bodies.append(body)
            token = self._peek_token() if self.at < self.end else ""
            if token not in ("elif", "else", "fi"):
                if self.at >= self.end:
                    raise Unfinished(start, "'if'")
                raise Unreadable(self.at, f"'{token or self.char()}' here")
            self.read_word()
            if token == "else":
                bodies.append(self._read_until(("fi",), start, "if"))
            if token != "elif":
                return Compound("if", self.original(start), [], bodies, [])

    def _read_for(self, start: int, token: str) -> Compound:
        self.skip_blanks()
        words: list[Word] = []
        name = ""
        if self.text.startswith("((", self.at):
            inner = self.read_arithmetic(self.at + 2)
            if inner is None:
                raise Unreadable(start, "'for ((' here")
            words.append(Word(start, self.at, [Dyn("arith", "", True, inner)]))
        else:
            name = self.read_word().bare or ""
            self._skip_separators()
            if self._peek_token() == "in":
                self.at += 2
                words = self._read_words()
        self._skip_separators()
        if self.char() == ";":
            self.at += 1
            self._skip_separators()
        opener = self._peek_token()
        if opener == "{":
            self.read_word()
            body = self._read_until(("}",), start, "{")
        elif opener == "do":
            self.read_word()
            body = self._read_until(("done",), start, token)
        elif self.at >= self.end:
            raise Unfinished(start, f"'{token}'")
        else:
            raise Unreadable(self.at, f"'{opener}' here")
        return Compound("loop", self.original(start), words, [body], [], name)

    def _read_words(self) -> list[Word]:
        words: list[Word] = []
        while True:
            self.skip_blanks()
            before = self.at
            word = self.read_word()
            if self.at == before:
                return words
            words.append(word)

    def _read_case(self, start: int) -> Compound:
        self.skip_blanks()
        words = [self.read_word()]
        bodies: list[list[Node]] = []
        self._skip_separators()
        if self._peek_token() != "in":
            raise Unfinished(start, "'case'") if self.at >= self.end else Unreadable(self.at, "'case' here")
        self.at += 2
        while True:
            self._skip_separators()
            if self.at >= self.end:
                raise Unfinished(start, "'case'")
            if self._peek_token() == "esac":
                self.read_word()
                return Compound("case", self.original(start), words, bodies, [])
            if self.char() == "(":
                self.at += 1
            words.extend(self._read_patterns(start))
            body: Script = []
            self.read_into(body, ";;")
            bodies.append(body)
            operator = self._peek_operator() if self.at < self.end else ""
            if operator in (";;", ";&", ";;&"):
                self.at += len(operator)
            elif self._peek_token() != "esac":
                raise Unfinished(start, "'case'") if self.at >= self.end else Unreadable(self.at, "'case' here")

    def _read_patterns(self, start: int) -> list[Word]:
        words: list[Word] = []
        while True:
            self.skip_blanks()
            before = self.at
            words.append(self.read_word())
            self.skip_blanks()
            if self.char() == ")":
                self.at += 1
                return words
            if self.char() == "|" and self.at > before:
                self.at += 1
                continue
            raise Unfinished(start, "'case'") if self.at >= self.end else Unreadable(self.at, "a pattern")

    def _read_test(self, start: int) -> Compound:
        words: list[Word] = []
        regex = False
        while True:
            self._skip_separators()
            if self.at >= self.end:
                raise Unfinished(start, "brackets ([[)")
            if regex:
                words.append(self._read_regex())
                regex = False
                continue
            character = self.char()
            if character in "&|()<>" and not (character in "<>" and self.char(1) == "("):
                self.at += 1
                words.append(Word(self.at - 1, self.at, [Lit(character, True)]))
                continue
            if character == ";":
                raise Unreadable(self.at, "';' inside [[")
            word = self.read_word()
            if word.bare == "]]":
                return Compound("test", self.original(start), words, [], [])
            regex = word.bare == "=~"
            words.append(word)

    def _read_regex(self) -> Word:
        start, level = self.at, 0
        parts: list[Part] = []
        while self.at < self.end:
            character = self.text[self.at]
            if character in " \t\n" and not level:
                break
            if character in "'\"`$":
                parts.extend(self.read_expansion(character))
                continue
            if character == "\\":
                self.at = min(self.at + 2, self.end)
                continue
            level += (character == "(") - (character == ")" and level > 0)
            self.at += 1
        return Word(start, self.at, [*parts, Lit("", True)])

    def _read_parenthesised(self, start: int) -> Compound:
        self.deeper()
        if self.joins:
            self.join()
        if self.char(1) == "(":
            inner = self.read_arithmetic(start + 2)
            if inner is not None:
                self.depth -= 1
                return Compound(
                    "arith", self.original(start), [Word(start, self.at, [Dyn("arith", "", True, inner)])], [], []
                )
            self.at = start
        self.at += 1
        body: Script = []
        self.read_into(body, ")")
        if self.char() != ")":
            if self.at >= self.end:
                raise Unfinished(start, "parenthesis (()")
            raise Unreadable(self.at, f"'{self.char()}' here")
        self.at += 1
        self.depth -= 1
        return Compound("subshell", self.original(start), [], [body], [])

    def _with_redirects(self, node: Compound) -> Compound:
        while True:
            self.skip_blanks()
            redirect = self._read_redirect()
            if redirect is None:
                return node
            node.redirects.append(redirect)

    def _read_coproc(self) -> Node:
        self.skip_blanks()
        kept = self.at
        if self.char() != "(" and self._peek_token() not in OPENERS:
            self.read_word()
            self.skip_blanks()
            if self.char() != "(" and self._peek_token() not in OPENERS:
                self.at = kept
        return Compound("coproc", self.original(kept), [], [[self._read_command()]], [])

    def _read_function_keyword(self, start: int) -> Function:
        self.skip_blanks()
        name = self.read_word()
        self.skip_blanks()
        if self.char() == "(" and re.match(r"\([ \t]*\)", self.text[self.at : self.at + 64]):
            self.at = self.text.index(")", self.at) + 1
        return self._read_function_body(name.bare or self.text[name.start : name.end], start)

    def _read_function_body(self, name: str, start: int) -> Function:
        self._skip_separators()
        token = self._peek_token()
        if self.char() != "(" and token not in OPENERS:
            if self.at >= self.end:
                raise Unfinished(start, f"function '{name}'")
            raise Unreadable(self.at, "a function body")
        return Function(name, self.original(start), self._read_command())

    def _read_simple(self) -> Node:
        start = self.at
        place = self.original(start) if self.joined or self.fixed is not None else start
        node = Simple(place, start, [], [], [])
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
                return self._read_definition(node, start)
            word = self.read_word(subscripts=not node.words)
            if not node.words and self._add_assignment(node, word):
                continue
            if word.end == word.start:
                raise Unreadable(self.at, f"'{character}' here")
            if self.fixed is not None or self.joined:
                word.start = self.original(word.start)
            node.words.append(word)
        node.end = self.at
        return node

    def _read_definition(self, node: Simple, start: int) -> Function:
        found = re.compile(r"\([ \t]*\)").match(self.text, self.at, self.end)
        if found is None or len(node.words) != 1 or node.assigns or node.redirects:
            raise Unreadable(self.at, "'(' here")
        self.at = found.end()
        name = node.words[0]
        self.deeper()
        function = self._read_function_body(name.bare or self.text[name.start : name.end], start)
        self.depth -= 1
        return function

    def _add_assignment(self, node: Simple, word: Word) -> bool:
        first = word.parts[0] if word.parts else None
        if not isinstance(first, Lit) or first.quoted:
            return False
        simple = NAME_EQUALS.match(first.text)
        place = self.original(word.start)
        if simple and not simple.group(2):
            rest: list[Part] = list(word.parts[1:])
            if len(first.text) > simple.end():
                rest.insert(0, Lit(first.text[simple.end() :], False))
            node.assigns.append(_assignment(simple.group(1), place, word, rest, [], ""))
            return True
        subscript = word.parts[1] if len(word.parts) > 2 else None
        if not (isinstance(subscript, Dyn) and subscript.kind == "subscript"):
            return False
        closing = word.parts[2]
        if not (isinstance(closing, Lit) and re.match(r"\]\+?=", closing.text)):
            return False
        value = closing.text.split("=", 1)[1]
        rest = [*([Lit(value, False)] if value else []), *word.parts[3:]]
        node.assigns.append(_assignment(first.text[:-1], place, word, rest, subscript.inner, subscript.name))
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
        operator = self._peek_operator()
        if operator not in REDIRECTION or (operator in "<>" and self.text.startswith("(", self.at + 1)):
            self.at = kept
            return None
        redirect = Redirect(operator, fd, self.original(kept), None)
        self.at += len(operator)
        self.skip_blanks()
        before = self.at
        word = self.read_word()
        if self.at == before:
            raise Unreadable(self.at, f"'{operator}' without a target")
        redirect.target = word
        if operator in ("<<", "<<-"):
            self._expect_heredoc(redirect, word)
        return redirect

    def _expect_heredoc(self, redirect: Redirect, word: Word) -> None:
        raw = self.text[word.start : word.end]
        quoted = any(character in raw for character in "\\'\"")
        if any(isinstance(part, Dyn) for part in word.parts):
            if quoted:
                raise Unreadable(word.start, "this here-document mark")
            mark = raw
        else:
            mark = "".join(part.text for part in word.parts if isinstance(part, Lit))
        self.pending.append((redirect, mark, quoted and raw.replace("\\\n", "") != mark))


def _assignment(name: str, at: int, word: Word, rest: list[Part], subscript: list[Part], key: str) -> Assign:
    array = rest[0] if rest else None
    if isinstance(array, Dyn) and array.kind == "array":
        elements = [Word(at, at, part.inner, part.name or None) for part in array.inner if isinstance(part, Dyn)]
        return Assign(name, at, None, subscript, key, elements)
    return Assign(name, at, Word(at, word.end, rest), subscript, key)
