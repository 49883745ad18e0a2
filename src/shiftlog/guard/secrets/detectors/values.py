"""Decides whether the value after a secret-like name is a secret.

Judges one value at a time, by its first 128 characters; `names` and `assignments` find names and values. Non-ASCII
characters may come as UTF-8 bytes decoded as Latin-1.
"""

import re
from enum import IntEnum

from shiftlog.guard.linear import compile_linear, tells_whether
from shiftlog.guard.secrets.detectors import words as word_lists
from shiftlog.guard.secrets.detectors.language.bigrams import randomness
from shiftlog.guard.secrets.detectors.language.foreign import FOREIGN_NAME
from shiftlog.guard.secrets.detectors.words import NUMBERED_WORDS, PLAIN_WORDS, split_words

JUDGED_CHARS = 128
_MIN_CHARS = 4
_MIN_TOKEN_CHARS = 8
_MIN_KEY_CHARS = 12
_RANDOM_BITS = 14


class Need(IntEnum):
    """The degree to which a value must look like a secret, given its name."""

    ANY = 0  # headers and keys of JSON objects: everything but references, placeholders and types
    PLAIN = 1  # passwords: a plain word is enough
    MIXED = 2  # secrets and compound tokens: more than a word that code uses as a name
    DIGITS = 3  # a bare `token`: letters and digits together
    RANDOM = 4  # most keys, arguments: only random values


class Notation(IntEnum):
    """The form in which the value is written, as far as the line shows."""

    CODE = 0  # `name = value`, arguments: an unquoted identifier is a variable
    CONFIG = 1  # `name: value` to the end of its line: an unquoted word is a literal
    SHELL = 2  # `NAME=value`, `--flag value`: everything is a literal
    DATA = 3  # a JSON value, a header: everything is a literal


_MASKED = re.compile(
    r"\*{3,}|[xX]{6,}|(?<!\w)[xX]{3,}(?!\w)|\.{3,}|(?:\xe2\x80\xa2){2,}|\xe2\x80\xa6|_{4,}"
    r"|-{4,}|#{4,}"
    r"|(?i:redacted|<hidden>|\[hidden\]|\[filtered\])"
)
_PLACEHOLDER = re.compile(
    r"(?i)^\.[*+]|\b(?:your|insert|replace|change)[-_ ]?(?:me|this|it|with|my|own|the)?\b[-_ ]|^(?:your|my)[-_]"
    r"|\bplaceholder\b|^change[-_]?(?:me|it|this)|[-_ ]here$|^(?:todo|tbd|fixme|n/?a)$|^(?:required|nullable"
    r"|sometimes|string|confirmed)\|"
)
_REFERENCE = re.compile(
    r"\$\{\{[^}]*\}\}|\$\{[^}]*\}|^\$\{|\$\([^)]*\)|^\$\(|^\$[A-Za-z_][\w:.]*|\$[A-Z_][A-Z0-9_]+|^\$[0-9@*#]$"
    r"|^:[A-Za-z_]\w*$"  # shells, SQL
    r"|%[A-Za-z_]\w*%|%\(\w+\)s|%[sdv]|\{\{[^}]*\}\}|^\{\{|\{[A-Za-z_][\w.()\[\]'\"!: -]*\}|\{\d?\}"  # templates
    r"|^(?:env|file|fd|vault|op|ssm|sops|keychain|ref\+\w{1,20}):(?=[/\w])\S+$"
    r"|<[A-Za-z_/!|][^<>]{0,80}>|#\{[^}]*\}|@[A-Z_]{3,}@|^@[\w.-]{3,64}@$|\\\([^)]*\)"
)
_CODE_START = re.compile(
    r"(?:new|await|async|yield|lambda|function|fn|func|def|return|typeof|not|if|else|ref|out|mut|const|let"
    r"|var)\b[ (:]"
    r"|[&*!~?]{0,2}[A-Za-z_][\w$]*(?:(?:\.|::|->|\?\.|!\.)[A-Za-z_$][\w$]*)*"  # a name, then a call, subscript, union
    r"(?:[!?]?(?:<[\w\[\], .&'|?]*>|\[[\w\[\], .&'|?\"]*\])?\(|\[|<(?![\s/])| \||\s*\?\?|\s*\|\|)"
    r"|&?(?:\w+\.)+\w+\{|&?[A-Z]\w*\{|\?\w|[A-Za-z_]\w*(?:->|&\.|::)\w|@[a-z_]\w*(?![\w!#$%^&*+@-])"
    r"|%[wiqQ]?[\[({]|(?:null|void 0|undefined)\b"
    r"|\w+[=!]==?\w|(?:Convert(?:From|To)|Get|Import|New|Read)-[A-Z]\w+\b"  # calls of PowerShell
    r"|[\[({]|[&*]?mut\b|\*+[a-z]+\b|&'?[a-z]+\b|!\w+\b(?=[\s;,)]|$)|@\w+\.|\\?[\"'`]"
)
_DOTTED = re.compile(
    r"[&*!]{0,2}[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.|!\.)(?:[A-Za-z_$][\w$]*|\d{1,2}))+[;,)]*$", re.ASCII
)
_IDENTIFIER = re.compile(r"[&*]{0,2}[A-Za-z_$][\w$]*!?$", re.ASCII)
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
#: Commits, UUIDs, numbers, dates, addresses and versions.
OWN_THING = re.compile(
    r"[0-9a-f]{40}$|[0-9A-F]{16}$|[0-9A-F]{40}$|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
    r"|[0-9./-]+$|v?\d+(?:\.\d+){1,3}(?:[-+]\w+)*$"
)
_is_sentence = tells_whether(compile_linear(rf"\w{{2}}[.?!:]\s*$|\xc2[\xa1\xbf]|{FOREIGN_NAME}"))
_FILE = re.compile(r"\w/\w|\w\.[a-z]{2,4}\b")
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_. :/,?'()-]*$")
_SYMBOL = re.compile(r"[@!#$%^&*+=?~]")
_JOINED_NUMBER = re.compile(r"([A-Z]?[a-z]*|[A-Z]+)\d+(?=[A-Za-z])")
_VOWEL = re.compile(r"[aeiouy]", re.I)
_CLUSTER = re.compile(
    r"[bcdfghjklmnpqrstvwxz]{5,}|(?!\w{0,2}(?:str|ght|tch|spr|scr|spl|sch|thr|ck|ng))[bcdfghjklmnpqrstvwxz]{4}"
    r"|[jqvwz][bcdfghjklmnpqrstvwxz]{2}|q[^u]",
    re.I,
)
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{6,}", re.I)
_ODD_CASE = re.compile(r"[a-z][A-Z](?![a-z]{2})|[A-Z][a-z][A-Z]")
_CASE_TURN = re.compile(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[a-z0-9])|(?<=[0-9])(?=[A-Za-z])")
_DIGIT_TURN = re.compile(r"(?<=[0-9])(?=[^0-9])|(?<=[^0-9])(?=[0-9])")
_HEX = re.compile(r"[0-9a-fA-F-]+$")
_PART = re.compile(r"[A-Za-z0-9]+")
_WORDED_PART = re.compile(
    r"(?>(?:(?>[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z]))(?:\d{1,4}(?!\d))?)*)(?:[A-Z]?[a-z]+|[A-Z]+)?\d{0,4}|v?\d+"
)
_EXPRESSION = re.compile(
    r"\[[^\]]+\][+*?{]|\\[dwsbDWSB]\b|\(\?|\.[*+]|^\^|^\d*\*[A-Za-z(]|^(?:qr|m)?/\^|^qr/|^/.+/[a-z]{1,3}$"
)
_LOOKUPS = ("os.environ", "os.getenv", "process.env", "System.getenv", "ENV[", "import.meta.env")
_NO_VALUE = word_lists.TYPE_WORDS | {"none", "null", "true", "false", "undefined", "required"}
# Without label words that are common passwords.
_LABELS = PLAIN_WORDS - frozenset("all any app code db end first last off on out strong word".split())

_SECRET_WORDS = frozenset("password passwd passphrase pass pwd secret token credential credentials key".split())


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
    return randomness(value) >= _RANDOM_BITS


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
    signs = sum(map(str.isalnum, rest))
    # A dollar sign within a password looks like a variable; words beside one are a template.
    return not (signs >= 6 and (any(map(str.isdigit, rest)) or (signs >= 8 and not is_chosen(rest))))


def is_secret(
    value: str, *, need: Need, notation: Notation, quoted: bool, context: str = "", alone: bool = False
) -> bool:
    """Judge a value by the need of its name and by its notation.

    `context` is the text from the value to the end of its line: it shows calls and types. `alone`: the line is a name
    and this value, as in configuration files.
    """
    value = value[:JUDGED_CHARS].strip()
    if len(value) < _MIN_CHARS or (not quoted and value[0] in "[({<"):
        return False
    code = not quoted and notation in (Notation.CODE, Notation.CONFIG)
    if code and (_CODE_START.match(context[:JUDGED_CHARS]) or _is_dotted_name(value)):
        return False
    if is_reference(value):
        return False
    if _DIGEST.match(value) or value.startswith(_LOOKUPS):
        return False
    if need == Need.ANY:
        return value.lower() not in _NO_VALUE
    if _has_other_shape(value, need) or _is_label(value):
        return False
    if " " in value:
        return _is_passphrase(value, need)
    if code and _IDENTIFIER.match(value):
        return _is_bare_word_secret(value, need, notation, alone=alone)
    if need == Need.RANDOM:
        return is_random(value) or (len(value) >= _MIN_KEY_CHARS and not is_chosen(value) and not value.isalpha())
    return need < Need.DIGITS or not is_chosen(value) or _has_letters_and_digits(value)


def is_path(value: str) -> bool:
    """Return True if a value is a path whose parts are names that people choose."""
    return (
        len(value) <= JUDGED_CHARS
        and _PATH.match(value) is not None
        and all(map(_is_path_part, re.split(r"[/\\.]", value)))
    )


def _is_path_part(part: str) -> bool:
    return is_chosen(part) or part.isdigit() or len(part) <= 2


def is_chosen(value: str) -> bool:
    """Return True if a value is made of words, as the names of variables, files and services are."""
    words = split_words(value)
    names = [word for word in words if word.isalpha()]
    if not names or any(word not in NUMBERED_WORDS and len(word) > 1 for word in _numbered_within(value)):
        return False
    size = sum(4 if word in word_lists.ABBREVIATIONS else len(word) for word in names)
    numbers, single = len(words) - len(names), sum(len(word) == 1 for word in names)
    if numbers > max(1, len(names) // 4) or single > 1 or size < 2.8 * len(names):
        return False
    return all(
        len(word) < 4 or word in PLAIN_WORDS or word in word_lists.ABBREVIATIONS or _is_speakable(word)
        for word in names
    )


def _numbered_within(value: str) -> list[str]:
    """Return the words that a number joins to the next word, as in `base64Encode`."""
    return [word.lower() for word in _JOINED_NUMBER.findall(value)]


def is_unlike_prose(value: str) -> bool:
    """Return True if a word in a sentence is a secret: it has digits, and is neither a number nor a name."""
    if len(value) < 6 or not any(map(str.isalpha, value)):
        return False
    if not NUMBERED_WORDS.isdisjoint(split_words(value)[:1]) and is_chosen(value):
        return False
    digits = sum(map(str.isdigit, value))
    if digits == 0 or (value[0].isdigit() and len(_DIGIT_TURN.findall(value)) < 4):
        return is_random(value)
    return digits > 1 or not is_chosen(value) or _SYMBOL.search(value) is not None


def _is_speakable(word: str) -> bool:
    return _VOWEL.search(word) is not None and _CLUSTER.search(word) is None


def _is_dotted_name(value: str) -> bool:
    return _DOTTED.match(value) is not None and is_chosen(value)


def _is_label(literal: str) -> bool:
    """Return True for a name of a secret, a state or a type: `reset-token`, `Enter your password`, `expired`."""
    if not _LABEL.match(literal):
        return False
    words = split_words(literal)
    if len(words) == 1:
        return words[0] in PLAIN_WORDS
    return PLAIN_WORDS.issuperset(words) and not word_lists.FUNCTION_WORDS.issuperset(words)


def _has_other_shape(literal: str, need: Need) -> bool:
    """Return True for values that are something else: paths, URLs, versions, dates, numbers."""
    if _URL.match(literal) or _VERSION.match(literal) or _DATE.match(literal):
        return True
    if _EXPRESSION.search(literal) and not is_random(literal):
        return True
    if is_path(literal):
        return True
    if _NUMBER.match(literal):
        digits = sum(map(str.isdigit, literal))
        return digits < (_MIN_CHARS if need < Need.DIGITS else 6) or (need == Need.RANDOM and digits < 16)
    return False


def _is_passphrase(literal: str, need: Need) -> bool:
    words = literal.lower().split()
    if need >= Need.RANDOM or len(words) > 24 or _FILE.search(literal):
        return False
    stripped = [word.strip(".,:;!?'\"()") for word in words]
    if any(word in word_lists.PROSE_WORDS for word in stripped) or _is_sentence(literal.encode("latin-1", "replace")):
        return False
    return not all(word in PLAIN_WORDS for part in stripped for word in split_words(part))


def _is_bare_word_secret(literal: str, need: Need, notation: Notation, *, alone: bool) -> bool:
    """Judge an unquoted identifier: in code it is a variable or a type, alone in its line it is a value."""
    words = split_words(literal)
    if not is_chosen(literal) and len(literal) >= _MIN_TOKEN_CHARS:
        return need < Need.RANDOM or is_random(literal)
    if need == Need.RANDOM or not literal[0].isalnum():
        return False
    digits = sum(map(str.isdigit, literal))
    if any(len(word) > 2 and word in _LABELS for word in words) or (
        len(words) <= 2 and not NUMBERED_WORDS.isdisjoint(words[:1])
    ):
        return alone and need == Need.PLAIN and digits >= 2 and NUMBERED_WORDS.isdisjoint(words[:1])
    if notation == Notation.CONFIG and alone:
        return True
    if digits and need < Need.DIGITS:
        return digits > 2 or ("_" not in literal and not literal[0].isupper())
    return False


def _has_letters_and_digits(literal: str) -> bool:
    return any(map(str.isdigit, literal)) and any(map(str.isalpha, literal)) and len(literal) >= _MIN_TOKEN_CHARS - 2


def names_secret(value: str) -> bool:
    """Return True for a label such as `challengePassword` or `reset-token`, which names a secret itself."""
    words = split_words(value)
    if len(words) < 2 or not all(word.isalpha() for word in words):
        return False
    return words[-1] in _SECRET_WORDS
