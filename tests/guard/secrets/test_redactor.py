"""What redaction promises in words: placeholders, what is left alone, rules of the operator."""

import pytest

from shiftlog.guard.secrets.redactor import InvalidRule, Redactor, Rule, learnable_values

HEX_40 = "3f786850e387550fdab836ed7e6dc881de23001b"
UUID = "0a1b2c3d-4e5f-4a6b-8c7d-9e0f1a2b3c4d"
GITHUB = "gh" + "p_" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7c"
RECOVERY = "sl" + "r1." + "eyJzZXNzaW9uIjoxfQ" + "." + "c2lnbmF0dXJlLW9mLXRoZS1wYXlsb2Fk"
JWT = "ey" + "JhbGciOiJIUzI1NiJ9" + "." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0" + "." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
KEY_LINE = "MIIEpAIBAAKCAQEA" + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAA"
BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"

redactor = Redactor()


def masked(text: str, *, by_rule: bool = False) -> str:
    return redactor.text(text, by_rule=by_rule).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X-Api-Key: abcd", "X-Api-Key: [REDACTED]"),
        (f"apiKey: {UUID}", "apiKey: [REDACTED]"),
        ("Bearer abcdefgh12345678", "Bearer [REDACTED]"),
        ("Authorization: abcd1234", "Authorization: [REDACTED]"),
        ("Authorization: Basic Ym9iOmh1bnRlcjI=", "Authorization: Basic [REDACTED]"),
        (f"Authorization: token {HEX_40}", "Authorization: token [REDACTED]"),
        ("Authorization: Bearer abcd", "Authorization: Bearer [REDACTED]"),
        ("OPENAI_API_KEY=abcd1234", "OPENAI_API_KEY=[REDACTED]"),
        ("@{'X-Api-Key'='abcd1234'}", "@{'X-Api-Key'='[REDACTED]'}"),
        ('"api-key" => "abcd1234"', '"api-key" => "[REDACTED]"'),
        (f"nuget push /apikey:{UUID}", "nuget push /apikey:[REDACTED]"),
        (f"https://host/v1/apiKey={HEX_40}", "https://host/v1/apiKey=[REDACTED]"),
        ("Bearer abc+def/ghi=~zzz123==", "Bearer [REDACTED]"),
    ],
)
def test_the_classes_of_the_dialect_have_a_plain_placeholder(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GITHUB_TOKEN=abcd1234", "GITHUB_TOKEN=[REDACTED:password]"),
        ("clientSecret: 's3cr3t!'", "clientSecret: '[REDACTED:password]'"),
        ("app --db-password hunter2", "app --db-password [REDACTED:password]"),
        ("postgres://u:hunter2@db", "postgres://u:[REDACTED:url_password]@db"),
        ("redis://:hunter2@cache", "redis://:[REDACTED:url_password]@cache"),
        (f"see {JWT} there", "see [REDACTED:jwt] there"),
        (f"I pasted {GITHUB}", "I pasted [REDACTED:provider_key]"),
        ("Cookie: sid=abc123; theme=dark", "Cookie: [REDACTED:cookie]"),
        ("Set-Cookie: sid=abc123; Path=/", "Set-Cookie: [REDACTED:cookie]"),
        ("Server=db;User Id=sa;Password=hunter2;", "Server=db;User Id=sa;Password=[REDACTED:connection_string];"),
        (f"signature: {HEX_40}", "signature: [REDACTED:signature]"),
        (f"resume with {RECOVERY}", "resume with [REDACTED:recovery_token]"),
        (f"{BEGIN}\n{KEY_LINE}\n{END}\nafter", "[REDACTED:private_key]\nafter"),
    ],
)
def test_every_other_class_is_named_in_its_placeholder(text: str, expected: str) -> None:
    assert masked(text) == expected


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("AKIA" + "ABCDEFGHIJ234567", "aws_key_id"),
        ("AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMIbK7MDENG/bPxRfiCYzzzzzKEYab", "aws_secret"),
        (GITHUB, "github"),
        ("gl" + "pat-ab12cd34ef56gh78ij90", "gitlab"),
        ("xox" + "b-123456789012-abcdef", "slack"),
        ("sk_" + "live_4eC39HqLyjWDarjtT1", "stripe"),
        ("sk" + "-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z", "openai"),
        ("sk" + "-ant-api03-Ab3dEf6hIj9kLm2n", "anthropic"),
        ("slk" + "_574d88ba3ae96f2d_SYYzz3WW16JQukecSroDwrvAJpBNIlyr6C1jwyVwR54", "shiftlog"),
        ("AI" + "za" + "SyAb3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zA", "google"),
        (JWT, "jwt"),
        (f"{BEGIN}\n{KEY_LINE}\n{END}", "private_key"),
        ("np" + "m_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb7c", "npm"),
        ("h" + "f_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb", "huggingface"),
        ("S" + "G.Ab3dEf6hIj9kLm2nOp5qRs.8tUv1wXy4zAb3dEf6hIj9k", "sendgrid"),
        ("dop" + "_v1_" + HEX_40 + HEX_40[:24], "digitalocean"),
        ("py" + "pi-AgEIcHlwaS5vcmcAb3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z", "pypi"),
        ("AccountName=a;AccountKey=Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z+/==;x=1", "azure"),
        ("1234567890:" + "AAb3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb", "telegram"),
        ("amqp://u:hunter2@mq", "url_password"),
        ("Bearer abcdefgh12345678", "bearer"),
        ("Authorization: Basic Ym9iOmh1bnRlcjI=", "basic_auth"),
        ("Cookie: sid=abc123", "cookie"),
        ("mysql -u root -phunter2 app", "cli_password"),
        ("sshpass -p hunter2 ssh host", "cli_password"),
        ("app --password=hunter2", "cli_password"),
        ("PGPASSWORD=hunter2", "assignment"),
        ("db_pass: hunter2", "assignment"),
        ("passphrase: hunter2", "assignment"),
    ],
)
def test_command_text_and_output_show_the_rule(text: str, rule: str) -> None:
    redacted = redactor.text(text, by_rule=True)
    assert f"[REDACTED:{rule}]" in redacted.text
    assert redacted.count == 1


@pytest.mark.parametrize(
    "text",
    [
        f"commit {HEX_40}",
        f"session {UUID}",
        f"sha256:{HEX_40}{HEX_40[:24]}",
        "password: $NAME",
        "password: ${NAME}",
        "password: %NAME%",
        "token = os.environ['TOKEN']",
        "token: process.env.TOKEN",
        "apiKey: <your-key>",
        "password: ***",
        "token: str",
        "password = get_password()",
        "secret: cfg.secret",
        "bearer of news",
        "tokenCount: 1250",
        "max_tokens=4096",
        "password reset flow",
        "password: string;",
        "token = get_token()",
        "SECRET=${X}",
        "password: <yours>",
        "/srv/a/secret-notes.md",
        "src/lib/apiKey: src/lib/apiKey/index.ts",
        "/etc/secrets/apikey: permission-denied-for-user",
    ],
)
@pytest.mark.parametrize("by_rule", [False, True])
def test_what_only_names_or_stands_for_a_secret_is_left_alone(text: str, by_rule: bool) -> None:
    assert redactor.text(text, by_rule=by_rule).text == text
    assert redactor.text(text, by_rule=by_rule).count == 0


def test_a_cookie_in_minified_code_does_not_take_the_code_with_it() -> None:
    code = 'cookie:a=b.c,d:function(e){return e.token=e.token||null};var t=document.cookie.split(";");' * 600
    shown = redactor.text(code).text
    assert len(shown) > 0.9 * len(code)
    assert shown.count("function(e)") == 600


def test_a_header_is_masked_to_its_end_but_no_further_than_sixteen_kibibytes() -> None:
    shown = redactor.text("Cookie: sid=" + "a1B2" * 10_000).text
    assert shown.startswith("Cookie: [REDACTED:cookie]")
    assert len(shown) > 20_000


def test_secrets_are_counted_by_class_whichever_form_is_shown() -> None:
    text = f"password: hunter2hunter2\nurl=amqp://u:hunter2@mq\npassword: hunter3hunter3\n{GITHUB}"
    for by_rule in (False, True):
        redacted = redactor.text(text, by_rule=by_rule)
        assert redacted.count == 4
        assert redacted.classes == {"password": 2, "provider_key": 1, "url_password": 1}


def test_a_text_without_secrets_is_returned_as_it_is() -> None:
    text = "nothing to see, move along: token bucket, password policy"
    assert redactor.text(text).text is text


def test_a_git_sha_and_a_uuid_beside_secrets_survive() -> None:
    text = f"{HEX_40} {UUID} password: hunter2hunter2 postgres://u:hunter2@db"
    assert masked(text).startswith(f"{HEX_40} {UUID} password: [REDACTED:password] ")


def test_a_secret_named_by_name_and_shape_is_counted_once_under_its_provider() -> None:
    redacted = redactor.text(f"GITHUB_TOKEN={GITHUB}")
    assert redacted.text == "GITHUB_TOKEN=[REDACTED:provider_key]"
    assert redacted.classes == {"provider_key": 1}


def test_a_private_key_cut_off_before_its_end_line_is_masked_to_where_it_stops() -> None:
    assert masked(f"a\n{BEGIN}\n{KEY_LINE}\n{KEY_LINE}\nthe file was cut\n") == (
        "a\n[REDACTED:private_key]\nthe file was cut\n"
    )


def test_a_begin_mark_without_a_key_behind_it_is_left_alone() -> None:
    text = f"grep -l '{BEGIN}' *\n{BEGIN}\nis how such a file starts\n"
    assert masked(text) == text


def test_in_an_environment_dump_a_random_value_is_masked_whatever_its_name() -> None:
    value = "xY3" * 10
    dump = f"HOME=/root\nSHLVL=1\nHOOK={value}\nLANG=en_US.UTF-8\n"
    assert masked(dump) == dump.replace(value, "[REDACTED:env]")
    three_lines = f"HOME=/root\nHOOK={value}\nSHLVL=1\n"
    assert masked(three_lines) == three_lines


def test_the_name_of_a_secret_may_stand_on_the_line_before_its_value() -> None:
    assert masked("- name: DB_PASSWORD\n  value: hunter2") == "- name: DB_PASSWORD\n  value: [REDACTED:password]"
    assert masked(f"- name: GIT_SHA\n  value: {HEX_40}") == f"- name: GIT_SHA\n  value: {HEX_40}"


def test_characters_beyond_ascii_around_a_secret_survive() -> None:
    assert masked("é日本 password: hünter2é 日本 😀") == "é日本 password: [REDACTED:password] 日本 😀"


def test_only_the_classes_asked_for_are_masked() -> None:
    redacted = redactor.text(f"password: hunter2 {GITHUB}", only=frozenset({"provider_key"}))
    assert redacted.text == "password: hunter2 [REDACTED:provider_key]"


def test_the_operator_adds_a_rule() -> None:
    rule = Rule(id="acme", pattern=r"ACME-[0-9]{4,}", klass="ticket")
    redacted = Redactor([rule]).text("see ACME-1234 now")
    assert redacted.text == "see [REDACTED:ticket] now"
    assert redacted.classes == {"ticket": 1}
    assert Redactor([rule]).text("see ACME-1234 now", by_rule=True).text == "see [REDACTED:acme] now"


def test_the_first_group_of_a_rule_is_what_it_masks() -> None:
    redactor = Redactor([Rule(id="acme", pattern=r"acme:(\w+)")])
    assert redactor.text("key acme:abc end").text == "key acme:[REDACTED:acme] end"


def test_a_rule_sees_one_line_at_a_time() -> None:
    redactor = Redactor([Rule(id="acme", pattern=r"a\s+b"), Rule(id="whole", pattern=r"^line$")])
    assert redactor.text("a\nb\nline\nx line").text == "a\nb\n[REDACTED:whole]\nx line"


def test_the_operator_silences_a_rule() -> None:
    text = f"password: hunter2hunter2 {GITHUB}"
    assert Redactor(silenced=frozenset({"github"})).text(text).text == f"password: [REDACTED:password] {GITHUB}"
    assert Redactor(silenced=frozenset({"assignment", "github"})).text(text).text == text


def test_an_added_rule_can_be_silenced_too() -> None:
    redactor = Redactor([Rule(id="acme", pattern="ACME")], frozenset({"acme"}))
    assert redactor.text("ACME works").text == "ACME works"


@pytest.mark.parametrize(
    ("rule_id", "pattern", "reason"),
    [
        ("acme", "(unclosed", "missing"),
        ("acme", "a*", "empty"),
        ("acme", r"\Aabc", "line"),
        ("acme", r"(a)\1", "invalid"),
        ("Not An Id", "abc", "form"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_with_the_reason(rule_id: str, pattern: str, reason: str) -> None:
    with pytest.raises(InvalidRule, match=reason):
        Rule(id=rule_id, pattern=pattern)


def test_learned_values_are_masked_wherever_they_appear() -> None:
    learned = redactor.learning(learnable_values("export DB_PASSWORD=hunter2hunter2 TOKEN=return"))
    assert learned.text("echo hunter2hunter2; return").text == "echo [REDACTED:learned]; return"
    assert redactor.text("echo hunter2hunter2").count == 0


def test_only_values_of_eight_characters_of_two_classes_are_learnt() -> None:
    assert learnable_values("A_TOKEN=abc123 B_TOKEN=abcdefgh9 PGPASSWORD=hunter2x psql") == {"abcdefgh9", "hunter2x"}


def test_a_learnt_value_is_taken_literally() -> None:
    assert redactor.learning(["a.b*c(d"]).text("x a.b*c(d y aXbbbc(d").text == "x [REDACTED:learned] y aXbbbc(d"


@pytest.mark.parametrize(
    "token", ["ghp_" + "k3Jx9" * 7 + "a", "npm_" + "k3Jx9" * 7 + "a", "hf_" + "k3Jx9" * 7, "sk_live_" + "k3Jx9" * 5]
)
def test_tokens_that_were_put_together_without_a_break_are_masked_whole(token: str) -> None:
    shown = Redactor().text(f"{token}{token}{token} after", by_rule=True).text
    assert "k3Jx9" not in shown
    assert shown.endswith(" after")


@pytest.mark.parametrize(
    "escape", [r"\n", r"\t", r"\r", r"\\n", r"\u003d", r"\x20", r"\033[0m", "%3D", "%20", "\x1b[1;32m"]
)
@pytest.mark.parametrize("secret", [GITHUB, RECOVERY, JWT])
def test_a_token_behind_an_escape_is_as_secret_as_one_behind_a_blank(escape: str, secret: str) -> None:
    assert masked(f'{{"text":"first{escape}{secret}"}}').startswith(f'{{"text":"first{escape}[REDACTED')
    assert secret not in masked(f"printf '{escape}{secret}'")


@pytest.mark.parametrize(
    "text",
    [
        r"{}\nBearer SECRET",
        r"cd x\nsshpass -p SECRET ssh y",
        r"cd x\n\tmysql -pSECRET -u root",
        r"a\ncurl -u me:SECRET h",
    ],
)
def test_commands_and_schemes_that_begin_an_escaped_line_keep_no_password(text: str) -> None:
    assert "s3cr3tValue99xyz" not in masked(text.replace("SECRET", "s3cr3tValue99xyz"))


@pytest.mark.parametrize("position", [0, 900, 1024, 5_000, 19_000])
@pytest.mark.parametrize("between", [" word", "\\nword", " a token ", ' {"tokens": 1}'])
def test_a_secret_is_found_at_any_place_of_a_long_line(position: int, between: str) -> None:
    filler = between * (20_000 // len(between))
    before, after = filler[:position], filler[position:]
    hidden, key = "[REDACTED:password]", "[REDACTED:provider_key]"
    secrets = f' "db_password": "hunter2hunter2" curl -u joe:kettle7 https://a.example {GITHUB} '
    masked = f' "db_password": "{hidden}" curl -u joe:{hidden} https://a.example {key} '
    assert redactor.text(before + secrets + after).text == before + masked + after
