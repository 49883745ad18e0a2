"""Why a text could not be read as bash: broken, foreign to this reader, or too much for it."""


class Fault(Exception):
    """Reading stopped at `at`."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at
        self.what = what


class Unfinished(Fault):
    """Something was opened and never closed: bash would refuse the text, too."""


class Unreadable(Fault):
    """The grammar was left; bash may or may not know better."""


class TooMuch(Fault):
    """The text is longer or deeper than a verdict in time allows."""
