"""The result of a detector: a span, the rule that found it and its class. Data only.

The session log's placeholders show classes, those in command text and output show rules. Users and operators see both.
"""

from typing import NamedTuple


class SecretKind(NamedTuple):
    """A rule id and its class."""

    rule: str
    klass: str


class SecretSpan(NamedTuple):
    """A secret at `line[start:end]`."""

    start: int
    end: int
    kind: SecretKind


API_KEY = SecretKind("assignment", "api_key")
AUTHORIZATION = SecretKind("assignment", "authorization")
AWS_SECRET = SecretKind("aws_secret", "password")
AZURE_PART = SecretKind("azure", "connection_string")
BASIC_AUTH = SecretKind("basic_auth", "authorization")
BEARER = SecretKind("bearer", "bearer")
CLI_API_KEY = SecretKind("cli_password", "api_key")
CLI_PASSWORD = SecretKind("cli_password", "password")
CONNECTION_PART = SecretKind("assignment", "connection_string")
COOKIE = SecretKind("cookie", "cookie")
ENV_VALUE = SecretKind("env", "env")
JWT = SecretKind("jwt", "jwt")
LEARNED = SecretKind("learned", "learned")
PASSWORD = SecretKind("assignment", "password")
PRIVATE_KEY = SecretKind("private_key", "private_key")
RECOVERY_TOKEN = SecretKind("recovery_token", "recovery_token")
SIGNATURE = SecretKind("signature", "signature")
URL_PASSWORD = SecretKind("url_password", "url_password")

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

# Classes whose placeholder has no name, as the session log's dialect requires.
PLAIN_CLASSES = frozenset({"api_key", "authorization", "bearer"})


def placeholder(kind: SecretKind, *, by_rule: bool) -> str:
    """Return the placeholder for a secret."""
    if by_rule:
        return f"[REDACTED:{kind.rule}]"
    return "[REDACTED]" if kind.klass in PLAIN_CLASSES else f"[REDACTED:{kind.klass}]"
