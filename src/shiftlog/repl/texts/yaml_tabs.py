"""Where tabs may stand in YAML 1.2: between and after tokens and inside plain text, never in an indentation.

ruamel's scanner refuses them all. Only this is ours; everything else about tokens is ruamel's. Importing this loads it.
"""

from typing import Any

from ruamel.yaml.scanner import Scanner

_BREAKS = "\r\n"
_ENDS = "\0" + _BREAKS
_MARKERS = ("---", "...")


class TabScanner(Scanner):
    """The scanner of ruamel's safe reader, with tabs as white space."""

    def scan_to_next_token(self) -> Any:
        """Pass over white space, comments and line ends."""
        peek, forward = self._text.peek, self._text.forward
        if self._text.index == 0 and peek() == "\ufeff":
            forward()
        while True:
            while peek() == " ":
                forward()
            if peek() == "\t" and self._passes_tabs():
                continue
            if peek() == "#":
                while peek() not in _ENDS:
                    forward()
            if not self._line_end():
                return
            if not self.flow_level:
                self.allow_simple_key = True

    def scan_plain_spaces(self, indent: Any, start_mark: Any) -> Any:
        """Return the white space after a word of a plain scalar, with line ends folded; nothing ends the scalar."""
        text, length = self._text, self._blanks()
        spaces = text.prefix(length)
        text.forward(length)
        if text.peek() not in _BREAKS:
            return [spaces] if spaces else []
        self._line_end()
        self.allow_simple_key = True
        breaks: list[str] = []
        while not self._at_marker():
            while text.peek() == " ":
                text.forward()
            length = self._blanks()
            if length and (text.peek(length) in _BREAKS or self.flow_level or text.column >= indent):
                text.forward(length)
            if text.peek() not in _BREAKS:
                return breaks or [" "]
            breaks.append(self._line_end())
        return None

    @property
    def _text(self) -> Any:
        return self.reader  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def _line_end(self) -> str:
        return str(self.scan_line_break())  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]

    def _passes_tabs(self) -> bool:
        """Pass over tabs that may stand here, and tell whether they may."""
        text, length = self._text, self._blanks()
        line = text.buffer[text.pointer - text.column : text.pointer]
        if not self.flow_level and text.peek(length) not in _ENDS + "#":
            if not line.strip(" "):
                return False
            self.allow_simple_key = False  # what follows a tab opens no mapping or list inside this one
        text.forward(length)
        return True

    def _blanks(self) -> int:
        length = 0
        while self._text.peek(length) in " \t":
            length += 1
        return length

    def _at_marker(self) -> bool:
        """Tell whether the next line begins or ends a document."""
        text = self._text
        return text.column == 0 and text.prefix(3) in _MARKERS and text.peek(3) in _ENDS + " \t"
