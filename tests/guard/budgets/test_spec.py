"""Reading budgets: what is accepted, and the exact fault of everything else."""

import pytest

from shiftlog.guard.budgets.patterns import LinePattern, PatternRefused
from shiftlog.guard.budgets.spec import Budget, Keep, read_budget
from shiftlog.model.errors import InvalidParameter
from shiftlog.model.shell_errors import BudgetInvalid


def refused(value: object, path: str = "budget") -> BudgetInvalid:
    with pytest.raises(BudgetInvalid) as caught:
        read_budget(value, path)
    return caught.value


def test_a_whole_budget_is_read() -> None:
    value = {
        "grep": {"pattern": "a+", "context": 2},
        "keep": {"mode": "head_tail", "head": 1, "tail": 3},
        "max_chars": 9,
    }
    budget = read_budget(value)
    assert budget is not None
    assert budget.grep is not None
    assert (budget.grep.pattern, budget.grep.context) == (LinePattern("a+"), 2)
    assert (budget.keep, budget.max_chars) == (Keep(mode="head_tail", head=1, tail=3), 9)
    assert budget.mode == "grep+head_tail"


def test_null_equals_absent() -> None:
    assert read_budget(None) is None
    assert read_budget({"grep": None, "keep": None, "max_chars": None}) == Budget()
    assert read_budget({"keep": {"mode": "all", "n": None}}) == Budget(keep=Keep(mode="all"))
    assert read_budget({"max_chars": 5.0}) == Budget(max_chars=5)


@pytest.mark.parametrize(
    ("keep", "parameter", "message"),
    [
        ({"mode": "tail"}, "n", 'budget.keep.n is required when mode is "tail"'),
        ({"mode": "head"}, "n", 'budget.keep.n is required when mode is "head"'),
        ({"mode": "head_tail", "tail": 1}, "head", 'budget.keep.head is required when mode is "head_tail"'),
        ({"mode": "head_tail", "head": 1}, "tail", 'budget.keep.tail is required when mode is "head_tail"'),
    ],
)
def test_a_missing_count_is_named(keep: dict[str, object], parameter: str, message: str) -> None:
    """Case 27: nothing has run yet when this is raised."""
    fault = refused({"keep": keep})
    assert fault.message == message
    assert fault.details == {"parameter": f"budget.keep.{parameter}", "problem": "missing", "offset": None}
    assert fault.hint


@pytest.mark.parametrize(
    ("keep", "parameter"),
    [
        ({"mode": "head_tail", "head": 1, "tail": 1, "n": 1}, "n"),
        ({"mode": "tail", "n": 1, "head": 1}, "head"),
        ({"mode": "head", "n": 1, "tail": 0}, "tail"),
        ({"mode": "all", "n": 1}, "n"),
        ({"mode": "all", "head": 1}, "head"),
        ({"mode": "all", "tail": 1}, "tail"),
    ],
)
def test_a_count_of_another_mode_is_a_conflict(keep: dict[str, object], parameter: str) -> None:
    fault = refused({"keep": keep})
    assert (fault.details["parameter"], fault.details["problem"]) == (f"budget.keep.{parameter}", "conflict")


@pytest.mark.parametrize(
    ("value", "parameter", "problem"),
    [
        ({"keep": {"mode": "middle", "n": 1}}, "budget.keep.mode", "range"),
        ({"keep": {"mode": "tail", "n": -1}}, "budget.keep.n", "range"),
        ({"keep": {"mode": "tail", "n": 1_000_001}}, "budget.keep.n", "range"),
        ({"max_chars": 1_000_001}, "budget.max_chars", "range"),
        ({"max_chars": -1}, "budget.max_chars", "range"),
        ({"grep": {"pattern": "a", "context": 1001}}, "budget.grep.context", "range"),
        ({"grep": {"pattern": "ä" * 2049}}, "budget.grep.pattern", "range"),
        ({"grep": {"pattern": "a**"}}, "budget.grep.pattern", "format"),
        ({"grep": {"pattern": "a\ud800"}}, "budget.grep.pattern", "format"),
    ],
)
def test_what_is_out_of_range_is_named(value: dict[str, object], parameter: str, problem: str) -> None:
    fault = refused(value)
    assert (fault.code, fault.details["parameter"], fault.details["problem"]) == ("budget_invalid", parameter, problem)


@pytest.mark.parametrize(
    ("value", "parameter", "problem", "message"),
    [
        ({"kep": {}}, "budget.kep", "unknown", 'unknown argument "budget.kep"'),
        (
            {"keep": {"mode": "tail", "lines": 1}},
            "budget.keep.lines",
            "unknown",
            'unknown argument "budget.keep.lines"',
        ),
        ({"grep": {"pattern": "a", "x": None}}, "budget.grep.x", "unknown", 'unknown argument "budget.grep.x"'),
        ({"keep": {}}, "budget.keep.mode", "missing", 'missing argument "budget.keep.mode"'),
        ({"grep": {"context": 1}}, "budget.grep.pattern", "missing", 'missing argument "budget.grep.pattern"'),
        ([], "budget", "type", 'argument "budget" must be an object'),
        ({"max_chars": "5"}, "budget.max_chars", "type", 'argument "budget.max_chars" must be an integer'),
        ({"max_chars": True}, "budget.max_chars", "type", 'argument "budget.max_chars" must be an integer'),
        ({"max_chars": 1.5}, "budget.max_chars", "type", 'argument "budget.max_chars" must be an integer'),
        ({"max_chars": float("inf")}, "budget.max_chars", "type", 'argument "budget.max_chars" must be an integer'),
        ({"grep": {"pattern": 1}}, "budget.grep.pattern", "type", 'argument "budget.grep.pattern" must be a string'),
        ({"grep": "a"}, "budget.grep", "type", 'argument "budget.grep" must be an object'),
    ],
)
def test_unknown_missing_and_mistyped_members_are_faulty_parameters(
    value: object, parameter: str, problem: str, message: str
) -> None:
    """Case 25: nested members too."""
    with pytest.raises(InvalidParameter) as caught:
        read_budget(value)
    assert caught.value.message == message
    assert (caught.value.details["parameter"], caught.value.details["problem"]) == (parameter, problem)


def test_faults_of_a_shells_default_name_it() -> None:
    assert refused({"keep": {"mode": "tail"}}, "output_budget").details["parameter"] == "output_budget.keep.n"


def test_dialects_clamp_what_is_too_large_and_refuse_what_is_negative() -> None:
    value = {"grep": {"pattern": "a", "context": 5000}, "keep": {"mode": "tail", "n": 10**9}, "max_chars": 10**9}
    budget = read_budget(value, clamp=True)
    assert budget is not None
    assert budget.grep is not None
    assert (budget.grep.context, budget.keep, budget.max_chars) == (
        1000,
        Keep(mode="tail", head=0, tail=1_000_000),
        1_000_000,
    )
    with pytest.raises(InvalidParameter, match=r"budget\.keep\.n"):
        read_budget({"keep": {"mode": "tail", "n": -1}}, clamp=True)


@pytest.mark.parametrize(
    ("pattern", "says", "offset"),
    [
        ("[", "missing ]", 0),
        ("a(?=b)", "look-around", 1),
        ("(?!b)", "look-around", 0),
        ("x(?<=b)", "look-around", 1),
        ("(?<!b)x", "look-around", 0),
        (r"(a)\1", "back-reference", 3),
        (r"(?P<x>a)(?P=x)", "back-reference", 8),
        (r"(?P<x>a)\k<x>", "back-reference", 8),
        (r"\d(?>a)", "atomic", 2),
        ("a(", "missing )", None),
    ],
)
def test_patterns_beyond_linear_time_are_refused_by_name(pattern: str, says: str, offset: int | None) -> None:
    """Case 28."""
    fault = refused({"grep": {"pattern": pattern}})
    assert fault.message.startswith("budget.grep.pattern is not valid: ")
    assert says in fault.message
    if offset is not None:
        assert fault.details["offset"] == offset


@pytest.mark.parametrize("pattern", ["[(?=]", r"\(\?=", "(?i)straße", r"\p{Greek}+", r"(?P<a>x)|[\]\\1]", "", r"a\b"])
def test_what_only_looks_like_look_around_is_accepted(pattern: str) -> None:
    LinePattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("(?i)ÄRGER", [2]), (r"\p{Greek}", [3]), (r"\Aa", [0]), (r"c\z", [0]), ("(?-m)^$", [1]), (r"^\W*$", [1, 3])],
)
def test_patterns_see_each_line_alone(pattern: str, found: list[int]) -> None:
    lines = ["abc", "", "ärger", "λ", "x a"]
    block = "\n".join(lines).encode()
    starts = [0, 4, 5, 12, 15]
    assert [starts.index(start) for start, _ in LinePattern(pattern).find(block)] == found


@pytest.mark.parametrize("pattern", ["", "x*", "$", "^", r"\A", r"\z", "(?U).*"])
@pytest.mark.parametrize(
    ("block", "found"),
    [
        (b"a\nb", [(0, 3)]),
        (b"a\n\nb\n", [(0, 5)]),
        (b"\n", [(0, 1)]),
        (b"\n\n", [(0, 2)]),
        (b"a", [(0, 1)]),
        (b"", []),
    ],
)
def test_a_pattern_that_matches_the_empty_text_finds_every_line(
    pattern: str, block: bytes, found: list[tuple[int, int]]
) -> None:
    assert list(LinePattern(pattern).find(block)) == found


def test_a_pattern_that_explodes_elsewhere_takes_no_time() -> None:
    assert list(LinePattern("(a+)+$").find(b"a" * 100_000 + b"b")) == []


def test_a_refused_pattern_says_how_long_it_is() -> None:
    with pytest.raises(PatternRefused, match="at most 4096"):
        LinePattern("a" * 4097)
