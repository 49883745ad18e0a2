"""Decides which names announce a secret: `GITHUB_TOKEN`, `clientSecret`, `X-Api-Key`, `db_pass`.

Knows names only. `assignments` finds the value after a name, `values` decides whether it is a secret.
"""

from dataclasses import dataclass
from functools import lru_cache

from shiftlog.guard.secrets.detectors.kinds import API_KEY, AUTHORIZATION, COOKIE, PASSWORD, SIGNATURE, SecretKind
from shiftlog.guard.secrets.detectors.quotes import LINEAR_EDGE
from shiftlog.guard.secrets.detectors.values import Need
from shiftlog.guard.secrets.detectors.words import split_words


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretName:
    """The hint that a name gives about the value after it."""

    kind: SecretKind
    need: Need
    header: bool = False
    weak: bool = False  # a word with other meanings, so its context never makes the value more suspicious


_STEMS = (
    r"(?:passw(?:or)?d|passwd|passwort|kennwort|adgangskode|contrasena|haslo|heslo|jelszo|losenord|lozinka"
    r"|mot[-_]?de[-_]?passe|passord|salasana|senha|wachtwoord|pass(?:[ -]?phrase|code)?|pswd|psw|psk|pwd|pw|salt"
    r"|secret|token"
    r"|creds?|credentials?|mnemonic|authtok|key[-_ ]?material"
    r"|(?:seed|recovery)[-_ ]?phrase|(?:recovery|backup)[-_ ]?codes?|auth(?:orization)?|cookie|sig(?:nature)?"
    r"|(?:api|access|account|activation|admin|aes|app|auth|cipher|client|consumer|crypt|crypto|decryption|deploy"
    r"|encryption|fernet|hmac|host"
    r"|jwt|license|master|nonce|primary|private|recovery|root|secondary|secret|server|service|session|shared"
    r"|sign|signing|storage"
    r"|subscription|user|webhook|(?:logged[-_]in))[-_ .]?key)"
)
_TAIL = (
    r"(?:[-_]?(?:b64|backup|base|base64|ci|current|data|dev|enc|encrypted|live|main|new|old|plain|primary|prod"
    r"|production|raw|ro|rw"
    r"|secondary|staging|str|string|test|text|v|val|value))?[-_]?[0-9]{0,3}"
)

_QUOTE = r"\\*[\"'`]|&(?:quot|#3[49]);|%2[27]|\\+u002[27]"

# What stands between the name and the value of a pair.
_ATTRIBUTE = r"(?:[\w:]*(?i:value|type|content)|serializeAs|default|required|help|action|dest)"
# The end of such a name; the statement `pass` alone in its line announces nothing.
NAME_HINT = (
    r"(?i:(?:"
    + _STEMS.replace("pass(?:[ -]?phrase|code)?", r"(?:[\w.-]pass|pass(?:[ -]?phrase|code))")
    + f"|cookies){_TAIL}"
    + r"(?:[^A-Z_]|(?m:$))|pass(?:[^\sA-Z]|[ \t]+[^\s])"
    r"|key[ \t]+(?:[\"'`]|(?:is:?|was:?|for|of|to|on|from|changed|rotated|reset|->|\xe2\x86\x92)[ \t]|[^\s]*[0-9])"
    r"|(?:my|the|your|our|this) key: )"
)
# A name that may announce a secret, up to its last letter.
NAME_ENDING = f"(?i:{_STEMS}{_TAIL})"
# The same with the text that must precede a value.
NAME_PATTERN = "|".join(
    (
        (
            rf"{NAME_ENDING}(?:(?:{_QUOTE})?[)\]]{{0,2}}\*{{0,2}}|\[[0-9]*\])[ \t]*(?:[:=!?+>\t|]|\\t|<-"
            rf"|->[ \t]*\\*[\"']|-[Vv]alue|%3[ADad]|or [\"']|\\*[\"']?,[ \t]*\\*[\"'`]|\(\\*[\"'])"
        ),
        rf"{NAME_ENDING}\*?[ \t]+(?:\\*[\"'`]|[^\s]+[ \t\r]*(?:\\[nr\"]|(?m:$)))",
        rf"{NAME_ENDING}\\*[\"'],?[ \t]*\\*[\"']?{_ATTRIBUTE}\\*[\"']?[ \t]*[:=]",
        rf"-[\w-]*{NAME_ENDING}[ \t]+[^ \t]",
        rf"{NAME_ENDING}[ \t]+(?:(?i:as )?(?i:string)|\[\]byte)[ \t]*=",
        rf"{NAME_ENDING}\\*[\"']\][\"'\w\[\]-]+[ \t]*=",
        rf"{NAME_ENDING},[ \t]*\\*[\"']?{_ATTRIBUTE}\\*[\"']?[ \t]*[:=]",
        rf"{NAME_ENDING}(?:[ \t]+[\w:.-]+=\\*\"[^\"<>]*\")+>",
        (
            rf"(?:#define|{LINEAR_EDGE}(?:ENV|setx|set -[a-z]+|set[Ee]nv|SetEnv|fastcgi_param|configure set"
            rf"|config set))\s+\\*\"?[\w.-]*{NAME_ENDING}\\*\"?\s"
        ),
        LINEAR_EDGE + r"(?:login\s+\S+\s+password|requirepass|masterauth|\w*bindpw|rootpw"
        r"|\w*options\s+password|set-initial-password|(?:user|owner)_pw)\s",
        r"(?:store|key|keystore|db)[Pp]assword +\\*[\"']",
        LINEAR_EDGE + r"(?i:(?:pass(?:word|wd|phrase|code)|(?:api|access|secret|private|auth)[ -]key|token|secret"
        r"|credentials|key|pw|pwd|pass)[ \t]+"
        + r"(?:[\"'`]|(?:is:?|was:?|for|of|to|on|from|changed|rotated|reset|->|\xe2\x86\x92)[ \t]|[^\s]*[0-9])"
        r"|(?:my|the|your|our|this) key: )",
        LINEAR_EDGE + r"(?i:password|passphrase|token|secret|(?:api|access|secret|private|auth)[ -]key)[ \t]"
        r"[ \tA-Za-z']*:[ \t]+[^\s]{8}",
    )
)

_PASSWORD = SecretName(kind=PASSWORD, need=Need.PLAIN)
_SECRET = SecretName(kind=PASSWORD, need=Need.MIXED)
_TOKEN = SecretName(kind=PASSWORD, need=Need.DIGITS)
_LEXICAL_TOKEN = SecretName(kind=PASSWORD, need=Need.RANDOM)
_KEY = SecretName(kind=PASSWORD, need=Need.RANDOM, weak=True)
_TOLD_KEY = SecretName(kind=PASSWORD, need=Need.DIGITS, weak=True)
_PASS = SecretName(kind=PASSWORD, need=Need.MIXED, weak=True)
_API_KEY = SecretName(kind=API_KEY, need=Need.PLAIN)
_API_KEY_HEADER = SecretName(kind=API_KEY, need=Need.ANY, header=True)
_AUTHORIZATION = SecretName(kind=AUTHORIZATION, need=Need.ANY, header=True)
_COOKIE = SecretName(kind=COOKIE, need=Need.ANY, header=True)
_SIGNATURE = SecretName(kind=SIGNATURE, need=Need.RANDOM)

_AUTHORIZATIONS = frozenset({(), ("proxy",), ("http",), ("x",), ("http", "proxy"), ("x", "forwarded")})
_SECRET_COOKIES = frozenset({("secret", "cookie"), ("erlang", "cookie"), ("magic", "cookie")})
_PASSWORDS = (
    *("password", "passwd", "passphrase", "passwort", "kennwort"),
    *("adgangskode", "contrasena", "haslo", "heslo", "jelszo", "losenord", "lozinka", "motdepasse", "passord"),
    *("salasana", "senha", "wachtwoord"),
)
_SHORT_PASSWORDS = frozenset({"passcode", "pswd", "psw", "pw", "pwd", "dbpass", "dbpwd", "userpwd", "mypass"})
_PASS_OWNERS = frozenset(
    """
    account admin auth backup become cert db email ftp http imap key keystore ldap local login mail master my mysql pg
    proxy redis remote root server service smtp ssh store sudo system trust user vpn web wifi
    """.split()
)
_JOINED_PASS = frozenset(f"{owner}pass" for owner in _PASS_OWNERS) | {"srcstorepass", "deststorepass", "requirepass"}
_CREDENTIALS = frozenset({"cred", "creds", "credential", "credentials", "mnemonic"})
# Tokens of parsers, language models or pages: only a random value is a secret.
_LEXICAL = frozenset(
    """
    bos cls close closing comment current eof eos end first image last left lookahead mask mod next open
    opening pad peek prev previous right sep special start stop sync text unk word
    """.split()
)
_SECRET_KEYS = frozenset(
    """
    access accesskey account aes auth cipher decryption encryption fernet hmac jwt master nonce preshared private
    privatekey recovery secret secretkey shared signing storage
    """.split()
)
_SALTS = frozenset({"auth", "hash", "in", "nonce", "password"})
_OTHER_KEYS = frozenset(
    """
    admin client consumer crypt crypto hash host in primary root secondary server service session sign user
    """.split()
)
_TOLD_KEYS = frozenset({"activation", "app", "deploy", "license", "subscription", "webhook"})
_JOINED_KEYS = (
    "accesskey",
    "accountkey",
    "encryptionkey",
    "masterkey",
    "presharedkey",
    "privatekey",
    "secretkey",
    "signingkey",
)
_KEYS = {
    **dict.fromkeys(_SECRET_KEYS, _SECRET),
    **dict.fromkeys(_TOLD_KEYS, _TOLD_KEY),
    **dict.fromkeys(_OTHER_KEYS, _KEY),
}
_SECRET_ENDINGS = frozenset(
    tuple(ending.split())
    for ending in (
        "secret string|pass phrase|seed phrase|recovery phrase|key base|key material|auth tok|bearer auth".split("|")
    )
)
# Such a name announces something public, or the name of a secret.
_PUBLIC = frozenset({"existing", "public", "pub", "publishable", "publickeytoken", "pull"})
_AFTERTHOUGHTS = frozenset(
    """
    b64 backup base base64 ci current data dev enc encrypted live main new old plain primary prod production
    raw ro rw secondary staging str string test text v val value
    """.split()
)

# `isSecret` and `has_password` are true or false.
_QUESTIONS = frozenset({"has", "is", "issecret"})

# Where a secret is used; the name before is still that of a secret.
_STAGES = frozenset("b64 base64 ci dev live plain prod production staging".split())


@lru_cache(maxsize=4096)
def classify_name(name: str) -> SecretName | None:
    """Return what a name announces, or None."""
    words = split_words(name)
    while words and words[-1].isdigit():
        words = words[:-1]
    if words == ("user", "signingkey"):
        return None  # git's id of a key
    if not words or len(words) > 12 or not _PUBLIC.isdisjoint(words) or not _QUESTIONS.isdisjoint(words[:1]):
        return None
    return _classify_header(words) or _classify_last(words) or _classify_afterthought(words)


def _classify_header(words: tuple[str, ...]) -> SecretName | None:
    last = words[-1]
    if last == "authorization" and words[:-1] in _AUTHORIZATIONS:
        return _AUTHORIZATION
    if words[-2:] in _SECRET_COOKIES:
        return _SECRET
    if last in ("cookie", "setcookie"):
        return _COOKIE
    if words[-3:] == ("x", "api", "key"):
        return _API_KEY_HEADER
    if words[-2:] == ("api", "key") or last.endswith("apikey"):
        return _API_KEY
    return None


def _classify_last(words: tuple[str, ...]) -> SecretName | None:
    last = words[-1]
    before = words[-2] if len(words) > 1 else ""
    if words[-3:] == ("mot", "de", "passe"):
        return _PASSWORD
    if last == "pass":
        return _PASSWORD if before in _PASS_OWNERS else _PASS
    if last.endswith(_PASSWORDS) or last in _SHORT_PASSWORDS or last in _JOINED_PASS:
        return _PASSWORD
    if last == "psk":
        return _PASSWORD if before in ("", "wpa", "wifi", "sae") else None
    if last in ("code", "codes"):
        return _TOKEN if before in ("recovery", "backup") else None
    if last == "salt":
        return _KEY if before in _SALTS else None
    if last.endswith(("secret", "authtok")) or last in _CREDENTIALS or words[-2:] in _SECRET_ENDINGS:
        return _SECRET
    if last.endswith("token"):
        if last == "token" and not before:
            return _TOKEN
        return _LEXICAL_TOKEN if before in _LEXICAL else _SECRET
    if last == "key" and before:
        return _KEYS.get(before)
    if last.endswith("key") and (joined := _KEYS.get(last.removesuffix("key"))):
        return joined
    if last.endswith(_JOINED_KEYS):
        return _SECRET
    if last == "authorization":
        return _KEY
    if last == "auth":
        return _PASSWORD if before == "rediscli" else _KEY
    return _SIGNATURE if last in ("signature", "sig") else None


def _classify_afterthought(words: tuple[str, ...]) -> SecretName | None:
    """Classify `TOKEN_PROD` or `password_text`: the secret word is not last, so most values must look random."""
    if len(words) < 2 or words[-1] not in _AFTERTHOUGHTS:
        return None
    inner = _classify_last(words[:-1]) or _classify_header(words[:-1])
    if inner is None or inner.header or inner.weak or inner.kind == SIGNATURE:
        return None
    return inner if words[-1] in _STAGES else SecretName(kind=inner.kind, need=Need.RANDOM, weak=True)
