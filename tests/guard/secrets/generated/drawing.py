"""Draws samples: a context, a name, values and an encoding; and scores a masking on them.

Failures in held-out contexts are counted, never printed, so that no rule is written for them.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.guard.secrets.corpus import PLACEHOLDER, Case, draw_alphabet
from tests.guard.secrets.generated import (
    everyday_contexts,
    further_contexts,
    held_out_contexts,
    innocent_contexts,
    secret_contexts,
    wider_innocent_contexts,
    wider_secret_contexts,
)
from tests.guard.secrets.generated.values import FILLERS, NAMES, PASSWORD_NAMES, STYLES

_FIELD = re.compile(
    r"\{(?:(?P<p>p\.)?(?P<style>NAME|name|kebab|dotted|camel|Title|spaced)|(?P<filler>[A-Za-z]+)|(?P<alphabet>b64|[A-Za-z]+)(?P<size>\d+))\}"
)
_SALT = "".join(chr(code) for code in range(33, 126) if chr(code) not in "'\\")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A template, and whether its failures may be looked at."""

    template: str
    section: str
    secret: bool
    held_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A drawn case and the context that it came from."""

    context: Context
    encoding: str
    case: Case


def _read_contexts(table: str, *, secret: bool, held_out: bool = False) -> list[Context]:
    contexts: list[Context] = []
    section = ""
    for line in table.splitlines():
        if line.startswith("# "):
            section = line[2:]
        elif line:
            contexts.append(Context(template=line, section=section, secret=secret, held_out=held_out))
    return contexts


CONTEXTS = [
    *_read_contexts(secret_contexts.CONTEXTS, secret=True),
    *_read_contexts(innocent_contexts.CONTEXTS, secret=False),
    *_read_contexts(further_contexts.SECRETS, secret=True),
    *_read_contexts(further_contexts.INNOCENT, secret=False),
    *_read_contexts(everyday_contexts.SECRETS, secret=True),
    *_read_contexts(everyday_contexts.INNOCENT, secret=False),
    *_read_contexts(wider_secret_contexts.CONTEXTS, secret=True),
    *_read_contexts(wider_innocent_contexts.CONTEXTS, secret=False),
    *_read_contexts(held_out_contexts.SECRETS, secret=True, held_out=True),
    *_read_contexts(held_out_contexts.INNOCENT, secret=False, held_out=True),
]

Mark = tuple[str, ...]  # pieces: innocent, secret, innocent, …


def _draw_field(match: re.Match[str], rng: random.Random, names: dict[str, tuple[str, ...]]) -> str:
    if match["style"]:
        return STYLES[match["style"]](names["p." if match["p"] else ""])
    if match["alphabet"]:
        size = int(match["size"])
        return (
            "".join(rng.choices(_SALT, k=size))
            if match["alphabet"] == "salt"
            else draw_alphabet(rng, match["alphabet"], size)
        )
    if match["filler"] == "pw":
        return FILLERS["strong"](rng)[:8]
    drawn = FILLERS.get(match["filler"])
    return drawn(rng) if drawn else match[0]


def _draw_pieces(template: str, rng: random.Random) -> Mark:
    names: dict[str, tuple[str, ...]] = {"": rng.choice(NAMES), "p.": rng.choice(PASSWORD_NAMES)}
    text = template.replace("⏎", "\n").replace("⇥", "\t")
    pieces = re.split("[⟦⟧]", text)
    return tuple(_FIELD.sub(lambda match: _draw_field(match, rng, names), piece) for piece in pieces)


def _prefix(prefix: str) -> Callable[[str], str]:
    return lambda piece: piece.replace("\n", "\n" + prefix)


def _escape_json(piece: str) -> str:
    return json.dumps(piece, ensure_ascii=False)[1:-1]


#: How a text may be written: the function of each piece, and what stands before and after the whole.
_Encoding = tuple[Callable[[str], str], str, str]
ANY_LINES: dict[str, _Encoding] = {
    "plain": (str, "", ""),
    "between lines": (str, "first line\n", "\nlast line\n"),
    "indented": (_prefix("    "), "    ", ""),
    "windows": (lambda piece: piece.replace("\n", "\r\n"), "", "\r\n"),
}
ONE_LINE: dict[str, _Encoding] = {
    **ANY_LINES,
    "added line of a diff": (str, "+", ""),
    "removed line of a diff": (str, "-  ", ""),
    "numbered": (str, "   12\t", ""),
    "quoted": (str, "> ", ""),
    "comment": (str, "# ", ""),
    "slash comment": (str, "// ", ""),
    "found by grep": (str, "src/app/main.conf:14:", ""),
    "JSON string": (_escape_json, '{"type":"text","text":"', '"}'),
    "second line of a JSON string": (_escape_json, '{"text":"first line\\n', '\\nlast line"}'),
}


def draw_sample(context: Context, rng: random.Random) -> Sample:
    """Draw the texts of a context and write them in one encoding."""
    pieces = _draw_pieces(context.template, rng)
    encodings = ANY_LINES if "\n" in "".join(pieces) or context.template.startswith("^") else ONE_LINE
    name = "plain" if rng.random() < 0.3 else rng.choice(list(encodings))
    encode, before, after = encodings[name]
    text, spans = before, list[tuple[int, int]]()
    for index, piece in enumerate(pieces):
        piece = encode(piece)
        if index % 2:
            spans.append((len(text), len(text) + len(piece)))
        text += piece
    return Sample(context=context, encoding=name, case=Case(text=text + after, spans=tuple(spans)))


def draw_samples(seed: int, count: int) -> Iterator[Sample]:
    """Draw as many samples, from every context in turn."""
    rng = random.Random(seed)
    for index in range(count):
        yield draw_sample(CONTEXTS[index % len(CONTEXTS)], rng)


@dataclass(slots=True)
class Tally:
    """What a masking did to samples: secrets masked and leaked, innocent texts changed, and where."""

    masked: int = 0
    leaked: int = 0
    mistaken: int = 0
    samples: int = 0
    failures: Counter[Context] = field(default_factory=Counter[Context])
    examples: dict[Context, tuple[Sample, str]] = field(default_factory=dict[Context, tuple[Sample, str]])

    @property
    def recall(self) -> float:
        return self.masked / max(1, self.masked + self.leaked)

    @property
    def precision(self) -> float:
        return self.masked / max(1, self.masked + self.mistaken)

    def add(self, sample: Sample, masked: str) -> None:
        """Count one sample: a secret leaked if half of it is still visible, and more than secrets is a mistake."""
        self.samples += 1
        if sample.case.is_masked_exactly(masked):
            self.masked += len(sample.case.spans)
            return
        leaked = sum(_is_visible(secret, masked) for secret in sample.case.secrets)
        mistaken = _is_mistaken(sample.case, masked, leaked)
        self.leaked += leaked
        self.masked += len(sample.case.spans) - leaked
        self.mistaken += mistaken
        if leaked or mistaken:
            self.failures[sample.context] += 1
            self.examples.setdefault(sample.context, (sample, masked))


def _is_visible(secret: str, masked: str) -> bool:
    """Return True if half of a secret, and at least four characters of it, can still be read."""
    size = max(4, len(secret) // 2)
    return any(secret[start : start + size] in masked for start in range(max(1, len(secret) - size + 1)))


def _is_mistaken(case: Case, masked: str, leaked: int) -> bool:
    """Return True if something else than a secret was masked: compare what is left around the placeholders."""
    if case.innocent:
        return True
    outside = [case.text[: case.spans[0][0]], case.text[case.spans[-1][1] :]]
    kept = re.split(PLACEHOLDER, masked)
    if leaked:
        return len(kept) > 1 and leaked == len(case.spans)
    return not (kept[0] == outside[0] and kept[-1].strip("\"'`,;.) \n") == outside[1].strip("\"'`,;.) \n"))


def tally(mask: Callable[[str], str], samples: Iterable[Sample]) -> tuple[Tally, Tally]:
    """Score a masking on looked-at and on held-out contexts."""
    seen, held_out = Tally(), Tally()
    for sample in samples:
        (held_out if sample.context.held_out else seen).add(sample, mask(sample.case.text))
    return seen, held_out
