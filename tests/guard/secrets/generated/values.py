"""Random secrets of many kinds, random names that announce them, and random things that only look like secrets."""

import base64
import random
import string
from collections.abc import Callable

Draw = Callable[[random.Random], str]

_ALNUM = string.ascii_letters + string.digits
_BASE64 = _ALNUM + "+/"
_URL64 = _ALNUM + "_-"
_HEX = "0123456789abcdef"
_WORDS = """
amber anchor apple arrow autumn badger bamboo basket battery beacon blue bottle branch breeze bridge butter
candle canyon carpet castle cedar cherry circle copper coral correct cotton cricket dolphin dragon eagle ember
falcon feather ferry forest garden ginger glacier granite harbor hazel horse hunter island jacket kettle lantern
lemon letmein maple marble meadow monkey morning mountain mustard needle ocean olive orange orchid oyster paper
pepper pigeon pillow planet pocket pumpkin purple qwerty rabbit raven river rocket saddle salmon shadow silver
spider spring staple summer sunset thunder tiger timber tulip tunnel turtle umbrella velvet violet walnut
whisper willow window winter wizard yellow zebra
""".split()
_SYLLABLES = (
    "ba be bo da de di fa fi ga go ha ja ka ke ko la le lo ma mi mo na ne no "
    "pa pe ra re ri ro sa se so ta te ti va ve wa ya zo"
).split()


def _chars(rng: random.Random, alphabet: str, low: int, high: int) -> str:
    return "".join(rng.choices(alphabet, k=rng.randint(low, high)))


def _with_digit(rng: random.Random, alphabet: str, low: int, high: int) -> str:
    """Draw until a digit, a lower and an upper letter are among the characters, as real generators do."""
    while True:
        text = _chars(rng, alphabet, low, high)
        if any(map(str.isdigit, text)) and any(map(str.islower, text)) and any(map(str.isupper, text)):
            return text


def _word(rng: random.Random) -> str:
    return rng.choice(_WORDS)


def _invented(rng: random.Random) -> str:
    return "".join(rng.choices(_SYLLABLES, k=rng.randint(3, 5)))


def _uuid(rng: random.Random) -> str:
    return "-".join("".join(rng.choices(_HEX, k=size)) for size in (8, 4, 4, 4, 12))


def _user_and_password(rng: random.Random) -> str:
    return base64.b64encode(f"{_word(rng)}:{_chars(rng, _ALNUM, 8, 14)}".encode()).decode()


def _jwt(rng: random.Random) -> str:
    return f"eyJ{_chars(rng, _URL64, 17, 33)}.eyJ{_chars(rng, _URL64, 40, 160)}.{_chars(rng, _URL64, 43, 43)}"


#: Secrets that contain neither blanks, quotes nor characters that a shell would treat.
WORD_SECRETS: dict[str, Draw] = {
    "alnum": lambda rng: _with_digit(rng, _ALNUM, 12, 40),
    "url-safe": lambda rng: _with_digit(rng, _URL64, 20, 44).strip("-_") + "x",
    "hex": lambda rng: _chars(rng, _HEX, 16, 64),
    "upper hex": lambda rng: _chars(rng, "0123456789ABCDEF", 32, 40),
    "base64": lambda rng: _with_digit(rng, _BASE64, 24, 44) + "=" * rng.randint(0, 2),
    "base64 with slashes": lambda rng: "/".join(_with_digit(rng, _ALNUM, 4, 12) for _ in range(rng.randint(2, 4))),
    "letters": lambda rng: _chars(rng, string.ascii_letters, 10, 16),
    "lower letters": lambda rng: _chars(rng, string.ascii_lowercase, 8, 14),
    "upper letters": lambda rng: _chars(rng, string.ascii_uppercase, 8, 14),
    "digits": lambda rng: rng.choice("123456789") + _chars(rng, string.digits, 7, 9),
    "word": lambda rng: rng.choice([w for w in _WORDS if len(w) >= 6]),
    "invented word": _invented,
    "words joined": lambda rng: "".join(rng.sample(_WORDS, 2)),
    "words with hyphens": lambda rng: "-".join(rng.sample(_WORDS, rng.randint(2, 4))),
    "words with underscores": lambda rng: "_".join(rng.sample(_WORDS, 2)) + rng.choice(["", str(rng.randint(1, 99))]),
    "camel words": lambda rng: "".join(map(str.title, rng.sample(_WORDS, rng.randint(2, 4)))),
    "word and number": lambda rng: _word(rng) + str(rng.randint(1, 9999)),
    "title and number": lambda rng: _word(rng).title() + str(rng.randint(1990, 2030)),
    "leet": lambda rng: _word(rng).replace("e", "3").replace("a", "4").replace("o", "0") + str(rng.randint(10, 999)),
    "uuid": _uuid,
    "dotted": lambda rng: f"{_word(rng)}.{_with_digit(rng, _ALNUM, 6, 12)}",
}
#: Secrets that need quotes in a shell but none in a configuration file.
LINE_SECRETS: dict[str, Draw] = {
    "symbols": lambda rng: (
        _word(rng).title() + rng.choice("!@^*+?") + _with_digit(rng, _ALNUM, 4, 8) + rng.choice("!*?^+")
    ),
    "percent": lambda rng: _with_digit(rng, _ALNUM, 5, 8) + "%" + _with_digit(rng, _ALNUM, 4, 6),
    "equals": lambda rng: _with_digit(rng, _ALNUM, 6, 10) + "=" + _with_digit(rng, _ALNUM, 4, 6),
    "exclamation": lambda rng: "".join(map(str.title, rng.sample(_WORDS, 2))) + "!",
}
#: Secrets that need quotes everywhere.
QUOTED_SECRETS: dict[str, Draw] = {
    "passphrase": lambda rng: " ".join(rng.sample(_WORDS, rng.randint(3, 5))),
    "dollar": lambda rng: _with_digit(rng, _ALNUM, 5, 8) + "#" + _with_digit(rng, _ALNUM, 4, 6) + "&",
    "umlaut": lambda rng: _word(rng).replace("e", "ë").replace("a", "ä") + str(rng.randint(10, 99)) + "é",
    "semicolon": lambda rng: _with_digit(rng, _ALNUM, 6, 10) + ";" + _with_digit(rng, _ALNUM, 4, 6),
}
_RANDOM_KINDS = ("alnum", "url-safe", "base64", "leet", "symbols")

_NAMES = """
password|passwd|db password|postgres password|admin password|root password|smtp password|redis password|user password
mysql root password|keystore password|ldap bind password|ftp password|proxy password|wifi password|login password
secret|client secret|jwt secret|session secret|app secret|webhook secret|shared secret|cookie secret|oauth client secret
token|access token|refresh token|auth token|api token|bot token|github token|gitlab token|npm token|slack bot token
deploy token|bearer token|session token|csrf token|id token|personal access token|registry token|vault token
api key|openai api key|stripe api key|maps api key|secret key|secret access key|aws secret access key|private key
encryption key|signing key|master key|access key|account key|storage account key|service account key
passphrase|gpg passphrase|db pass|smtp pass|db pwd|mysql pwd|credentials|auth secret|hmac secret|consumer secret
sudo pass|become pass|ssh pass|private token|master password|recovery key
"""
NAMES = [tuple(name.split()) for line in _NAMES.split("\n") for name in line.split("|") if name]
#: Names whose only meaning is a secret that a person chooses.
PASSWORD_NAMES = [name for name in NAMES if name[-1] in ("password", "passwd", "passphrase", "pwd")]

STYLES: dict[str, Callable[[tuple[str, ...]], str]] = {
    "NAME": lambda words: "_".join(words).upper(),
    "name": "_".join,
    "kebab": "-".join,
    "dotted": ".".join,
    "camel": lambda words: words[0] + "".join(map(str.title, words[1:])),
    "Title": lambda words: "".join(map(str.title, words)),
    "spaced": " ".join,
}

_INNOCENT_WORDS = """
account action active address alert amount answer archive batch billing branch buffer build button cache cancel
change channel chart choice client column command comment commit config count country currency customer daily date
default delete deploy detail device domain editor email engine error event export field file filter folder format
friend gateway group header height history image import index input invoice issue item journal label language layer
layout level library license limit list locale location manager member message method metric mode model module
monitor month name network node note number object offset option order output owner package page parent parser path
payment period picture plugin point policy prefix price printer product profile project query queue range rating
reader record region release report request resource response result retry review role route rule sample schedule
schema scope screen search section sender server service shape sheet shop signal size slot source stage start status
step storage store stream string student style summary support switch symbol table target task team template test
theme thread ticket timeout title topic total tracker type unit update upload user value vendor version view visitor
volume wallet week widget width worker
""".split()


def _identifier(rng: random.Random) -> str:
    words = rng.sample(_INNOCENT_WORDS, rng.randint(1, 3))
    return rng.choice([STYLES["name"], STYLES["camel"]])(tuple(words))


#: Fillers of innocent templates.
FILLERS: dict[str, Draw] = {
    "ident": _identifier,
    "Type": lambda rng: "".join(map(str.title, rng.sample(_INNOCENT_WORDS, rng.randint(1, 2)))),
    "word": lambda rng: rng.choice(_INNOCENT_WORDS),
    "words": lambda rng: " ".join(rng.sample(_INNOCENT_WORDS, rng.randint(3, 6))),
    "slug": lambda rng: "-".join(rng.sample(_INNOCENT_WORDS, rng.randint(2, 3))),
    "num": lambda rng: str(rng.randint(1, 99_999)),
    "small": lambda rng: str(rng.randint(1, 99)),
    "ver": lambda rng: f"{rng.randint(0, 20)}.{rng.randint(0, 40)}.{rng.randint(0, 9)}",
    "date": lambda rng: f"{rng.randint(2019, 2027)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
    "user": lambda rng: rng.choice(["bob", "alice", "deploy", "root", "ci", "app"]),
    "path": lambda rng: "/" + "/".join(rng.sample(_INNOCENT_WORDS, rng.randint(2, 4))),
    "file": lambda rng: f"{rng.choice(_INNOCENT_WORDS)}.{rng.choice(['py', 'ts', 'go', 'rs', 'java', 'md', 'json'])}",
    "host": lambda rng: f"{rng.choice(_INNOCENT_WORDS)}.example.{rng.choice(['com', 'net', 'org'])}",
    "uuid": _uuid,
    "userpass": _user_and_password,
    "jwt": _jwt,
    "any": lambda rng: _any_of(rng, WORD_SECRETS | LINE_SECRETS | QUOTED_SECRETS),
    "line": lambda rng: _any_of(rng, WORD_SECRETS | LINE_SECRETS),
    "shell": lambda rng: _any_of(rng, WORD_SECRETS),
    "random": lambda rng: (WORD_SECRETS | LINE_SECRETS)[rng.choice(_RANDOM_KINDS)](rng),
    "strong": lambda rng: _with_digit(rng, _ALNUM, 20, 40),
}


def _any_of(rng: random.Random, kinds: dict[str, Draw]) -> str:
    return kinds[rng.choice(list(kinds))](rng)
