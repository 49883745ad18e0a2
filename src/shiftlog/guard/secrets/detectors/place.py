r"""A place where a secret has no telling name, as a row of the tables `place_commands`, `place_files` and `place_code`.

A row gives the pattern of the place, the trigger that finds its lines in a whole text, the rule that its findings
report and an example. In a pattern `VALUE` stands for a word or a quoted text, `PAIR` for `user:VALUE` and `ANY` for
the text up to the next program. Every example is a test: ⟦ ⟧ enclose what is masked.
"""

from dataclasses import dataclass

from shiftlog.guard.secrets.detectors import kinds
from shiftlog.guard.secrets.detectors.kinds import SecretKind
from shiftlog.guard.secrets.detectors.values import Need


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place of a secret; `pattern` is for `re`, `trigger` for linear-time searches of a line.

    `hint` finds the lines in a whole text: a few fixed words, because every open end in it doubles the states of that
    search. It is empty if the trigger contains the name of a secret, and the trigger itself if nothing is given.
    """

    name: str
    pattern: str
    trigger: str
    example: str
    hint: str | None = None
    kind: SecretKind = kinds.CLI_PASSWORD
    need: Need = Need.MIXED


LINE_START = r"(?:^|(?<=\\n)|(?<=[ \t:>+#\"'-]))"
