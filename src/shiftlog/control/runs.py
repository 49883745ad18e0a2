"""Questions about runs, and what they cost."""

from typing import Any

from shiftlog.app.app import App
from shiftlog.control.ports import Params, Question
from shiftlog.journal.usage.service import list_runs, runs_filter, total_usage
from shiftlog.model.caller import Caller
from shiftlog.store.protocol import Reader


async def _runs(app: App, params: Params, caller: Caller) -> object:
    def work(reader: Reader) -> dict[str, Any]:
        where = runs_filter(reader, params, app.clock.now())
        return list_runs(reader, app.runs, where, int(params.get("limit", 20)))

    return await app.store.read(work)


async def _usage(app: App, params: Params, caller: Caller) -> object:
    def work(reader: Reader) -> dict[str, Any]:
        where = runs_filter(reader, params, app.clock.now())
        totals = total_usage(reader, app.runs, where, list(params.get("by") or ["day"]))
        return {**totals, "budgets": app.spending_limits.states(reader, app.runs, app.clock.now())}

    return await app.store.read(work)


QUESTIONS: dict[str, Question] = {
    "runs": _runs,
    "usage": _usage,
}
