"""What a detector reports: a span, the rule that found it and the class that stands for it.

Classes are the words of the session log's placeholders, rules those of command text and output; both sets are
part of what users and operators see. Nothing here looks at text.
"""

from typing import NamedTuple


class Kind(NamedTuple):
    """A rule id and the class it belongs to."""

    rule: str
    klass: str


class Finding(NamedTuple):
    """A secret at `line[start:end]`."""

    start: int
    end: int
    kind: Kind


API_KEY = Kind("assignment", "api_key")
AUTHORIZATION = Kind("assignment", "authorization")
AWS_SECRET = Kind("aws_secret", "password")
AZURE_PART = Kind("azure", "connection_string")
BASIC_AUTH = Kind("basic_auth", "authorization")
BEARER = Kind("bearer", "bearer")
CLI_API_KEY = Kind("cli_password", "api_key")
CLI_PASSWORD = Kind("cli_password", "password")
CONNECTION_PART = Kind("assignment", "connection_string")
COOKIE = Kind("cookie", "cookie")
ENV_VALUE = Kind("env", "env")
JWT = Kind("jwt", "jwt")
LEARNED = Kind("learned", "learned")
PASSWORD = Kind("assignment", "password")
PRIVATE_KEY = Kind("private_key", "private_key")
RECOVERY_TOKEN = Kind("recovery_token", "recovery_token")
SIGNATURE = Kind("signature", "signature")
URL_PASSWORD = Kind("url_password", "url_password")

ALL_KINDS = (
    API_KEY,
    AUTHORIZATION,
    AWS_SECRET,
    AZURE_PART,
    BASIC_AUTH,
    BEARER,
    CLI_API_KEY,
    CLI_PASSWORD,
    CONNECTION_PART,
    COOKIE,
    ENV_VALUE,
    JWT,
    LEARNED,
    PASSWORD,
    PRIVATE_KEY,
    RECOVERY_TOKEN,
    SIGNATURE,
    URL_PASSWORD,
)

# The classes that the session log's dialect fixed before it had names for them.
PLAIN_CLASSES = frozenset({"api_key", "authorization", "bearer"})


def placeholder(kind: Kind, *, by_rule: bool) -> str:
    """Write what stands in the place of a secret."""
    if by_rule:
        return f"[REDACTED:{kind.rule}]"
    return "[REDACTED]" if kind.klass in PLAIN_CLASSES else f"[REDACTED:{kind.klass}]"
