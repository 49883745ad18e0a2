"""Decides whether the value after a secret-like name is a secret.

Judges one value at a time, by its first 128 characters; `names` and `assignments` find names and values. Non-ASCII
characters may come as UTF-8 bytes decoded as Latin-1.
"""

import re
from enum import IntEnum

from shiftlog.guard.secrets.detectors import words as word_lists
from shiftlog.guard.secrets.detectors.words import NUMBERED_WORDS, PLAIN_WORDS, split_words

JUDGED_CHARS = 128
_MIN_CHARS = 4
_MIN_TOKEN_CHARS = 8


class Need(IntEnum):
    """How much a value must look like a secret, given its name."""

    ANY = 0  # headers and keys of JSON objects: everything but references, placeholders and types
    PLAIN = 1  # passwords: a plain word is enough
    MIXED = 2  # secrets and compound tokens: more than a word that code uses as a name
    DIGITS = 3  # a bare `token`: letters and digits together
    RANDOM = 4  # most keys, arguments: only random values


class Notation(IntEnum):
    """How the value is written, as far as the line shows."""

    CODE = 0  # `name = value`, arguments: an unquoted identifier is a variable
    CONFIG = 1  # `name: value` to the end of its line: an unquoted word is a literal
    SHELL = 2  # `NAME=value`, `--flag value`: everything is a literal
    DATA = 3  # a JSON value, a header: everything is a literal


_MASKED = re.compile(
    r"\*{3,}|[xX]{4,}|\.{3,}|(?:\xe2\x80\xa2){2,}|\xe2\x80\xa6|_{4,}|-{4,}|#{4,}"
    r"|(?i:redacted|<hidden>|\[hidden\]|\[filtered\])"
)
_PLACEHOLDER = re.compile(
    r"(?i)\b(?:your|insert|replace|change)[-_ ]?(?:me|this|it|with|my|own|the)?\b[-_ ]|^(?:your|my)[-_]"
    r"|\bplaceholder\b|^change[-_]?(?:me|it|this)|[-_ ]here$|^(?:todo|tbd|fixme|n/?a)$"
)
_REFERENCE = re.compile(
    r"\$\{\{[^}]*\}\}|\$\{[^}]*\}?|\$\([^)]*\)?|^\$[A-Za-z_][\w:.]*|\$[A-Z_][A-Z0-9_]+|^\$[0-9@*#]$"  # shells
    r"|%[A-Za-z_]\w*%|%\(\w+\)s|%[sdv]|\{\{[^}]*\}?\}?|\{[A-Za-z_][\w.()\[\]'\"!: -]*\}|\{\d?\}"  # templates
    r"|<[A-Za-z_/!|][^<>]{0,80}>|#\{[^}]*\}|@[A-Z_]{3,}@|\\\([^)]*\)"
)
_CODE_START = re.compile(
    r"(?:new|await|async|yield|lambda|function|fn|func|def|return|typeof|not|if|else|ref|out|mut|const|let|var)\b[ (]"
    r"|[&*!~?]{0,2}[A-Za-z_][\w$]*(?:(?:\.|::|->|\?\.|!\.)[A-Za-z_$][\w$]*)*"  # a name, then a call, subscript, union
    r"(?:[!?]?(?:<[\w\[\], .&'|?]*>|\[[\w\[\], .&'|?\"]*\])?\(|\[|<(?![\s/])| \||\s*\?\?|\s*\|\|)"
    r"|[\[({]|[&*]?mut\b|\*+[a-z]+\b|&'?[a-z]+\b|!\w+\b(?=\s|$)|@\w+\.|\\?[\"'`]"
)
_DOTTED = re.compile(
    r"[&*!]{0,2}[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.|!\.)(?:[A-Za-z_$][\w$]*|\d{1,2}))+[;,)]*$", re.ASCII
)
_IDENTIFIER = re.compile(r"[&*]{0,2}[A-Za-z_$][\w$]*$", re.ASCII)
_NUMBER = re.compile(r"#[0-9a-fA-F]{3,8}$|[-+]?\d+(?:[.:,_]\d+)*(?:[a-zA-Z%]{1,3})?$|0x[0-9a-fA-F]{1,8}$")
_PATH = re.compile(
    r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?>(?:[\w.@+ ={}$*-]++[/\\]?+)*)$"
    r"|(?>(?:[\w.@-]++/)+)[\w@-]+(?:\.[A-Za-z]\w{0,4})?$|[\w-]++\.[a-z]{2,4}$",
    re.ASCII,
)
_URL = re.compile(r"[a-z][a-z0-9+.-]{1,20}://|mailto:|urn:|arn:", re.I)
_DIGEST = re.compile(r"(?:sha(?:1|256|384|512)|md5)[:-][A-Za-z0-9+/=]+$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_VERSION = re.compile(r"[vV^~>=<]{0,2}\d+(?:\.\d+){1,3}(?:[-+][\w.]+)?$", re.ASCII)
_WORDS_ONLY = re.compile(r"[A-Za-z_. :/,!?'()-]+$")
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{6,}", re.I)
_ODD_CASE = re.compile(r"[a-z][A-Z](?![a-z]{2})|[A-Z][a-z][A-Z]")
_CASE_TURN = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")
_DIGIT_TURN = re.compile(r"(?<=[0-9])(?=[^0-9])|(?<=[^0-9])(?=[0-9])")
_HEX = re.compile(r"[0-9a-fA-F-]+$")
_PART = re.compile(r"[A-Za-z0-9]+")
_WORDED_PART = re.compile(
    r"(?>(?:(?>[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z]))(?:\d{1,4}(?!\d))?)*)(?:[A-Z]?[a-z]+|[A-Z]+)?\d{0,4}|v?\d+"
)
_EXPRESSION = re.compile(r"\[[^\]]+\][+*?{]|\\[dwsbDWSB]\b|\(\?|\.[*+]|^\^|^(?:qr|m)?/\^|^qr/|^/.+/[a-z]{1,3}$")
_LOOKUPS = ("os.environ", "os.getenv", "process.env", "System.getenv", "ENV[", "import.meta.env")
_NO_VALUE = word_lists.TYPE_WORDS | {"none", "null", "true", "false", "undefined", "required"}
# Without label words that are common passwords.
_LABELS = PLAIN_WORDS - frozenset("all any app code db end first last off on out strong word".split())


def is_random(value: str) -> bool:
    """Return True if a value without spaces looks random rather than chosen by a person."""
    if len(value) < 12 or " " in value:
        return False
    digits = sum(map(str.isdigit, value))
    letters = sum(map(str.isalpha, value))
    if letters == 0:
        return False
    if _HEX.match(value):
        return len(value) >= 16 and digits >= 2 and letters >= 2
    if len(value) >= 16 and len(_CASE_TURN.findall(value)) >= 0.42 * (len(value) - 1):
        return True
    if digits == 0:
        odd = _CONSONANTS.search(value) is not None or len(_ODD_CASE.findall(value)) >= 3
        return len(value) >= 16 and odd
    turns = len(_DIGIT_TURN.findall(value))
    return turns >= 2 and (turns >= 4 or len(value) >= 20) and not is_worded(value)


def is_worded(value: str) -> bool:
    """Return True if a value consists of words and numbers, as names and labels do."""
    parts = _PART.findall(value)
    worded = sum(len(part) for part in parts if _WORDED_PART.fullmatch(part))
    return worded >= 0.8 * sum(map(len, parts))


def is_reference(value: str) -> bool:
    """Return True if a value refers to a secret or replaces one, as `$NAME`, `<your-key>` or `***` do."""
    if _MASKED.search(value) or _PLACEHOLDER.search(value):
        return True
    rest, references = _REFERENCE.subn("", value)
    if not references:
        return False
    return not (any(map(str.isdigit, rest)) and sum(map(str.isalnum, rest)) >= 6)


def is_secret(value: str, *, need: Need, notation: Notation, quoted: bool, context: str = "") -> bool:
    """Judge a value by the need of its name and by its notation.

    `context` is the text from the value to the end of its line: it shows calls and types.
    """
    value = value[:JUDGED_CHARS].strip()
    if len(value) < _MIN_CHARS or is_reference(value):
        return False
    code = not quoted and notation in (Notation.CODE, Notation.CONFIG)
    if code and (_CODE_START.match(context[:JUDGED_CHARS]) or _DOTTED.match(value)):
        return False
    if _DIGEST.match(value) or value.startswith(_LOOKUPS):
        return False
    if need == Need.ANY:
        return value.lower() not in _NO_VALUE
    if _has_other_shape(value, need):
        return False
    if " " in value:
        return _is_passphrase(value, need)
    if code and _IDENTIFIER.match(value):
        return _is_bare_word_secret(value, need, alone=notation == Notation.CONFIG and context.strip() == value)
    if is_random(value):
        return True
    if need == Need.RANDOM:
        return False
    if _WORDS_ONLY.match(value):
        return need < Need.DIGITS and _is_word_secret(value, need, notation)
    return need == Need.PLAIN or (_is_mixed(value) and (need == Need.MIXED or _has_letters_and_digits(value)))


def is_path(value: str) -> bool:
    """Return True if a value is a path whose parts look chosen by people."""
    return (
        len(value) <= JUDGED_CHARS
        and _PATH.match(value) is not None
        and not any(map(is_random, re.split(r"[/\\.]", value)))
    )


def _has_other_shape(literal: str, need: Need) -> bool:
    """Return True for values that are something else: paths, URLs, versions, dates, numbers."""
    if _URL.match(literal) or _VERSION.match(literal) or _DATE.match(literal) or _EXPRESSION.search(literal):
        return True
    if is_path(literal):
        return True
    if _NUMBER.match(literal):
        digits = sum(map(str.isdigit, literal))
        return digits < (_MIN_CHARS if need == Need.PLAIN else 6) or (need == Need.RANDOM and digits < 16)
    return False


def _is_passphrase(literal: str, need: Need) -> bool:
    words = literal.lower().split()
    if need >= Need.DIGITS or len(words) > 24:
        return False
    stripped = [word.strip(".,:;!?'\"()") for word in words]
    if any(word in word_lists.PROSE_WORDS for word in stripped):
        return False
    return not all(word in PLAIN_WORDS for part in stripped for word in split_words(part))


def _is_bare_word_secret(literal: str, need: Need, *, alone: bool) -> bool:
    """Judge an unquoted identifier: in code it is a variable, alone after `name:` it is a value."""
    has_digit = any(map(str.isdigit, literal))
    words = split_words(literal)
    if is_random(literal) and (len(words) > 3 or not has_digit):
        return True
    if alone and need == Need.PLAIN and sum(map(str.isdigit, literal)) >= 2 and NUMBERED_WORDS.isdisjoint(words[:1]):
        return True
    if any(word in _LABELS for word in words) or need == Need.RANDOM or not literal[0].isalpha():
        return False
    if need == Need.DIGITS and (sum(map(str.isdigit, literal)) < 2 or len(literal) < _MIN_TOKEN_CHARS):
        return False
    if has_digit:
        typed = literal[0].isupper() and not (alone and need == Need.PLAIN)
        return NUMBERED_WORDS.isdisjoint(words[:1]) and not typed and "_" not in literal
    return alone and need == Need.PLAIN and literal.islower() and literal.isalpha()


def _is_word_secret(literal: str, need: Need, notation: Notation) -> bool:
    """Judge a literal without digits: a chosen password, or the name of something."""
    words = split_words(literal)
    if PLAIN_WORDS.issuperset(words) or not word_lists.FUNCTION_WORDS.isdisjoint(words[:1]):
        return False
    if need == Need.PLAIN:
        return True
    single = literal.isalpha() and (literal.islower() or notation == Notation.SHELL)
    return single and (len(literal) >= 8 or notation == Notation.SHELL) and literal.lower() not in PLAIN_WORDS


def _has_letters_and_digits(literal: str) -> bool:
    return any(map(str.isdigit, literal)) and any(map(str.isalpha, literal)) and len(literal) >= _MIN_TOKEN_CHARS - 2


def _is_mixed(literal: str) -> bool:
    words = split_words(literal)
    if all(word in PLAIN_WORDS or word in NUMBERED_WORDS or word.isdigit() for word in words):
        return False
    # One word and a short number, as in `step-3` and `item1`, is a name.
    if len(words) <= 2 and not NUMBERED_WORDS.isdisjoint(words[:1]):
        return False
    return sum(map(str.isalnum, literal)) >= _MIN_CHARS
