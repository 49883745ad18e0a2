"""The contract's table of budgets and its faults, in the words of the dialect."""

from mcp.client.client import Client

from tests.dialects.execkit.test_acceptance import call, client, refused
from tests.shell.outputs.budget_rows import ROWS

__all__ = ["client"]


async def test_case_29_every_row_of_the_table_of_budgets(client: Client) -> None:
    session = (await call(client, "session_create", transport="local"))["session_id"]
    for row in ROWS:
        result = await call(client, "session_exec", session_id=session, command=row.command, budget=row.budget)
        assert (result["stdout"], result["truncated"]) == (row.text, row.truncated), row
        if row.report is None:
            assert "budget" not in result, row
        else:
            mode, total, kept = row.report
            assert result["budget"]["stdout"] == {"mode": mode, "lines_total": total, "lines_kept": kept}
            assert result["budget"]["stderr"] == {"mode": mode, "lines_total": 0, "lines_kept": 0}


async def test_case_27_and_28_a_faulty_budget_is_told_before_anything_runs(client: Client) -> None:
    session = (await call(client, "session_create", transport="local"))["session_id"]
    faults = [
        ({"keep": {"mode": "tail"}}, "budget.keep.n"),
        ({"grep": {"pattern": "["}}, "budget.grep.pattern"),
        ({"grep": {"pattern": "a(?=b)"}}, "look-around"),
    ]
    for budget, named in faults:
        said = await refused(client, "session_exec", session_id=session, command="echo ran > ran", budget=budget)
        assert said.startswith("invalid output budget: ")
        assert named in said
    looked = await call(client, "session_exec", session_id=session, command="test -e ran")
    assert looked["exit_code"] == 1


async def test_a_cut_without_a_budget_gives_the_hint_and_no_report(client: Client) -> None:
    session = (await call(client, "session_create", transport="local"))["session_id"]
    result = await call(client, "session_exec", session_id=session, command="seq 1 100000")
    assert result["truncated"]
    assert len(result["stdout"]) < 100_100
    assert result["hint"] == "output was truncated; pass budget (grep/keep/max_chars) to shape it"


async def test_counts_beyond_the_limits_are_clamped(client: Client) -> None:
    session = (await call(client, "session_create", transport="local"))["session_id"]
    beyond = {
        "grep": {"pattern": "5", "context": 5_000},
        "keep": {"mode": "tail", "n": 5_000_000},
        "max_chars": 5_000_000,
    }
    result = await call(client, "session_exec", session_id=session, command="seq 1 20", budget=beyond)
    assert result["budget"]["stdout"] == {"mode": "grep+tail", "lines_total": 20, "lines_kept": 20}
    ends = {"keep": {"mode": "head_tail", "head": 5_000_000, "tail": 5_000_000}}
    result = await call(client, "session_exec", session_id=session, command="seq 1 20", budget=ends)
    assert (result["truncated"], result["budget"]["stdout"]["lines_kept"]) == (False, 20)
