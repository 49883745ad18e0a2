"""Reads the words of bash text: quotes, escapes, expansions and substitutions, with every script nested in them.

`grammar` and `compounds` read commands. This module follows bash's rules where they are surprising: line continuations
disappear inside operators, `$((…)` may turn out to be a subshell, and backquotes ignore quotes.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from shiftlog.guard.bash.tree import BashWord, Dyn, Effort, Lit, Part, Script, TooMuch, Unclosed, UnknownSyntax

MAX_DEPTH = 40
MAX_JOINS = 64

RUN = re.compile(r"[^ \t\n\\'\"`$|&;()<>]+")
DOUBLE_RUN = re.compile(r'[^"\\$`]+')
BODY_RUN = re.compile(r"[^\\$`]+")
BRACE_RUN = re.compile(r"[^}\"'\\$`<>]+")
ARITH_RUN = re.compile(r"[^()\"'\\$`]+")
BRACKET_RUN = re.compile(r"[^\[\]\"'\\$`]+")
PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?\-$!]")
BRACED_NAME = re.compile(r"[!#]?([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?\-$!])?")
ARRAY_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[.*\])?\+?=", re.S)
QUOTE_END = re.compile(r"(?:[^'\\]|\\.)*", re.S)
TICKED = re.compile(r"(?:[^`\\]|\\.)*", re.S)
BLANKS = re.compile(r"(?:[ \t]|\\\n)+")

SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
ANSI = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.S)


class WordReader(ABC):
    """A position in a text, and the methods that read the word there."""

    def __init__(self, text: str, *, effort: Effort | None, depth: int, fixed: int | None) -> None:
        self.text: str = text
        self.at: int = 0
        self.end: int = len(text)
        self.depth: int = depth
        self.effort: Effort = effort or Effort()
        self.joins: bool = "\\\n" in text
        self.joined: list[int] = []
        self.fixed = fixed

    @abstractmethod
    def read_substituted(self) -> Script:
        """Read the commands of a substitution up to its `)`, which is left unread."""

    @abstractmethod
    def read_nested(self, text: str, at: int) -> Script:
        """Read another text; every position in it is reported as `at`."""

    def original(self, at: int) -> int:
        """Translate an offset back to the original text."""
        if self.fixed is not None:
            return self.fixed
        for removed in reversed(self.joined):
            if at >= removed:
                at += 2
        return at

    def char(self, offset: int = 0) -> str:
        """Return the character at the position; an empty string at the end."""
        index = self.at + offset
        return self.text[index] if index < self.end else ""

    def skip_blanks(self) -> None:
        """Skip blanks, line continuations and a comment."""
        found = BLANKS.match(self.text, self.at, self.end)
        if found:
            self.at = found.end()
        if self.char() == "#":
            newline = self.text.find("\n", self.at, self.end)
            self.at = self.end if newline < 0 else newline

    def spend(self, amount: int = 1) -> None:
        """Spend effort; raise `TooMuch` if the verdict would take too long."""
        self.effort.left -= amount
        if self.effort.left < 0:
            raise TooMuch(self.at, "a command this long")

    def deeper(self) -> None:
        """Go one level down; raise `TooMuch` well before Python's own recursion limit."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooMuch(self.at, "nesting this deep")

    def join(self) -> None:
        """Remove line continuations right after the current character, as bash does before it reads the next one."""
        while self.text.startswith("\\\n", self.at + 1):
            if len(self.joined) >= MAX_JOINS:
                raise TooMuch(self.at, "a command with this many line continuations")
            self.text = self.text[: self.at + 1] + self.text[self.at + 3 :]
            self.joined.append(self.at + 1)
            self.end -= 2

    def read_word(self, *, subscripts: bool = False) -> BashWord:
        """Read the word at the position; an empty word if none starts there."""
        self.spend()
        text, start = self.text, self.at
        run = RUN.match(text, start, self.end)
        if run and not (subscripts and "[" in run.group()):
            stop = run.end()
            if stop >= self.end or text[stop] in " \t\n|&;)":
                self.at = stop
                return BashWord(start, stop, [Lit(run.group(), False)], run.group())
        return self._read_parts(start, subscripts)

    def _read_parts(self, start: int, subscripts: bool) -> BashWord:
        parts: list[Part] = []
        bare = True
        while self.at < self.end:
            self.spend()
            character = self.text[self.at]
            if character in " \t\n|&;)":
                break
            if character in "<>":
                if self.joins:
                    self.join()
                if self.char(1) != "(":
                    break
                self.at += 2
                parts.append(self._read_substitution("process", quoted=False, name=character))
            elif character == "(":
                if not self._read_parenthesis(parts, bare):
                    break
            elif character == "\\":
                if self.char(1) == "\n":
                    self.at += 2
                    continue
                parts.append(Lit(self.char(1) or "\\", True))
                self.at = min(self.at + 2, self.end)
            elif character in "'\"`$":
                parts.extend(self.read_expansion(character))
            else:
                run = RUN.match(self.text, self.at, self.end)
                if run is None:
                    raise UnknownSyntax(self.at, "a word")
                piece = run.group()
                if subscripts and bare and "[" in piece and self._read_subscript(parts, piece):
                    continue
                self.at = run.end()
                last = parts[-1] if parts else None
                if isinstance(last, Lit) and not last.quoted:
                    last.text += piece
                else:
                    parts.append(Lit(piece, False))
                continue
            bare = False
        text = "".join(part.text for part in parts if isinstance(part, Lit))
        return BashWord(start, self.at, parts, text if bare else None)

    def _read_subscript(self, parts: list[Part], piece: str) -> bool:
        """Read `name[…]` where an assignment may start, including blanks inside the brackets."""
        name = piece[: piece.index("[")]
        if parts or not name.isidentifier():
            return False
        self.at += len(name) + 1
        parts.append(Lit(name + "[", False))
        opened = self.at
        inner = self.read_matched("[", "]", BRACKET_RUN)
        parts.append(Dyn("subscript", self.text[opened : self.at - 1], False, inner))
        parts.append(Lit("]", False))
        return True

    def _read_parenthesis(self, parts: list[Part], bare: bool) -> bool:
        """Read an array value or an extended glob; return False if the parenthesis is not part of the word."""
        last = parts[-1] if parts else None
        if not isinstance(last, Lit) or last.quoted:
            return False
        if last.text.endswith("="):
            before = "".join(part.text if isinstance(part, Lit) else "x" for part in parts)
            if ARRAY_PREFIX.fullmatch(before):
                parts.append(Dyn("array", "", False, self._read_array()))
                return True
        negation = bare and len(parts) == 1 and last.text == "!"
        if last.text[-1:] in ("?", "*", "+", "@", "!") and self.char(1) not in (")", "") and not negation:
            self.at += 1
            start = self.at
            inner = self.read_matched("(", ")", ARITH_RUN)
            parts.append(Dyn("glob", self.text[start - 1 : self.at], False, inner))
            return True
        return False

    def _read_array(self) -> list[Part]:
        opened = self.at
        self.at += 1
        elements: list[Part] = []
        while True:
            self.skip_blanks()
            character = self.char()
            if not character:
                raise Unclosed(opened, "parenthesis (()")
            if character == "\n":
                self.at += 1
            elif character == ")":
                self.at += 1
                return elements
            else:
                before = self.at
                word = self.read_word()
                if self.at == before:
                    raise UnknownSyntax(self.at, "an array")
                elements.append(Dyn("element", word.bare or "", False, word.parts))

    def read_expansion(self, character: str) -> list[Part]:
        """Read the quotation or expansion at the position, outside double quotes."""
        self.spend()
        if character == "'":
            return [Lit(self._read_single(), True)]
        if character == '"':
            return self._read_double()
        if character == "`":
            return [self._read_ticks(quoted=False)]
        if self.joins:
            self.join()
        following = self.char(1)
        if following == "'":
            return [Lit(self._read_ansi(), True)]
        if following == '"':
            self.at += 1
            return self._read_double()
        return [self._read_dollar(quoted=False)]

    def _read_single(self) -> str:
        closing = self.text.find("'", self.at + 1, self.end)
        if closing < 0:
            raise Unclosed(self.at, "single quote (')")
        value = self.text[self.at + 1 : closing]
        self.at = closing + 1
        return value

    def _read_ansi(self) -> str:
        found = QUOTE_END.match(self.text, self.at + 2, self.end)
        stop = found.end() if found else self.end
        if stop >= self.end:
            raise Unclosed(self.at + 1, "single quote (')")
        value = self.text[self.at + 2 : stop]
        self.at = stop + 1
        return decode_ansi(value)

    def _read_double(self) -> list[Part]:
        opened = self.at
        self.at += 1
        parts: list[Part] = [Lit("", True)]
        while self.at < self.end:
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return parts
            self._read_quoted_piece(parts, character, DOUBLE_RUN, '$`"\\')
        raise Unclosed(opened, 'double quote (")')

    def _read_quoted_piece(self, parts: list[Part], character: str, run: re.Pattern[str], escapable: str) -> None:
        self.spend()
        if character == "\\":
            following = self.char(1)
            if following == "\n":
                self.at += 2
                return
            parts.append(Lit(following if following and following in escapable else "\\" + following, True))
            self.at = min(self.at + 2, self.end)
        elif character == "$":
            parts.append(self._read_dollar(quoted=True))
        elif character == "`":
            parts.append(self._read_ticks(quoted=True))
        else:
            found = run.match(self.text, self.at, self.end)
            stop = found.end() if found else self.at + 1
            parts.append(Lit(self.text[self.at : stop], True))
            self.at = stop

    def read_body(self, start: int, stop: int) -> list[Part]:
        """Read the expansions in a here-document's body, or in any text that bash expands like one."""
        kept = self.at, self.end
        self.at, self.end = start, stop
        joined = len(self.joined)
        parts: list[Part] = []
        while self.at < self.end:
            self._read_quoted_piece(parts, self.text[self.at], BODY_RUN, "$`\\")
        shrunk = 2 * (len(self.joined) - joined)
        self.at, self.end = kept[0] - shrunk if kept[0] >= stop else kept[0], kept[1] - shrunk
        return parts

    def _read_dollar(self, *, quoted: bool) -> Part:
        if self.joins and self.text.startswith("\\\n", self.at + 1):
            self.join()
        following = self.char(1)
        if following == "(":
            if self.joins:
                self.at += 1
                self.join()
                self.at -= 1
            if self.char(2) == "(":
                start = self.at
                inner = self.read_arithmetic(start + 3)
                if inner is not None:
                    return Dyn("arith", "", quoted, inner)
                self.at = start  # a substitution that starts with a subshell
                return self._read_subshells(quoted)
            self.at += 2
            return self._read_substitution("command", quoted=quoted)
        if following == "{":
            return self._read_braced(quoted)
        if following == "[":
            self.at += 2
            return Dyn("arith", "", quoted, self.read_matched("[", "]", BRACKET_RUN))
        found = PARAMETER.match(self.text, self.at + 1, self.end)
        if found is None:
            self.at += 1
            return Lit("$", True)
        self.at = found.end()
        return Dyn("param", found.group(), quoted, [])

    def _read_subshells(self, quoted: bool) -> Dyn:
        """Read a `$((…)` that is not arithmetic; never call it broken, because bash may read it as arithmetic."""
        start = self.at
        self.at += 2
        try:
            return self._read_substitution("command", quoted=quoted)
        except Unclosed as fault:
            if "${" in self.text[start : self.end]:
                raise UnknownSyntax(fault.at, "an expansion in parentheses") from None
            raise

    def read_arithmetic(self, start: int) -> list[Part] | None:
        """Read an arithmetic expression up to its `))`; return None if a single `)` shows that it is not one."""
        self.at = start
        depth = self.depth
        try:
            inner = self.read_matched("(", ")", ARITH_RUN)
        except Unclosed:
            self.depth = depth
            return None
        if self.char() != ")":
            return None
        self.at += 1
        return inner

    def _read_substitution(self, kind: str, *, quoted: bool, name: str = "") -> Dyn:
        opened = self.at - 1
        self.deeper()
        script = self.read_substituted()
        if self.char() != ")":
            raise Unclosed(opened, "parenthesis (()")
        self.at += 1
        self.depth -= 1
        return Dyn(kind, name, quoted, [], script)

    def _read_ticks(self, *, quoted: bool) -> Dyn:
        found = TICKED.match(self.text, self.at + 1, self.end)
        stop = found.end() if found else self.end
        if stop >= self.end:
            raise Unclosed(self.at, "backquote (`)")
        inside = self.text[self.at + 1 : stop]
        if "\\" in inside:
            inside = re.sub(r'\\([$`\\"])' if quoted else r"\\([$`\\])", r"\1", inside)
        self.deeper()
        script = self.read_nested(inside, self.at)
        self.depth -= 1
        self.at = stop + 1
        return Dyn("command", "", quoted, [], script)

    def _read_braced(self, quoted: bool) -> Dyn:
        opened = self.at
        self.at += 2
        if self.char() and self.char() in " \t\n|(":
            raise UnknownSyntax(self.at, "a substitution in braces")
        found = BRACED_NAME.match(self.text, self.at, self.end)
        name = (found.group(1) if found else "") or ""
        inner: list[Part] = []
        self.deeper()
        while self.at < self.end:
            character = self.text[self.at]
            if character == "}":
                whole = self.text[opened : self.at]
                self.at += 1
                self.depth -= 1
                several = "[@]" in whole or "[*]" in whole or "@" in whole[2:4]
                return Dyn("prompt" if whole.endswith("@P") else "param", name, quoted and not several, inner)
            # Bash reads a subscript twice, so single quotes do not prevent expansion there.
            subscript = character == "'" and found is not None and self._in_subscript(found.end())
            self._read_inside(inner, character, BRACE_RUN, quoted or subscript)
        raise Unclosed(opened + 1, "brace ({)")

    def _in_subscript(self, start: int) -> bool:
        return self.text.startswith("[", start) and self.text.find("]", start, self.at) < 0

    def read_matched(self, opener: str, closer: str, run: re.Pattern[str]) -> list[Part]:
        """Read up to the matching bracket, through quotes and expansions; the opener was already read."""
        opened = self.at - 1
        inner: list[Part] = []
        level = 1
        self.deeper()
        while self.at < self.end:
            character = self.text[self.at]
            if character == opener:
                self.spend()
                level += 1
                self.at += 1
            elif character == closer:
                level -= 1
                self.at += 1
                if not level:
                    self.depth -= 1
                    return inner
            else:
                self._read_inside(inner, character, run, quoted=False)
        raise Unclosed(opened, "parenthesis (()" if opener == "(" else "bracket ([)")

    def _read_inside(self, inner: list[Part], character: str, run: re.Pattern[str], quoted: bool) -> None:
        self.spend()
        if character == "\\":
            inner.append(Lit(self.char(1), True))
            self.at = min(self.at + 2, self.end)
        elif character == "'":
            start = self.at + 1
            value = self._read_single()
            # Inside double quotes bash pairs single quotes, but still expands the text between them.
            if quoted and ("$" in value or "`" in value):
                inner.extend(self.read_body(start, self.at - 1))
            else:
                inner.append(Lit(value, True))
        elif character == '"':
            inner.extend(self._read_double())
        elif character == "`":
            inner.append(self._read_ticks(quoted=quoted))
        elif character == "$":
            if self.joins:
                self.join()
            if self.char(1) == "'" and not quoted:
                inner.append(Lit(self._read_ansi(), True))
            elif self.char(1) == '"' and not quoted:
                self.at += 1
                inner.extend(self._read_double())
            else:
                inner.append(self._read_dollar(quoted=quoted))
        elif character in "<>" and self.char(1) == "(" and not quoted and run is BRACE_RUN:
            self.at += 2
            inner.append(self._read_substitution("process", quoted=False, name=character))
        else:
            found = run.match(self.text, self.at, self.end)
            stop = found.end() if found else self.at + 1
            inner.append(Lit(self.text[self.at : stop], False))
            self.at = stop


def decode_ansi(value: str) -> str:
    """Decode the content of `$'…'`; as in bash, a NUL ends it."""
    return ANSI.sub(_decode_escape, value).split("\0", 1)[0] if "\\" in value else value


def _decode_escape(found: re.Match[str]) -> str:
    short, four, eight, octal, control, other = found.groups()
    if short or octal:
        return chr(int(short, 16) if short else int(octal, 8) & 0xFF)
    if four or eight:
        code = int(four or eight, 16)
        return chr(code) if code < 0x110000 else ""
    if control:
        return chr(ord(control) & 0x1F)
    return SIMPLE_ESCAPES.get(other, "\\" + other)
