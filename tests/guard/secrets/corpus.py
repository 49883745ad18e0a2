"""A labelled corpus for redaction: secrets in the places where agents meet them, and what only looks like one.

One case a line. In `SECRETS` the marks ⟦ ⟧ enclose what must be masked; everything else must survive. A name in
braces is a made-up random text of its alphabet and length (`{hex40}`), so no token stands whole in this file.
`⏎` is a line break.
"""

import base64
import random
import re
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.guard.secrets.corpus_innocent import INNOCENT
from tests.guard.secrets.corpus_secrets import SECRETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A text and the spans of it that are secrets: none in an innocent one."""

    text: str
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def innocent(self) -> bool:
        return not self.spans

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(self.text[start:end] for start, end in self.spans)

    def is_masked_exactly(self, masked: str) -> bool:
        """Tell whether every secret became a placeholder and nothing else changed."""
        pattern, position = "", 0
        for start, end in self.spans:
            pattern += re.escape(self.text[position:start]) + PLACEHOLDER
            position = end
        return re.fullmatch(pattern + re.escape(self.text[position:]), masked) is not None


PLACEHOLDER = r"\[REDACTED(?::[a-z_]+)?\]"
_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "b64": string.ascii_letters + string.digits + "+/",
    "digit": string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "lower": string.ascii_lowercase,
    "mixed": string.ascii_letters + string.digits + string.digits,
    "sym": string.ascii_lowercase + string.digits + "!@#%^&*(-_=+",
    "upper": string.ascii_uppercase + "234567",
    "url": string.ascii_letters + string.digits + "_-",
}
_NAMED = re.compile(r"\{(uuid|userpass|jwt|(b64|[A-Za-z]+)(\d+))\}")


def _draw(match: re.Match[str], rng: random.Random) -> str:
    """Make up the random text that a name in braces stands for."""
    if match[1] == "uuid":
        return "-".join("".join(rng.choices(_ALPHABETS["hex"], k=size)) for size in (8, 4, 4, 4, 12))
    if match[1] == "userpass":
        return base64.b64encode(b"bob:" + "".join(rng.choices(_ALPHABETS["alnum"], k=11)).encode()).decode()
    if match[1] == "jwt":
        claims = "".join(rng.choices(_ALPHABETS["url"], k=103))
        return f"eyJ{'hbGciOiJIUzI1NiJ9'}.eyJ{claims[:60]}.{claims[60:]}"
    return draw_alphabet(rng, match[2], int(match[3]))


def draw_alphabet(rng: random.Random, alphabet: str, size: int) -> str:
    """Make up a random text of a named alphabet."""
    return "".join(rng.choices(_ALPHABETS[alphabet], k=size))


def _read(line: str, rng: random.Random) -> Case:
    line = _NAMED.sub(lambda match: _draw(match, rng), line.replace("⏎", "\n"))
    text, spans = "", list[tuple[int, int]]()
    for index, piece in enumerate(re.split("[⟦⟧]", line)):
        if index % 2:
            spans.append((len(text), len(text) + len(piece)))
        text += piece
    return Case(text=text, spans=tuple(spans))


def _cases(lines: str, seed: int) -> list[Case]:
    rng = random.Random(seed)
    return [_read(line, rng) for line in lines.splitlines() if line and not line.startswith("# ")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How many secrets were masked, how many were not, and how much else was masked."""

    masked: int
    missed: int
    mistaken: int

    @property
    def precision(self) -> float:
        return self.masked / (self.masked + self.mistaken)

    @property
    def recall(self) -> float:
        return self.masked / (self.masked + self.missed)


def score(mask: Callable[[str], str], cases: Iterable[Case]) -> Score:
    """Count, secret by secret, what a masking does to the cases."""
    masked = missed = mistaken = 0
    for case in cases:
        text = mask(case.text)
        if case.is_masked_exactly(text):
            masked += len(case.spans)
            continue
        visible = sum(secret in text for secret in case.secrets)
        placeholders = len(re.findall(PLACEHOLDER, text)) - len(re.findall(PLACEHOLDER, case.text))
        masked += len(case.spans) - visible
        missed += visible
        mistaken += max(1, placeholders - (len(case.spans) - visible)) if not visible or placeholders else 0
    return Score(masked=masked, missed=missed, mistaken=mistaken)


def draw_cases(seed: int) -> list[Case]:
    """Make the corpus with other random texts in its braces."""
    return [*_cases(SECRETS, seed), *_cases(INNOCENT, seed + 1)]


CASES = draw_cases(7)
