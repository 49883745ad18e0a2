"""The page of usage: totals, tables as CSV, pictures that say what is not known."""

import csv
import io
import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from shiftlog.ingest.importing.ports import ImportOptions
from shiftlog.web.views.usage import bucketed, buckets
from tests.ingest.import_app import Claude
from tests.web.server import PageServer
from tests.web.stories import Day


def test_turns_and_steps_of_an_import_say_what_they_cost(server: PageServer) -> None:
    transcript = Claude(session="5e551000-0000-4000-8000-0000000c0570", letter="e")
    for turn, output in enumerate((10_000, 30_000), 1):
        used = {"input_tokens": 0, "output_tokens": output}
        transcript.prompt(f"Turn {turn}")
        transcript.block({"type": "text", "text": "Working"}, message=f"m{turn}", request=f"r{turn}", usage=used)
        transcript.calls(f"call-{turn}", command="true").returns(f"call-{turn}", "").says("Done").ends()
    path = server.home.parent / f"{transcript.session}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in transcript.records), encoding="utf-8")
    server.do(server.app.imports.run(ImportOptions(paths=[str(path)], jobs=0)))
    [item] = [one for one in server.json("/sessions")["items"] if one["session_id"].endswith("0c0570")]
    turns = server.html(f"/sessions/{item['session_id']}").split('<article class="turn')[1:]
    told = [re.findall(r"<span>\$([0-9.]+)</span>", turn) for turn in turns]
    assert told == [["0.25", "0.25"], ["0.75", "0.75"]], "of the turn, and of the step that the response led to"
    assert item["cost_usd"] == pytest.approx(1.0)


def test_usage_adds_up_and_comes_as_csv(server: PageServer, day: Day) -> None:
    data = server.json("/usage")
    today = datetime.now(UTC).date().isoformat()
    assert data["total"]["cost_usd"] == pytest.approx(0.41)
    for name, value in (
        ("day", today),
        ("model", "claude-opus-4-5"),
        ("agent", "ivy"),
        ("project", "checkout-service"),
    ):
        row = next(row for row in data["by"][name] if row[name] == value)
        assert row["tokens"] == 8840, name
        assert row["cost_usd"] == pytest.approx(0.41), name
        with server.client() as client:
            answer = client.get("/usage.csv", params={"by": name})
        assert answer.headers["content-type"].startswith("text/csv")
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        found = next(row for row in rows if row[name] == value)
        assert found["tokens"] == "8840"
    html = server.html("/usage")
    assert html.count('class="chart bars"') == 2
    assert html.count('class="levels"') == 6


def test_small_costs_add_up_as_they_do_in_the_total(server: PageServer) -> None:
    for agent_id in ("tiny-one", "tiny-two"):
        run = {"agent": "Codex", "title": "Tiny", "agent_id": agent_id, "model": "tiny"}
        session_id = server.tool("open_session", run)["session_id"]
        server.tool("close_session", {"session_id": session_id, "total_cost_usd": 0.0000004})
    usage = server.json("/usage", model="tiny")
    assert usage["total"]["cost_usd"] == 0.0000008
    assert [row["cost_usd"] for row in usage["by"]["day"]] == [0.0000008]


def test_usage_of_days_on_which_nothing_ran_is_nothing(server: PageServer, day: Day) -> None:
    data = server.json("/usage", **{"from": "2020-01-01", "to": "2020-01-31"})
    assert data["total"]["sessions"] == 0
    assert "Nothing was used" in server.html("/usage?from=2020-01-01&to=2020-01-31")


def test_an_age_counts_in_whole_days(server: PageServer, day: Day) -> None:
    today = datetime.now(UTC).date()
    week = server.json("/usage", **{"from": "7d"})
    dated = server.json("/usage", **{"from": (today - timedelta(days=7)).isoformat()})
    assert week["filters"] == {"from": "7d"}
    assert week["total"] == dated["total"]
    assert week["by"] == dated["by"]


def test_what_was_used_long_ago_is_a_link_away(server: PageServer, tmp_path: Path) -> None:
    transcript = Claude(started=datetime(2024, 5, 1, tzinfo=UTC), common={"cwd": "/srv/long-ago"})
    transcript.prompt("Go").says("Done", message="m1", request="r1", usage={"output_tokens": 7}).ends()
    path = tmp_path / f"{transcript.session}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in transcript.records), encoding="utf-8")
    server.do(server.app.imports.run(ImportOptions(paths=[str(path)], jobs=0)))
    html = server.html("/usage").partition("<main")[2]
    assert ">long-ago<" not in html
    link = re.search(r'href="([^"]+)">All days', html)
    assert link
    assert ">long-ago<" in server.html(link[1])


def test_a_cost_that_nobody_knows_is_not_drawn_as_nothing(server: PageServer) -> None:
    for model, figures in (("priced", {"total_cost_usd": 0.5}), ("unpriced", {"output_tokens": 7})):
        run = {"agent": "Codex", "title": "Cost", "agent_id": "costs", "model": model}
        session_id = server.tool("open_session", run)["session_id"]
        server.tool("close_session", {"session_id": session_id, **figures})
    costs = server.html("/usage?agent_id=costs").split('id="by-model"')[1].split("<figcaption>Cost per ")[1]
    picture = costs[: costs.index("</figure>")]
    assert re.findall(r'class="figure">([^<]*)', picture) == ["$0.50", "–"]
    assert re.findall(r"<progress [^>]*value=\"([0-9]+)\"", picture) == ["1000", "0"]


def test_a_table_of_usage_says_what_it_leaves_out(server: PageServer) -> None:
    for number in range(61):
        run = {"agent": "Codex", "title": "Crowd", "agent_id": f"crowd-{number}", "model": "crowded"}
        server.tool("close_session", {"session_id": server.tool("open_session", run)["session_id"], "output_tokens": 1})
    html = server.html("/usage?model=crowded").partition("<main")[2]
    assert html.count(">crowd-") == 70, "60 in the table, 10 in the picture"
    assert "1 more; the CSV has all of them." in html


def test_a_cell_of_a_table_is_never_a_formula(server: PageServer) -> None:
    opened = server.tool("open_session", {"agent": "Codex", "agent_id": "=1+2", "title": "Formula", "model": "=cmd"})
    named = {"session_id": opened["session_id"]}
    server.tool("begin_turn", {**named, "query_title": "Go", "query_text": "Go"})
    server.tool("finish_turn", {**named, "outcome": "completed", "response": "Ok", "usage": {"input_tokens": 1}})
    with server.client() as client:
        text = client.get("/usage.csv?by=agent").text
    assert "'=1+2," in text
    assert "\n=1+2," not in text


def test_the_axis_of_days_has_no_gaps_bars_are_stacked_by_model_and_lead_to_sessions(server: PageServer) -> None:
    for model, cost in (("stack-one", 0.5), ("stack-two", 0.25)):
        run = {"agent": "Codex", "title": "Stacked", "agent_id": "stacks", "model": model}
        session_id = server.tool("open_session", run)["session_id"]
        server.tool("close_session", {"session_id": session_id, "total_cost_usd": cost})
    today = datetime.now(UTC).date()
    first = today - timedelta(days=9)
    html = server.html(f"/usage?agent_id=stacks&from={first}").partition("<main")[2]
    costs = html.split("<figcaption>Cost per ")[1]
    picture = costs[: costs.index("</figure>")]
    assert re.findall(r"<title>([0-9-]+): ", picture) == [(first + timedelta(days=n)).isoformat() for n in range(10)]
    assert picture.count('class="bar s0"') == picture.count('class="bar s1"') == 1
    assert f'href="/sessions?agent_id=stacks&amp;from={today}&amp;to={today}"' in picture
    models = html.split('id="by-model"')[1]
    assert f'href="/sessions?agent_id=stacks&amp;from={first}&amp;model=stack-one"' in models
    data = server.json("/usage", agent_id="stacks", **{"from": first.isoformat()})
    assert {(row["model"], row["cost_usd"]) for row in data["by_day_and_model"]} == {
        ("stack-one", 0.5),
        ("stack-two", 0.25),
    }


def test_usage_says_what_came_from_the_cache_and_what_a_turn_costs(server: PageServer) -> None:
    opened = server.tool("open_session", {"agent": "Codex", "agent_id": "cached", "title": "Cached"})
    named = {"session_id": opened["session_id"]}
    for _ in range(2):
        server.tool("begin_turn", {**named, "query_title": "Go", "query_text": "Go"})
        usage = {"input_tokens": 10, "cached_input_tokens": 30, "output_tokens": 5, "cost_usd": 0.2}
        server.tool("finish_turn", {**named, "outcome": "completed", "response": "Ok", "usage": usage})
    data = server.json("/usage", agent_id="cached")
    assert (data["cache_hit_rate"], data["cost_per_turn_usd"]) == (0.75, 0.2)
    assert "75 %" in server.html("/usage?agent_id=cached")


@pytest.mark.parametrize(
    ("days", "unit"), [(120, "day"), (121, "week"), (728, "week"), (729, "month"), (9_000, "month")]
)
def test_a_long_time_is_drawn_in_weeks_or_months_and_nothing_is_lost(days: int, unit: str) -> None:
    first = date(2001, 2, 3)
    rows = [
        {"day": (first + timedelta(days=number)).isoformat(), "tokens": number, "stack": [number, 1.0]}
        for number in range(days)
    ]
    named, bucket_of = buckets(days)
    bars = bucketed(rows, "tokens", bucket_of, {"project": "shop"})
    assert named == unit
    assert sum(bar["tokens"] for bar in bars) == sum(range(days))
    assert sum(bar["stack"][1] for bar in bars) == days
    assert bars[0]["day"] == rows[0]["day"]
    assert bars[-1]["last"] == rows[-1]["day"]
    ends = [date.fromisoformat(bar["last"]) + timedelta(days=1) for bar in bars[:-1]]
    assert ends == [date.fromisoformat(bar["day"]) for bar in bars[1:]], "no day is left out"
    assert f"from={bars[-1]['day']}&to={bars[-1]['last']}" in bars[-1]["href"]
    assert len(bars) <= 320
