"""A random value close to the name of a secret is masked, whatever stands between them."""

import pytest

from shiftlog.guard.secrets.detectors.evidence import POINTS, weigh
from shiftlog.guard.secrets.detectors.language.bigrams import randomness
from shiftlog.guard.secrets.redactor import Redactor

redactor = Redactor()
RANDOM = "q7Rk2Lw9Zx4Tn6Vb8Ym3"


@pytest.mark.parametrize(
    "text",
    [
        'Field(default="{}", title="The token of the service", alias="access_token")',
        "signing_secret,{}",
        "Q: What is the password? A: {}",
        "use {} as the password",
        '@Value("{}") private String storageSecret;',
        "ENV.fetch('VAULT_TOKEN') {{ '{}' }}",
        'case "refresh_token" => Some("{}")',
        "le mot de passe de la base est « {} »",
        "Voici la clé d'API à utiliser : {}",
        "Hier ist der API-Schlüssel: {}",
        "A senha do servidor é {}",
        "пароль — {}",
        "パスワードは {} です",
        "ClientSecret ........ {}",
        "RootPassword of the router at db.example.org → {}",
        "smtp_password(prod)={}",
        "<Parameter name='dbPass'><![CDATA[{}]]></Parameter>",
        "tool login {}",
    ],
)
def test_a_random_value_beside_a_name_is_masked(text: str) -> None:
    assert redactor.text(text.format(RANDOM)).text == text.format("[REDACTED:password]")


@pytest.mark.parametrize(
    "text",
    [
        "with SSHPKCS11Session.open(token, pin) as session:",
        'signing_key = Curve25519DH("secret")',
        f"the token is stored in build/{RANDOM}/out.js",
        f'{{"id": "toolu_{RANDOM}", "name": "read_token"}}',
        f"token sha512-{RANDOM}{RANDOM}",
        f'{{"token": null, "cursor": "{RANDOM}"}}',
        f"The password is wrong. Request {RANDOM} failed",
        "HEAD is now at 4f1c2d9 fix: password reset flow",
        '{"token_type": "x", "tenant": "97199184-5281-4f4f-8701-b738ea8cb7d9"}',
        '"jsonwebtoken": "^9.0.2"',
        'import { type Auth0ConfigIssue } from "../lib/auth0-debug.server"',
        "Kennwort: Pflichtfeld",
        "Mot de passe : champ obligatoire",
        '"forgotPassword": "¿Ha olvidado su contraseña?"',
    ],
)
def test_identifiers_paths_digests_and_other_keys_stay(text: str) -> None:
    assert redactor.text(text).text == text


def test_the_points_of_the_table_are_those_that_can_be_observed() -> None:
    lines = [f"password x y {RANDOM}", f"password: '{RANDOM}'", f"{RANDOM} password"]
    observed = {sign for line in lines for *_, signs in weigh(line, line.encode(), 0, len(line)) for sign in signs}
    assert observed <= POINTS.keys()
    assert len(observed) >= 7


def test_random_text_costs_more_than_words_and_identifiers() -> None:
    assert min(map(randomness, (RANDOM, "xK9fQ2mZ", "qhxmzkwpvb"))) > 10
    assert max(map(randomness, ("access_token_v2", "SecretAccessKey", "argon2id", "sha256sum"))) < 10
