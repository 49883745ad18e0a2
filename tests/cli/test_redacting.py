"""`redact`: what would be masked, where and by which rule; never the secret itself."""

from pathlib import Path

from tests.cli.support import shiftlog

GITHUB = "gh" + "p_" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7c"
TEXT = f'user=bob\nexport DB_PASSWORD="pumpkin pie" TOKEN={GITHUB}\nnothing here\n'


def test_each_secret_is_shown_by_place_rule_and_masked_text(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(TEXT)
    done = shiftlog(tmp_path, "redact", str(file), status=1)
    assert done.out.splitlines() == [
        f'{file}:2:21  assignment  export DB_PASSWORD="[REDACTED:assignment]" TOKEN=',
        f'{file}:2:40  github  " TOKEN=[REDACTED:github]',
    ]
    assert file.read_text() == TEXT


def test_json_describes_the_secrets_of_standard_input(tmp_path: Path) -> None:
    done = shiftlog(tmp_path, "redact", "--json", "-", status=1, stdin=TEXT)
    secrets = done.json()["secrets"]
    assert [(secret["line"], secret["rule"], secret["class"]) for secret in secrets] == [
        (2, "assignment", "password"),
        (2, "github", "provider_key"),
    ]
    assert secrets[1]["characters"] == len(GITHUB)
    assert "pumpkin" not in done.out
    assert GITHUB not in done.out


def test_a_text_without_secrets_ends_with_status_zero(tmp_path: Path) -> None:
    done = shiftlog(tmp_path, "redact", "-", stdin="nothing\n")
    assert (done.out, done.err) == ("", "Nothing would be masked.\n")


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    assert "does not exist" in shiftlog(tmp_path, "redact", str(tmp_path / "none"), status=2).err


def test_the_operators_rules_count(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[redaction]\nsilenced = ["github"]\n[[redaction.rules]]\nname = "acme"\npattern = "ACME-[0-9]+"\n'
    )
    done = shiftlog(tmp_path, "redact", "-", status=1, stdin=f"see ACME-1234 and {GITHUB}\n")
    assert done.out == "1:5  acme  see [REDACTED:acme] and " + GITHUB + "\n"


def test_a_long_secret_beside_another_is_not_shown_in_part(tmp_path: Path) -> None:
    long = "Zq8Wm2Lp4Rt7" * 20
    done = shiftlog(tmp_path, "redact", "-", status=1, stdin=f"TOKEN={long} PASSWORD=kettle9\n")
    assert "Zq8Wm2" not in done.out
    assert "kettle9" not in done.out
