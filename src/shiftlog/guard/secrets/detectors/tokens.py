"""Finds tokens that need no name, because their shape shows what they are: provider keys, JWTs, recovery tokens.

A shape that also occurs in code or prose gets a second check.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from shiftlog.guard.linear import LinearMatch, compile_linear, starts_at
from shiftlog.guard.secrets.detectors.kinds import JWT, PRIVATE_KEY, RECOVERY_TOKEN, SecretKind, SecretSpan
from shiftlog.guard.secrets.detectors.quotes import LINEAR_EDGE

_ALNUM = "[A-Za-z0-9]"
_URL64 = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The form of a provider's tokens: a distinctive head, and the tail that must follow.

    `trigger` replaces the head in the search of whole texts if the head is too common; `keep` is a prefix that stays
    visible.
    """

    rule: str
    head: str
    tail: str = ""
    trigger: str = ""
    check: Callable[[str], bool] | None = None
    exact: bool = False  # no letter or digit follows
    keep: re.Pattern[str] | None = None


def _is_dense(token: str) -> bool:
    """Return True for a key: words joined by hyphens are a name, a long run without them is not."""
    runs = re.split(r"[-_.]", token)
    longest = max(map(len, runs))
    if len(set(token[-12:])) <= 2:
        return False
    return longest >= 20 or (longest >= 12 and sum(map(str.isdigit, token)) >= 2)


def _is_varied(token: str) -> bool:
    return any(map(str.isdigit, token)) or len(re.findall(r"[a-z][A-Z]|[A-Z]{2}[a-z]", token)) >= 3


def _is_bot_token(token: str) -> bool:
    tail = token.partition(":")[2]
    return any(map(str.isupper, tail)) and any(map(str.islower, tail))


def _is_jwt(token: str) -> bool:
    parts = token.split(".")
    return parts[1].startswith("eyJ") or len(parts) >= 3


def _is_encoded_key(token: str) -> bool:
    head = base64.b64decode(token[:60])
    return b"PRIVATE KEY" in head


_CHECKED_SHAPES = (
    # Base64 of `-----BEGIN `
    Shape(rule="private_key", head="LS0tLS1CRUdJTi", tail="[A-Za-z0-9+/]{46,}={0,2}", check=_is_encoded_key),
    Shape(
        rule="slack",
        head=r"hooks\.slack\.com/",
        tail=r"(?:services|workflows|triggers)/[A-Za-z0-9_/-]{20,}",
        keep=re.compile(r"hooks\.slack\.com/\w+/"),
    ),
    Shape(
        rule="discord",
        head=r"discord(?:app)?\.com/api/",
        tail=rf"webhooks/[0-9]{{15,}}/{_URL64}{{40,}}",
        keep=re.compile(r"discord(?:app)?\.com/api/webhooks/\d+/"),
    ),
    Shape(rule="openai", head=rf"sk-{_URL64}{{3}}", tail=rf"{_URL64}{{17,}}", check=_is_dense),
    Shape(
        rule="huggingface", head=rf"hf_{_ALNUM}{{6}}", tail=rf"{_ALNUM}{{14,}}(?:_{_ALNUM}{{20,}})*", check=_is_varied
    ),
    Shape(rule="pypi", head="pypi-", tail=rf"{_URL64}{{32,}}", check=_is_dense),
    Shape(
        rule="telegram",
        head=r"[0-9]{6,10}:[A-Z]",
        tail=rf"{_URL64}{{33,34}}\b",
        trigger=rf"[0-9]{{2}}:[A-Z]{_URL64}{{2}}",
        check=_is_bot_token,
    ),
    Shape(
        rule="telegram",
        head=r"bot[0-9]{6,10}:[A-Z]",
        tail=rf"{_URL64}{{33,34}}\b",
        trigger=r"bot[0-9]{6}",
        check=_is_bot_token,
        keep=re.compile("bot"),
    ),
    Shape(rule="jwt", head="eyJ", tail=rf"{_URL64}{{8,}}\.{_URL64}{{8,}}(?:\.{_URL64}*){{0,3}}", check=_is_jwt),
    Shape(rule="azure", head=r"[A-Za-z0-9_~.]{3}[0-9]Q~", tail=r"[A-Za-z0-9_~.-]{31,34}", trigger="[0-9]Q~"),
    Shape(rule="mailchimp", head=rf"{_HEX}{{32}}-us", tail=r"[0-9]{1,2}\b", trigger="-us[0-9]"),
    Shape(rule="terraform", head=rf"{_ALNUM}{{14}}\.atlasv1\.", tail=rf"{_URL64}{{60,}}", trigger=r"\.atlasv1\."),
    # The first letters of every bot token are Base64 of three digits.
    Shape(
        rule="discord",
        head="[MNO][DTjz][AEIMQUYcgk][wxyz0-5]",
        tail=rf"{_URL64}{{18,24}}\.{_URL64}{{6}}\.{_URL64}{{27,38}}",
    ),
)
_PLAIN_SHAPES = (
    # The first bytes of keys whose begin mark is missing: PKCS#1 and PKCS#8, EC, Ed25519, OpenSSH.
    ("private_key", "MII[A-Za-z0-9+/]{3}IBA[AD]", "[A-Za-z0-9+/]{30,}={0,2}"),
    ("private_key", "(?:MHcCAQEE|MHQCAQEE|MIG[H2]AgEAM|MC4CAQAwBQYDK2V)", "[A-Za-z0-9+/]{30,}={0,2}"),
    ("private_key", "b3BlbnNzaC1rZXktdjEA", "[A-Za-z0-9+/]{20,}={0,2}"),
    ("aws_key_id", "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{4}", r"[A-Z0-9]{12}\b"),
    # After an underscore the next token follows, if files without a final line break were joined.
    ("github", rf"gh[pousr]_{_ALNUM}{{4}}", rf"{_ALNUM}{{16,}}(?:_{_ALNUM}{{20,}})*"),
    ("github", "github_pat_", "[A-Za-z0-9_]{20,}"),
    (
        "gitlab",
        "gl(?:pat|dt|rt|rtr|cbt|ptt|ft|soat|agent|oas|imt|ffct)-",
        rf"{_URL64}{{16,}}(?:\.[0-9a-z]{{2}}\.[0-9a-z]{{8,}})?",
    ),
    ("slack", "xox[a-z]-", f"{_URL64}{{10,}}"),
    ("slack", r"xox[a-z]\.xox[a-z]-", f"{_URL64}{{10,}}"),
    ("slack", "xapp-[0-9]-", f"{_URL64}{{20,}}"),
    ("stripe", "[sr]k_(?:live|test|prod)_", rf"{_ALNUM}{{10,}}(?:_(?:live|test|prod)_{_ALNUM}{{10,}})*"),
    ("stripe", "whsec_", "[A-Za-z0-9+/=]{24,}"),
    ("anthropic", "sk-ant-", f"{_URL64}{{12,}}"),
    ("google", "AIza", f"{_URL64}{{30,}}"),
    ("google", "GOCSPX-", f"{_URL64}{{20,}}"),
    ("google", r"ya29\.", f"{_URL64}{{20,}}"),
    ("google", "1//0", f"{_URL64}{{30,}}"),
    ("docker", "SWMTKN-1-", rf"{_ALNUM}{{20,}}-{_ALNUM}{{20,}}"),
    ("npm", f"npm_{_ALNUM}{{6}}", rf"{_ALNUM}{{24,}}(?:_{_ALNUM}{{30,}})*"),
    ("huggingface", "api_org_", f"{_ALNUM}{{30,}}"),
    ("sendgrid", r"SG\.", rf"{_URL64}{{16,}}\.{_URL64}{{16,}}"),
    ("digitalocean", "do[opr]_v1_", f"{_HEX}{{32,}}"),
    ("twilio", f"SK{_HEX}{{6}}", rf"{_HEX}{{26}}\b"),
    ("shopify", "shp(?:at|ca|pa|ss)_", "[0-9a-fA-F]{32}"),
    ("mailgun", f"key-{_HEX}{{6}}", rf"{_HEX}{{26}}\b"),
    ("brevo", "xkeysib-", f"{_HEX}{{64}}-{_ALNUM}{{16}}"),
    ("square", "sq0(?:atp|csp)-", f"{_URL64}{{22,}}"),
    ("databricks", f"dapi{_HEX}{{4}}", f"{_HEX}{{28}}"),
    ("vault", r"hv[sbr]\.", f"{_URL64}{{24,}}"),
    ("doppler", r"dp\.(?:pt|st|ct|sa|scim|audit)\.", "[A-Za-z0-9._-]{40,}"),
    ("linear", "lin_(?:api|oauth)_", f"{_ALNUM}{{32,}}"),
    ("notion", f"ntn_{_ALNUM}{{4}}", f"{_ALNUM}{{36,}}"),
    ("notion", f"secret_{_ALNUM}{{8}}", rf"{_ALNUM}{{35}}\b"),
    ("figma", "fig[du]_", f"{_URL64}{{40}}"),
    ("grafana", "glsa_", f"{_ALNUM}{{32}}_[0-9A-Fa-f]{{8}}"),
    ("grafana", "glc_", "[A-Za-z0-9+/]{32,}={0,2}"),
    ("sentry", "sntry[su]_", "[A-Za-z0-9+/=_]{40,}"),
    ("newrelic", "NRAK-", "[A-Z0-9]{27}"),
    ("newrelic", "NRII-", "[A-Za-z0-9-]{32}"),
    ("postman", "PMAK-", f"{_HEX}{{24}}-{_HEX}{{34}}"),
    ("pulumi", "pul-", f"{_HEX}{{40}}"),
    ("planetscale", "pscale_(?:tkn|pw|oauth)_", "[A-Za-z0-9._=-]{32,}"),
    ("rubygems", "rubygems_", f"{_HEX}{{48}}"),
    ("nuget", "oy2[a-z0-9]{4}", r"[a-z0-9]{39}\b"),
    ("docker", "dckr_[po]at_", f"{_URL64}{{20,}}"),
    ("atlassian", "AT(?:ATT|CTT|STT)3", "[A-Za-z0-9_=-]{50,}"),
    ("atlassian", f"ATBB{_ALNUM}{{4}}", f"{_ALNUM}{{24,}}"),
    ("tailscale", "tskey-[a-z]", "[a-z]*-[A-Za-z0-9-]{16,}"),
    ("supabase", f"sbp_{_HEX}{{4}}", f"{_HEX}{{36}}"),
    ("supabase", "sb_secret_", f"{_URL64}{{20,}}"),
    ("netlify", f"nf[pcuo]_{_ALNUM}{{4}}", f"{_ALNUM}{{32,}}"),
    ("fly", "fo1_", f"{_URL64}{{43}}"),
    ("fly", "fm[12][ar]?_", "[A-Za-z0-9+/]{100,}={0,3}"),
    ("groq", "gsk_", f"{_ALNUM}{{40,}}"),
    ("xai", "xai-", f"{_ALNUM}{{60,}}"),
    ("perplexity", "pplx-", f"{_ALNUM}{{40,}}"),
    ("replicate", f"r8_{_ALNUM}{{4}}", f"{_ALNUM}{{33}}"),
    ("langsmith", "lsv2_(?:pt|sk)_", f"{_HEX}{{32}}_{_HEX}{{10}}"),
    ("airtable", rf"pat{_ALNUM}{{14}}\.", f"{_HEX}{{64}}"),
    ("alibaba", f"LTAI{_ALNUM}{{4}}", rf"{_ALNUM}{{12,22}}\b"),
    ("circleci", "CCIPAT_", "[A-Za-z0-9_]{40,}"),
    ("buildkite", "bkua_", f"{_HEX}{{40}}"),
    ("sourcegraph", "sgp_", f"(?:(?:{_HEX}{{16}}|local)_)?{_HEX}{{40}}"),
    ("artifactory", f"AKCp{_ALNUM}{{4}}", f"{_ALNUM}{{56,}}"),
    ("bedrock", f"ABSK{_ALNUM}{{4}}", "[A-Za-z0-9+/]{96,}={0,2}"),
    ("sonar", f"sq[upa]_{_HEX}{{4}}", f"{_HEX}{{36}}"),
    ("openshift", "sha256~", f"{_URL64}{{43}}"),
    ("dynatrace", r"dt0[a-z][0-9]{2}\.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("heroku", "HRKU-", f"{_URL64}{{36,}}"),
    ("facebook", f"EAA{_ALNUM}{{6}}", f"{_ALNUM}{{84,}}"),
    ("onepassword", "ops_eyJ", "[A-Za-z0-9+/]{100,}={0,3}"),
    ("onepassword", "A3-[A-Z0-9]{6}-", "[A-Z0-9]{6,11}(?:-[A-Z0-9]{5}){2,3}"),
    ("age", "AGE-SECRET-KEY-1", "[A-Z0-9]{58}"),
    ("shiftlog", f"slk_{_HEX}{{16}}_", f"{_URL64}{{43}}"),
    ("recovery_token", r"slr1\.", rf"{_URL64}{{8,}}(?:\.{_URL64}+)?"),
)
_ALL_SHAPES = (*(Shape(rule=rule, head=head, tail=tail) for rule, head, tail in _PLAIN_SHAPES), *_CHECKED_SHAPES)


def _finish(shape: Shape) -> Shape:
    """Turn a final `\\b` into a check: RE2 does not look ahead, and `\\b` sees no end before `_`."""
    return replace(shape, tail=shape.tail.removesuffix(r"\b"), exact=shape.tail.endswith(r"\b"))


SHAPES = tuple(map(_finish, _ALL_SHAPES))

_ENCODED = re.compile(r"[A-Za-z0-9+/]{31}[+/]$")
_OWN_CLASS = {"jwt": JWT, "private_key": PRIVATE_KEY, "recovery_token": RECOVERY_TOKEN}
_KINDS = {shape.rule: _OWN_CLASS.get(shape.rule, SecretKind(shape.rule, "provider_key")) for shape in SHAPES}

# These heads are also found right after a letter, as in `^Ighp_…`; others stand alone, or after `_` at most.
_GLUED_HEADS = tuple(
    """
    (?:AKIA gh[pousr]_ github_pat_ gl(?:pat xox xapp- [sr]k_ whsec_ sk-ant- npm_ pypi- do[opr]_v1_
    shp(?: xkeysib- sq0(?: lin_(?: glsa_ sntry dckr_ tskey- SWMTKN- rubygems_ pscale_ lsv2_ PMAK-
    """.split()
)
_EDGE = rf"(?:{LINEAR_EDGE}|_)"


def _stands_alone(shape: Shape) -> bool:
    return not shape.head.startswith(_GLUED_HEADS)


def _join(parts: Iterable[Shape], part: Callable[[Shape], str]) -> str:
    return "|".join(map(part, parts))


_ALONE = tuple(filter(_stands_alone, SHAPES))
_GLUED = tuple(shape for shape in SHAPES if not _stands_alone(shape))
_TOKENS = compile_linear(
    f"{_EDGE}({_join(_ALONE, lambda shape: shape.head + shape.tail)})"
    f"|({_join(_GLUED, lambda shape: shape.head + shape.tail)})"
)

_token_start = starts_at(_TOKENS)
_UNFINISHED = re.compile(
    r"(?:gh[pousr]_|github_pat_|gl(?:pat|dt|rt|cbt|ptt)-|AKIA|ASIA|AIza|xox[a-z]-|sk-ant-|sk-proj-|sk_live_|sk_test_|npm_|hf_|hvs\."
    r"|SG\.|pypi-|dop_v1_|eyJ)[\w.-]{0,250}\s*$",
    re.ASCII,
)
_CONTINUED = re.compile(r"\s{0,16}(?P<rest>[\w.-]{4,256})", re.ASCII)
TOKEN_PATTERN = "|".join(
    (
        _EDGE + "(?:" + "|".join(shape.head for shape in _ALONE if not shape.trigger) + ")",
        *(shape.head for shape in _GLUED if not shape.trigger),
        *(shape.trigger for shape in SHAPES if shape.trigger),
        _UNFINISHED.pattern.replace("$", "(?m:$)"),
    )
)


@cache
def _anchored() -> tuple[tuple[re.Pattern[str], Shape], ...]:
    """Compile the shapes with the first token found."""
    return tuple((re.compile(shape.head + shape.tail, re.ASCII), shape) for shape in SHAPES)


def _matches(data: bytes, position: int, stop: int) -> Iterator[LinearMatch]:
    """Yield the matches that start in a part of a line, even if they end behind it."""
    while (here := _token_start(data, position, stop)) >= 0:
        match = _TOKENS.search(data, here)
        if match is None:
            return
        yield match
        position = match.end()


def find_tokens(line: str, data: bytes, begin: int, stop: int) -> Iterator[SecretSpan]:
    """Yield the tokens in a part of a line."""
    for match in _matches(data, begin, stop):
        group = 1 if match.start(1) >= 0 else 2
        start, end = match.start(group), match.end(group)
        shape = next((shape for pattern, shape in _anchored() if pattern.match(line, start)), None)
        if shape is None or (shape.check and not shape.check(line[start:end])):
            continue
        if shape.exact and line[end : end + 1].isalnum():
            continue
        if _ENCODED.search(line, max(0, start - 32), start):
            continue  # a coincidence inside encoded data
        if shape.keep and (kept := shape.keep.match(line, start)):
            start = kept.end()
        yield SecretSpan(start, end, _KINDS[shape.rule])


def _find_in(text: str) -> Iterator[SecretSpan]:
    return find_tokens(text, text.encode("latin-1"), 0, len(text))


def may_be_wrapped(line: str) -> bool:
    """Return True if a line ends within something that starts like a token."""
    return _UNFINISHED.search(line, max(0, len(line) - 256)) is not None


def find_wrapped(line: str, following: str) -> tuple[SecretSpan, int] | None:
    """Find a token that goes on in the next line; return its part in this line and the length of the rest."""
    head = _UNFINISHED.search(line, max(0, len(line) - 256))
    rest = _CONTINUED.match(following)
    if head is None or rest is None:
        return None
    begin = head.start()
    joined = line[begin:].rstrip() + rest["rest"]
    if next(_find_in(line[begin:]), None) is not None:
        return None  # complete; `following` asks whether more of it follows
    for span in _find_in(joined):
        here = len(line.rstrip()) - begin
        if span.start < here < span.end:
            return SecretSpan(begin + span.start, begin + here, span.kind), span.end - here + rest.start("rest")
    return None


def token_kind(value: str) -> SecretKind | None:
    """Return the kind of a value that is exactly one provider token."""
    found = next(_find_in(value), None)
    return found.kind if found is not None and (found.start, found.end) == (0, len(value)) else None
