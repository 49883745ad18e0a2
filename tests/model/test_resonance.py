"""Resonance: how a run gets tier, model, effort, agent kind and provider, and what operators can change."""

import re
from pathlib import Path

import pytest

from shiftlog.config.loading import load
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.resonance import TIERS, Level, Resonance, known_backend, resolve_tier


def resonance(home: Path, text: str = "") -> Resonance:
    (home / "config.toml").write_text(text, encoding="utf-8")
    return load(home, {}).runs


def test_the_level_of_a_tier_is_that_of_the_backend(tmp_path: Path) -> None:
    rules = resonance(tmp_path)
    assert rules.level("claude_code", "alto").effort == "xhigh"
    assert rules.level("claude_code", "alto").model
    assert rules.level("codex", "alto").effort == "high"
    assert rules.level("gemini_cli", "alto") == Level()


def test_a_registered_caller_without_a_tier_gets_alto_without_a_warning(tmp_path: Path) -> None:
    assert resolve_tier(resonance(tmp_path), caller="headless_task", tier="") == ("alto", ())


def test_an_unregistered_caller_is_accepted_with_the_warning_of_the_contract(tmp_path: Path) -> None:
    tier, warnings = resolve_tier(resonance(tmp_path), caller="x", tier="")
    assert (tier, warnings) == ("alto", ("caller 'x' is not registered; using the default tier 'alto'",))


def test_the_tier_is_the_explicit_one_then_the_callers_then_the_operators_default(tmp_path: Path) -> None:
    rules = resonance(tmp_path, "[runs]\ndefault_tier='bajo'\n[runs.callers.nightly]\ntier='maximo'")

    def tier(caller: str, explicit: str = "") -> str:
        return resolve_tier(rules, caller=caller, tier=explicit)[0]

    assert (tier("nightly", "medio"), tier("nightly"), tier("headless_task")) == ("medio", "maximo", "bajo")
    assert resolve_tier(rules, caller="x", tier="")[1][0].endswith("default tier 'bajo'")
    assert resolve_tier(rules, caller="x", tier="alto")[1] == ()


@pytest.mark.parametrize(
    ("backend", "efforts"),
    [
        ("claude_code", ["max", "xhigh", "high", "medium", None]),
        ("codex", ["xhigh", "high", "medium", "low", "low"]),
    ],
)
def test_the_shipped_rows_are_those_of_the_contract(tmp_path: Path, backend: str, efforts: list[str | None]) -> None:
    levels = resonance(tmp_path).levels[backend]
    assert [levels[tier].effort for tier in TIERS] == efforts
    assert all(levels[tier].model for tier in TIERS)


def test_the_shipped_backends_are_registered_and_found_by_agent_kind(tmp_path: Path) -> None:
    rules = resonance(tmp_path)
    assert [rules.backend_of(kind) for kind in ("ClaudeCode", "Codex", "GeminiCli", "OpenCode")] == [
        "claude_code",
        "codex",
        "gemini_cli",
        "opencode",
    ]
    assert [rules.backend_of(kind) for kind in ("CopilotCli", "Cursor", "Nobody")] == [
        "copilot_cli",
        "cursor",
        None,
    ]


def test_the_operator_adds_to_the_shipped_tables_and_replaces_single_values(tmp_path: Path) -> None:
    rules = resonance(
        tmp_path,
        "[runs.backends.mine]\nagent='Mine'\n[runs.backends.codex]\nprovider='azure'\n"
        "[runs.resonance.mine.alto]\nmodel='m1'\n[runs.resonance.codex.alto]\nmodel='m2'\n"
        "[runs.resonance.codex.bajo]\neffort=''",
    )
    assert rules.levels["mine"] == {"alto": Level(model="m1")}
    assert rules.levels["codex"]["alto"] == Level(model="m2", effort="high")
    assert rules.levels["codex"]["bajo"].effort is None
    assert (rules.backends["codex"].agent, rules.backends["codex"].provider) == ("Codex", "azure")
    assert known_backend(rules, "mine").provider is None


def test_an_unregistered_backend_is_refused_with_the_allowed_names(tmp_path: Path) -> None:
    rules = resonance(tmp_path)
    with pytest.raises(InvalidParameter) as caught:
        known_backend(rules, "clode")
    assert caught.value.details["allowed"] == list(rules.backends)


def test_an_unknown_tier_is_refused_with_the_allowed_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter) as caught:
        resolve_tier(resonance(tmp_path), caller="x", tier="huge")
    assert (caught.value.details["parameter"], caught.value.details["allowed"]) == (
        "resonance_tier",
        list(TIERS),
    )


def test_model_names_live_only_in_the_shipped_table(tmp_path: Path) -> None:
    package = Path(__file__).parent.parent / "src" / "shiftlog"
    levels = resonance(tmp_path).levels
    models = {level.model for rows in levels.values() for level in rows.values()}
    words = re.compile("|".join(rf"['\"]{re.escape(model)}['\"]" for model in models if model))
    assert models
    assert [path for path in package.rglob("*.py") if words.search(path.read_text(encoding="utf-8"))] == []
