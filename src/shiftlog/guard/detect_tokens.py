"""Tokens that are secrets wherever they stand: those of providers, JWTs, our own recovery tokens.

Each is known by its own shape, so no name is needed. A shape that code or prose also takes is checked once more.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shiftlog.guard.detect_kinds import JWT, RECOVERY_TOKEN, Finding, Kind
from shiftlog.guard.redact_re2 import compile_linear

_ALNUM = "[A-Za-z0-9]"
_URL64 = "[A-Za-z0-9_-]"
_HEX = "[0-9a-f]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How the tokens of one provider look; `keep` is a prefix that is no secret."""

    rule: str
    pattern: str
    check: Callable[[str], bool] | None = None
    keep: re.Pattern[str] | None = None


def _is_dense(token: str) -> bool:
    """Words joined by hyphens are a name; a long run without them is a key."""
    runs = re.split(r"[-_.]", token)
    longest = max(map(len, runs))
    if len(set(token[-12:])) <= 2:
        return False
    return longest >= 20 or (longest >= 12 and sum(map(str.isdigit, token)) >= 2)


def _is_varied(token: str) -> bool:
    return any(map(str.isdigit, token)) or len(re.findall(r"[a-z][A-Z]|[A-Z]{2}[a-z]", token)) >= 3


def _is_bot_token(token: str) -> bool:
    tail = token.partition(":")[2]
    return any(map(str.isdigit, tail)) and any(map(str.isupper, tail)) and any(map(str.islower, tail))


def _is_jwt(token: str) -> bool:
    parts = token.split(".")
    return parts[1].startswith("eyJ") or len(parts) >= 3


SHAPES = (
    Shape(rule="aws_key_id", pattern=r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    Shape(rule="github", pattern=rf"gh[pousr]_{_ALNUM}{{20,}}|github_pat_[A-Za-z0-9_]{{20,}}"),
    Shape(rule="gitlab", pattern=r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|soat|agent|oas|imt|ffct)-[A-Za-z0-9_.-]{16,}"),
    Shape(rule="slack", pattern=rf"xox[a-z](?:\.xox[a-z])?-{_URL64}{{10,}}|xapp-[0-9]-{_URL64}{{20,}}"),
    Shape(
        rule="slack",
        pattern=rf"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9_/-]{{20,}}",
        keep=re.compile(r"hooks\.slack\.com/\w+/"),
    ),
    Shape(rule="stripe", pattern=rf"[sr]k_(?:live|test|prod)_{_ALNUM}{{10,}}|whsec_[A-Za-z0-9+/=]{{24,}}"),
    Shape(rule="anthropic", pattern=rf"sk-ant-{_URL64}{{12,}}"),
    Shape(rule="openai", pattern=rf"sk-{_URL64}{{20,}}", check=_is_dense),
    Shape(rule="google", pattern=rf"AIza{_URL64}{{30,}}|GOCSPX-{_URL64}{{20,}}|ya29\.{_URL64}{{20,}}|1//0{_URL64}{{30,}}"),
    Shape(rule="npm", pattern=rf"npm_{_ALNUM}{{30,}}"),
    Shape(rule="huggingface", pattern=rf"hf_{_ALNUM}{{20,}}|api_org_{_ALNUM}{{30,}}", check=_is_varied),
    Shape(rule="sendgrid", pattern=rf"SG\.{_URL64}{{16,}}\.{_URL64}{{16,}}"),
    Shape(rule="digitalocean", pattern=rf"do[opr]_v1_{_HEX}{{32,}}"),
    Shape(rule="pypi", pattern=rf"pypi-{_URL64}{{32,}}", check=_is_dense),
    Shape(rule="azure", pattern=r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    Shape(rule="telegram", pattern=rf"[0-9]{{6,10}}:{_URL64}{{35}}\b", check=_is_bot_token),
    Shape(
        rule="discord",
        pattern=rf"discord(?:app)?\.com/api/webhooks/[0-9]{{15,}}/{_URL64}{{40,}}",
        keep=re.compile(r"discord(?:app)?\.com/api/webhooks/\d+/"),
    ),
    Shape(rule="discord", pattern=rf"[MNO]{_URL64}{{23,25}}\.{_URL64}{{6}}\.{_URL64}{{27,38}}"),
    Shape(rule="twilio", pattern=rf"SK{_HEX}{{32}}\b"),
    Shape(rule="shopify", pattern=r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    Shape(rule="mailgun", pattern=rf"key-{_HEX}{{32}}\b|{_HEX}{{32}}-{_HEX}{{8}}-{_HEX}{{8}}\b"),
    Shape(rule="mailchimp", pattern=rf"{_HEX}{{32}}-us[0-9]{{1,2}}\b"),
    Shape(rule="brevo", pattern=rf"xkeysib-{_HEX}{{64}}-{_ALNUM}{{16}}"),
    Shape(rule="square", pattern=rf"sq0(?:atp|csp)-{_URL64}{{22,}}"),
    Shape(rule="databricks", pattern=rf"dapi{_HEX}{{32}}"),
    Shape(rule="vault", pattern=rf"hv[sbr]\.{_URL64}{{24,}}"),
    Shape(rule="terraform", pattern=rf"{_ALNUM}{{14}}\.atlasv1\.{_URL64}{{60,}}"),
    Shape(rule="doppler", pattern=r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}"),
    Shape(rule="linear", pattern=rf"lin_(?:api|oauth)_{_ALNUM}{{32,}}"),
    Shape(rule="notion", pattern=rf"ntn_{_ALNUM}{{40,}}|secret_{_ALNUM}{{43}}\b"),
    Shape(rule="figma", pattern=rf"fig[du]_{_URL64}{{40}}"),
    Shape(rule="grafana", pattern=rf"glsa_{_ALNUM}{{32}}_[0-9A-Fa-f]{{8}}|glc_[A-Za-z0-9+/]{{32,}}={{0,2}}"),
    Shape(rule="sentry", pattern=r"sntry[su]_[A-Za-z0-9+/=_]{40,}"),
    Shape(rule="newrelic", pattern=r"NRAK-[A-Z0-9]{27}|NRII-[A-Za-z0-9-]{32}"),
    Shape(rule="postman", pattern=rf"PMAK-{_HEX}{{24}}-{_HEX}{{34}}"),
    Shape(rule="pulumi", pattern=rf"pul-{_HEX}{{40}}"),
    Shape(rule="planetscale", pattern=r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9._=-]{32,}"),
    Shape(rule="rubygems", pattern=rf"rubygems_{_HEX}{{48}}"),
    Shape(rule="nuget", pattern=r"oy2[a-z0-9]{43}\b"),
    Shape(rule="docker", pattern=rf"dckr_[po]at_{_URL64}{{20,}}"),
    Shape(rule="atlassian", pattern=rf"AT(?:ATT|CTT|STT)3[A-Za-z0-9_=-]{{50,}}|ATBB{_ALNUM}{{28,}}"),
    Shape(rule="tailscale", pattern=r"tskey-[a-z]+-[A-Za-z0-9-]{16,}"),
    Shape(rule="supabase", pattern=rf"sbp_{_HEX}{{40}}|sb_secret_{_URL64}{{20,}}"),
    Shape(rule="netlify", pattern=rf"nf[pcuo]_{_ALNUM}{{36,}}"),
    Shape(rule="fly", pattern=rf"fo1_{_URL64}{{43}}|fm[12][ar]?_[A-Za-z0-9+/]{{100,}}={{0,3}}"),
    Shape(rule="groq", pattern=rf"gsk_{_ALNUM}{{40,}}"),
    Shape(rule="xai", pattern=rf"xai-{_ALNUM}{{60,}}"),
    Shape(rule="perplexity", pattern=rf"pplx-{_ALNUM}{{40,}}"),
    Shape(rule="replicate", pattern=rf"r8_{_ALNUM}{{37}}"),
    Shape(rule="langsmith", pattern=rf"lsv2_(?:pt|sk)_{_HEX}{{32}}_{_HEX}{{10}}"),
    Shape(rule="airtable", pattern=rf"pat{_ALNUM}{{14}}\.{_HEX}{{64}}"),
    Shape(rule="alibaba", pattern=rf"LTAI{_ALNUM}{{16,26}}\b"),
    Shape(rule="circleci", pattern=r"CCIPAT_[A-Za-z0-9_]{40,}"),
    Shape(rule="buildkite", pattern=rf"bkua_{_HEX}{{40}}"),
    Shape(rule="sourcegraph", pattern=rf"sgp_(?:(?:{_HEX}{{16}}|local)_)?{_HEX}{{40}}"),
    Shape(rule="artifactory", pattern=rf"AKCp{_ALNUM}{{60,}}"),
    Shape(rule="bedrock", pattern=r"ABSK[A-Za-z0-9+/]{100,}={0,2}"),
    Shape(rule="sonar", pattern=rf"sq[upa]_{_HEX}{{40}}"),
    Shape(rule="openshift", pattern=rf"sha256~{_URL64}{{43}}"),
    Shape(rule="dynatrace", pattern=r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    Shape(rule="heroku", pattern=rf"HRKU-{_URL64}{{36,}}"),
    Shape(rule="facebook", pattern=rf"EAA{_ALNUM}{{90,}}"),
    Shape(rule="onepassword", pattern=r"ops_eyJ[A-Za-z0-9+/]{100,}={0,3}|A3-[A-Z0-9]{6}-[A-Z0-9]{6,11}-[A-Z0-9]{5}-[A-Z0-9]{5}"),
    Shape(rule="age", pattern=r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    Shape(rule="jwt", pattern=rf"eyJ{_URL64}{{8,}}\.{_URL64}{{8,}}(?:\.{_URL64}*){{0,3}}", check=_is_jwt),
    Shape(rule="recovery_token", pattern=rf"slr1\.{_URL64}{{8,}}(?:\.{_URL64}+)?"),
)

_ANCHORED = tuple((re.compile(shape.pattern, re.ASCII), shape) for shape in SHAPES)
_ENCODED = re.compile(r"[A-Za-z0-9+/]{31}[+/]$")
_OWN_CLASS = {"jwt": JWT, "recovery_token": RECOVERY_TOKEN}
_KINDS = {shape.rule: _OWN_CLASS.get(shape.rule, Kind(shape.rule, "provider_key")) for shape in SHAPES}

TOKEN_PATTERN = r"\b(?:" + "|".join(shape.pattern for shape in SHAPES) + ")"
_TOKENS = compile_linear(TOKEN_PATTERN)


def find_tokens(line: str) -> Iterator[Finding]:
    """Yield the tokens of a line that are secrets by their shape."""
    for match in _TOKENS.finditer(line.encode("latin-1")):
        start, end = match.start(), match.end()
        shape = _shape_at(line, start)
        if shape is None or (shape.check and not shape.check(line[start:end])):
            continue
        if _ENCODED.search(line, max(0, start - 32), start):
            continue  # chance, in the middle of encoded data
        if shape.keep and (kept := shape.keep.match(line, start)):
            start = kept.end()
        yield Finding(start, end, _KINDS[shape.rule])


def token_kind(value: str) -> Kind | None:
    """Say which provider's token a value is, if it is one and nothing else."""
    found = next(find_tokens(value), None)
    return found.kind if found is not None and (found.start, found.end) == (0, len(value)) else None


def _shape_at(line: str, start: int) -> Shape | None:
    return next((shape for pattern, shape in _ANCHORED if pattern.match(line, start)), None)
