"""A random value close to the name of a secret is masked, whatever stands between them."""

import pytest

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
    ],
)
def test_identifiers_paths_digests_and_other_keys_stay(text: str) -> None:
    assert redactor.text(text).text == text
