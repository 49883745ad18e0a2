"""Settings: what wins, what is refused and how, and that everything shown follows the declaration."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.settings_table import reference_rows, reference_table
from shiftlog.config.loading import NOT_SETTINGS, Config, ConfiguredRule, load
from shiftlog.config.settings import SETTINGS
from shiftlog.model.errors import ConfigError

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


def load_text(home: Path, text: str, **environ: str) -> Config:
    (home / "config.toml").write_text(text, encoding="utf-8")
    return load(home, environ)


def refusal(home: Path, text: str, **environ: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_text(home, text, **environ)
    return caught.value


def test_without_file_and_variables_the_defaults_of_the_declaration_hold(tmp_path: Path) -> None:
    config = load(tmp_path, {"PATH": "/bin", "SHIFTLOG_HOME": "x"})
    assert (config.durability, config.idle_suspend_minutes, config.token_ttl_days) == ("full", 90, 30)
    assert (config.http.enabled, config.http.host, config.http.port) == (False, "127.0.0.1", 7437)
    assert config.daemon.idle_stop_minutes == 30.0
    assert config.mcp.toolsets == ()
    assert config.resume.require_token is False


def test_every_model_that_a_tier_stands_for_has_a_price(tmp_path: Path) -> None:
    config = load(tmp_path, {})
    named = {level.model for levels in config.runs.levels.values() for level in levels.values()}
    assert {"opus", "haiku"} < named
    assert [name for name in named if name and config.prices.price_of(name) is None] == []


def test_a_variable_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    text = "token_ttl_days = 10\n[http]\nport = 8000\nenabled = true\n[mcp]\ntoolsets = ['journal']"
    config = load_text(
        tmp_path,
        text,
        SHIFTLOG_TOKEN_TTL_DAYS="20",
        SHIFTLOG_MCP_TOOLSETS="journal, shell,",
        SHIFTLOG_AGENT=" ",
    )
    assert (config.token_ttl_days, config.http.port, config.http.enabled) == (20, 8000, True)
    assert config.mcp.toolsets == ("journal", "shell")
    assert config.agent == ""


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("[http]\nprot = 1", "http.prot", "http.port"),
        ("[htpp]\nport = 1", "htpp", "http"),
        ("[daemon]\nport = 1", "daemon.port", "http.port"),
        ("token_ttl = 3", "token_ttl", "token_ttl_days"),
        ("port = 3", "port", "http.port"),
        (
            "[[redaction.rules]]\nname='a'\npatern='b'",
            "redaction.rules[0].patern",
            "redaction.rules[0].pattern",
        ),
        ("[runs.resonance.codex.ato]\nmodel='m'", "runs.resonance.codex.ato", "runs.resonance.codex.alto"),
        ("[runs.resonance.codx.alto]\nmodel='m'", "runs.resonance.codx", "runs.resonance.codex"),
    ],
)
def test_an_unknown_key_is_refused_with_file_key_and_nearest_key(
    tmp_path: Path, text: str, key: str, nearest: str
) -> None:
    error = refusal(tmp_path, text)
    assert error.code == "invalid_config"
    assert error.details == {"source": str(tmp_path / "config.toml"), "key": key, "nearest": nearest}
    assert all(part in error.message for part in (str(tmp_path / "config.toml"), f"'{key}'", f"'{nearest}'"))


def test_an_unknown_variable_is_refused_naming_the_nearest_one(tmp_path: Path) -> None:
    error = refusal(tmp_path, "", SHIFTLOG_HTTP_PROT="1")
    assert error.message == "SHIFTLOG_HTTP_PROT: unknown setting; the nearest valid one is SHIFTLOG_HTTP_PORT"


def test_variables_that_are_not_settings_are_let_through(tmp_path: Path) -> None:
    assert load(tmp_path, dict.fromkeys(NOT_SETTINGS, "anything")) == load(tmp_path, {})


@pytest.mark.parametrize(
    "key", ["redaction.silenced", "redaction.rules", "runs.backends", "runs.callers", "runs.resonance"]
)
def test_a_key_of_the_file_alone_is_refused_as_a_variable(tmp_path: Path, key: str) -> None:
    error = refusal(tmp_path, "", **{"SHIFTLOG_" + key.replace(".", "_").upper(): "jwt"})
    assert f"'{key}' can only be set in config.toml" in error.message


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("durability = 'none'", "durability"),
        ("idle_suspend_minutes = '90'", "idle_suspend_minutes"),
        ("idle_suspend_minutes = 90.0", "idle_suspend_minutes"),
        ("idle_suspend_minutes = true", "idle_suspend_minutes"),
        ("idle_suspend_minutes = 10081", "idle_suspend_minutes"),
        ("token_ttl_days = 0", "token_ttl_days"),
        ("agent = 'lower case'", "agent"),
        ("http = 3", "http"),
        ("[http]\nport = 65536", "http.port"),
        ("[http]\nport = -1", "http.port"),
        ("[http]\nenabled = 1", "http.enabled"),
        ("[http]\nhost = '0.0.0.0'", "http.host"),
        ("[http]\nhost = 'example.org'", "http.host"),
        ("[http]\nhost = ''", "http.host"),
        ("[daemon]\nidle_stop_minutes = -1", "daemon.idle_stop_minutes"),
        ("[daemon]\nidle_stop_minutes = inf", "daemon.idle_stop_minutes"),
        ("[mcp]\ntoolsets = 'journal'", "mcp.toolsets"),
        ("[mcp]\ntools = ['']", "mcp.tools[0]"),
        ("[mcp]\ntools = [3]", "mcp.tools[0]"),
        ("[mcp]\ntoolsets = ['journal', 'journl']", "mcp.toolsets[1]"),
        ("[mcp]\ntools = ['open_sesion']", "mcp.tools[0]"),
        ("[mcp]\nexclude_tools = ['sovereign_shutdown']", "mcp.exclude_tools[0]"),
        ("[mcp]\ndialect = ['delx']", "mcp.dialect[0]"),
        ("[[redaction.rules]]\nname = 'a'", "redaction.rules[0].pattern"),
        ("[[redaction.rules]]\nname = 'a'\npattern = '(?<=x)y'", "redaction.rules[0].pattern"),
        ("[[redaction.rules]]\nname = 'a'\npattern = 'x*'", "redaction.rules[0].pattern"),
        (
            "[[redaction.rules]]\nname='a'\npattern='b'\n[[redaction.rules]]\nname='a'\npattern='c'",
            "redaction.rules",
        ),
        ("[redaction.rules]\nname = 'a'", "redaction.rules"),
        ("[runs]\nbackends = 3", "runs.backends"),
        ("[runs.backends.mine]\nprovider = 'p'", "runs.backends.mine.agent"),
        ("[runs.callers.mine]\ntier = 'high'", "runs.callers.mine.tier"),
    ],
)
def test_a_wrong_type_or_range_is_refused_naming_the_key(tmp_path: Path, text: str, key: str) -> None:
    error = refusal(tmp_path, text)
    assert error.details["key"] == key
    assert error.message.startswith(f"{tmp_path / 'config.toml'}: '{key}': ")


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("SHIFTLOG_HTTP_PORT", "many"),
        ("SHIFTLOG_HTTP_PORT", "70000"),
        ("SHIFTLOG_HTTP_ENABLED", "maybe"),
        ("SHIFTLOG_DAEMON_IDLE_STOP_MINUTES", "nan"),
        ("SHIFTLOG_MCP_DIALECT", "nexo,NOT A NAME"),
        ("SHIFTLOG_AGENT", "\udcff"),
    ],
)
def test_a_bad_variable_is_refused_by_its_own_name(tmp_path: Path, variable: str, text: str) -> None:
    assert refusal(tmp_path, "", **{variable: text}).message.startswith(f"{variable}: ")


def test_variables_are_read_by_the_type_of_their_key(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        "",
        SHIFTLOG_HTTP_ENABLED="yes",
        SHIFTLOG_HTTP_HOST="::1",
        SHIFTLOG_DAEMON_IDLE_STOP_MINUTES="0.5",
        SHIFTLOG_MCP_EXCLUDE_TOOLS="open_shell",
        SHIFTLOG_POLICY_FILE="~/policy.json",
    )
    assert (config.http.enabled, config.http.host, config.daemon.idle_stop_minutes) == (True, "::1", 0.5)
    assert (config.mcp.exclude_tools, config.policy_file) == (("open_shell",), "~/policy.json")


@pytest.mark.parametrize("content", [b"durability = ", b"\xff\xfe", b"a = " + b"[" * 5000])
def test_a_file_that_is_no_toml_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.toml: not valid TOML"):
        load(tmp_path, {})


def test_a_config_that_cannot_be_read_is_refused_and_not_taken_for_absent(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(ConfigError, match=r"config\.toml: Is a directory"):
        load(tmp_path, {})


def test_redaction_rules_carry_their_class_or_their_name(tmp_path: Path) -> None:
    text = """
        [[redaction.rules]]
        name = "a"
        pattern = "x+"
        [[redaction.rules]]
        name = "b"
        pattern = "y"
        class = "password"
    """
    assert load_text(tmp_path, text).redaction.rules == (
        ConfiguredRule(name="a", pattern="x+", kind="a"),
        ConfiguredRule(name="b", pattern="y", kind="password"),
    )


@given(st.text(max_size=60), st.text(max_size=60))
def test_no_text_in_file_or_variable_ends_otherwise_than_in_settings_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, text: str, value: str
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / "config.toml").write_text(text, encoding="utf-8", errors="replace")
    source: object = "none"
    try:
        load(home, {"SHIFTLOG_MCP_TOOLS": value})
    except ConfigError as error:
        source = error.details["source"]
    assert source in ("none", "SHIFTLOG_MCP_TOOLS", str(home / "config.toml"))


def test_every_declared_key_is_an_attribute_of_the_config_and_the_other_way_round(tmp_path: Path) -> None:
    config = load(tmp_path, {})
    attributes: set[str] = set()
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        inner = (
            [f"{field.name}.{each.name}" for each in dataclasses.fields(value)]
            if dataclasses.is_dataclass(value)
            else [field.name]
        )
        attributes.update(inner)
    renamed = {"runs.levels": "runs.resonance", "prices.models": "runs.prices", "prices.earlier": "runs.prices"}
    # The keys of a policy are declared with the policy, which has a JSON form of its own.
    assert {renamed.get(name, name) for name in attributes - {"policy"}} == {setting.key for setting in SETTINGS}


def test_the_table_in_the_docs_is_the_one_that_the_declaration_gives() -> None:
    assert reference_table() in DOCS.read_text(encoding="utf-8")


def test_the_reference_has_a_described_row_for_each_key_and_each_key_inside_tables() -> None:
    rows = {row.key: row for row in reference_rows()}
    assert {setting.key for setting in SETTINGS} < rows.keys()
    assert {"redaction.rules[].class", "runs.resonance.BACKEND.TIER.effort"} < rows.keys()
    assert all(row.description and row.type for row in rows.values())
    assert rows["mcp.exclude_tools"].variable == "SHIFTLOG_MCP_EXCLUDE_TOOLS"
    assert rows["redaction.silenced"].variable == ""
