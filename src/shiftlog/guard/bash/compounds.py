"""Parses compound commands: groups, conditions, loops, cases, tests, functions and coprocesses."""

from __future__ import annotations

import re
from abc import abstractmethod

from shiftlog.guard.bash import tree
from shiftlog.guard.bash.reader import WordReader
from shiftlog.guard.bash.tree import BashWord, Compound, Dyn, Lit, Node, Part, Unclosed, UnknownSyntax

KEYWORDS = frozenset("if while until for select case function { [[ time coproc !".split())
CLOSERS = frozenset("then elif else fi do done esac }".split())
OPENERS = frozenset("if while until for select case function { [[".split())
TOKEN = re.compile(r"[^ \t\n\\'\"`$|&;()<>]+(?=[ \t\n|&;()<>]|$)")
OPERATOR = re.compile(r"&>>|&>|&&|\|\||\|&|;;&|;;|;&|<<<|<<-|<<|<&|<>|>>|>&|>\||[|&;()<>\n]")
NO_PARAMETERS = re.compile(r"\([ \t]*\)")


class Compounds(WordReader):
    """The half of the parser that reads compound commands."""

    @abstractmethod
    def read_into(self, script: tree.Script, closer: str) -> None:
        """Read commands into `script` up to the word that closes it."""

    @abstractmethod
    def read_command(self) -> Node:
        """Read one command."""

    @abstractmethod
    def skip_separators(self) -> None:
        """Skip blanks, comments and line ends."""

    @abstractmethod
    def with_redirects(self, node: Compound) -> Compound:
        """Read the redirections that follow a compound command."""

    def peek_token(self) -> str:
        """Return the unquoted word at the position, or an empty string."""
        found = TOKEN.match(self.text, self.at, self.end)
        if found:
            return found.group()
        if self.joins and "\\\n" in self.text[self.at : self.at + 40]:
            kept = self.at
            word = self.read_word()
            self.at = kept
            return word.bare or ""
        return ""

    def peek_operator(self) -> str:
        """Return the operator at the position, or an empty string."""
        found = OPERATOR.match(self.text, self.at, self.end)
        operator = found.group() if found else ""
        if self.joins and operator and operator != "\n" and self.text.startswith("\\\n", self.at + len(operator)):
            self.at += len(operator) - 1
            self.join()
            self.at -= len(operator) - 1
            found = OPERATOR.match(self.text, self.at, self.end)
            operator = found.group() if found else ""
        return operator

    def read_keyword(self, token: str, start: int) -> Node:
        """Read the command that a keyword opens; the keyword itself was already read."""
        self.deeper()
        if token == "coproc":
            node = self._read_coproc()
        elif token == "function":
            node = self._read_function_keyword(start)
        else:
            node = self.with_redirects(self._read_compound(token, start))
        self.depth -= 1
        return node

    def _read_compound(self, token: str, start: int) -> Compound:
        match token:
            case "{":
                return Compound("group", self.original(start), [], [self._read_until("}", start, "{")], [])
            case "if":
                return self._read_if(start)
            case "while" | "until":
                condition = self._read_until("do", start, token)
                body = self._read_until("done", start, token)
                return Compound("loop", self.original(start), [], [condition, body], [])
            case "for" | "select":
                return self._read_for(start, token)
            case "case":
                return self._read_case(start)
            case _:
                return self._read_test(start)

    def _read_until(self, closer: str, start: int, opener: str) -> list[Node]:
        body: tree.Script = []
        self.read_into(body, closer)
        self._require((closer,), start, f"brace ({opener})" if opener == "{" else f"'{opener}'")
        return body

    def _require(self, closers: tuple[str, ...], start: int, what: str) -> str:
        """Read the word that closes a body, and return it; `what` was opened at `start`."""
        token = self.peek_token() if self.at < self.end else ""
        if token not in closers:
            if self.at >= self.end:
                raise Unclosed(start, what)
            raise UnknownSyntax(self.at, f"'{token or self.char()}' here")
        self.read_word()
        return token

    def _read_if(self, start: int) -> Compound:
        bodies: list[list[Node]] = []
        while True:
            bodies.append(self._read_until("then", start, "if"))
            body: tree.Script = []
            self.read_into(body, "fi")
            bodies.append(body)
            token = self._require(("elif", "else", "fi"), start, "'if'")
            if token == "else":
                bodies.append(self._read_until("fi", start, "if"))
            if token != "elif":
                return Compound("if", self.original(start), [], bodies, [])

    def _read_for(self, start: int, token: str) -> Compound:
        self.skip_blanks()
        words: list[BashWord] = []
        name = ""
        if self.text.startswith("((", self.at):
            inner = self.read_arithmetic(self.at + 2)
            if inner is None:
                raise UnknownSyntax(start, "'for ((' here")
            words.append(BashWord(start, self.at, [Dyn("arith", "", True, inner)]))
        else:
            name = self.read_word().bare or ""
            self.skip_separators()
            if self.peek_token() == "in":
                self.at += 2
                words = self._read_words()
        self.skip_separators()
        if self.char() == ";":
            self.at += 1
            self.skip_separators()
        opener = self.peek_token()
        if opener == "{":
            self.read_word()
            body = self._read_until("}", start, "{")
        elif opener == "do":
            self.read_word()
            body = self._read_until("done", start, token)
        elif self.at >= self.end:
            raise Unclosed(start, f"'{token}'")
        else:
            raise UnknownSyntax(self.at, f"'{opener}' here")
        return Compound("for" if token == "for" else "loop", self.original(start), words, [body], [], name)

    def _read_words(self) -> list[BashWord]:
        words: list[BashWord] = []
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
        self.skip_separators()
        if self.peek_token() != "in":
            raise Unclosed(start, "'case'") if self.at >= self.end else UnknownSyntax(self.at, "'case' here")
        self.at += 2
        while True:
            self.skip_separators()
            if self.at >= self.end:
                raise Unclosed(start, "'case'")
            if self.peek_token() == "esac":
                self.read_word()
                return Compound("case", self.original(start), words, bodies, [])
            if self.char() == "(":
                self.at += 1
            words.extend(self._read_patterns(start))
            body: tree.Script = []
            self.read_into(body, ";;")
            bodies.append(body)
            operator = self.peek_operator() if self.at < self.end else ""
            if operator in (";;", ";&", ";;&"):
                self.at += len(operator)
            elif self.peek_token() != "esac":
                raise Unclosed(start, "'case'") if self.at >= self.end else UnknownSyntax(self.at, "'case' here")

    def _read_patterns(self, start: int) -> list[BashWord]:
        words: list[BashWord] = []
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
            raise Unclosed(start, "'case'") if self.at >= self.end else UnknownSyntax(self.at, "a pattern")

    def _read_test(self, start: int) -> Compound:
        words: list[BashWord] = []
        regex = False
        while True:
            self.skip_separators()
            if self.at >= self.end:
                raise Unclosed(start, "brackets ([[)")
            if regex:
                words.append(self._read_regex())
                regex = False
                continue
            character = self.char()
            if character in "&|()<>" and not (character in "<>" and self.char(1) == "("):
                self.at += 1
                words.append(BashWord(self.at - 1, self.at, [Lit(character, True)]))
                continue
            if character == ";":
                raise UnknownSyntax(self.at, "';' inside [[")
            word = self.read_word()
            if word.bare == "]]":
                return Compound("test", self.original(start), words, [], [])
            regex = word.bare == "=~"
            words.append(word)

    def _read_regex(self) -> BashWord:
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
        return BashWord(start, self.at, [*parts, Lit("", True)])

    def read_parenthesised(self, start: int) -> Compound:
        """Read `(…)` or `((…))`."""
        self.deeper()
        if self.joins:
            self.join()
        if self.char(1) == "(":
            inner = self.read_arithmetic(start + 2)
            if inner is not None:
                self.depth -= 1
                word = BashWord(start, self.at, [Dyn("arith", "", True, inner)])
                return Compound("arith", self.original(start), [word], [], [])
            self.at = start
        self.at += 1
        body: tree.Script = []
        self.read_into(body, ")")
        if self.char() != ")":
            if self.at >= self.end:
                raise Unclosed(start, "parenthesis (()")
            raise UnknownSyntax(self.at, f"'{self.char()}' here")
        self.at += 1
        self.depth -= 1
        return Compound("subshell", self.original(start), [], [body], [])

    def _read_coproc(self) -> Node:
        self.skip_blanks()
        kept = self.at
        names: list[BashWord] = []
        if self.char() != "(" and self.peek_token() not in OPENERS:
            names.append(self.read_word())
            self.skip_blanks()
            if self.char() != "(" and self.peek_token() not in OPENERS:
                self.at = kept
                names.clear()
        variable = names[0].bare or "" if names else ""
        return Compound("coproc", self.original(kept), names, [[self.read_command()]], [], variable)

    def _read_function_keyword(self, start: int) -> tree.Function:
        self.skip_blanks()
        name = self.read_word()
        self.skip_blanks()
        found = NO_PARAMETERS.match(self.text, self.at, self.end)
        if found is not None:
            self.at = found.end()
        return self._read_function_body(name.bare or self.text[name.start : name.end], start)

    def _read_function_body(self, name: str, start: int) -> tree.Function:
        self.skip_separators()
        token = self.peek_token()
        if self.char() != "(" and token not in OPENERS:
            if self.at >= self.end:
                raise Unclosed(start, f"function '{name}'")
            raise UnknownSyntax(self.at, "a function body")
        return tree.Function(name, self.original(start), self.read_command())

    def read_definition(self, node: tree.Simple, start: int) -> tree.Function:
        """Read `name() body`; the name was already read, the parenthesis is next."""
        found = NO_PARAMETERS.match(self.text, self.at, self.end)
        if found is None or len(node.words) != 1 or node.assigns or node.redirects:
            raise UnknownSyntax(self.at, "'(' here")
        self.at = found.end()
        name = node.words[0]
        self.deeper()
        function = self._read_function_body(name.bare or self.text[name.start : name.end], start)
        self.depth -= 1
        return function
