"""A value after the name of a secret is masked whatever signs and small words stand between them."""

import pytest

from shiftlog.guard.secrets.redactor import Redactor

redactor = Redactor()


@pytest.mark.parametrize(
    "text",
    [
        "root password → ⟦k3ttle9x⟧",
        "das Passwort lautet: ⟦k3ttle9x⟧",
        "<param-name>dbPassword</param-name><param-value>⟦kettle⟧</param-value>",
        "<td>Password</td><td>⟦k3ttle9x⟧</td>",
        'case "account_key": return "⟦kettle⟧"',
        'options.add("db_password", "⟦k3ttle9x⟧")',
        "Set DB_PASSWORD to ⟦k3ttle9x⟧",
        "my deploy token is '⟦kettle-marble⟧'",
    ],
)
def test_a_value_is_found_in_any_syntax(text: str) -> None:
    before, _, rest = text.partition("⟦")
    secret, _, after = rest.partition("⟧")
    assert redactor.text(f"{before}{secret}{after}").text == f"{before}[REDACTED:password]{after}"


@pytest.mark.parametrize(
    "text",
    [
        '<label for="db_password">DbPassword</label>',
        'flag.String("db-password", "", "the password of the database")',
        '"private_token": ["domain", "support"]',
        'getattr(token, "kind")',
        'claims: VerifiedToken["subject"];',
        "`/token` returns `503 unavailable`",
        "password → see docs/passwords.md",
        "| `the password is …` | `assignments` |",
    ],
)
def test_labels_code_and_prose_after_a_name_stay(text: str) -> None:
    assert redactor.text(text).text == text
