"""Metrics of one replica in the text format of Prometheus: requests, tools, errors, the store and its pool.

Labels are names of ours (routes, tools, codes), never text that a client sent.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from shiftlog import __version__
from shiftlog.app.team import Team
from shiftlog.mcp.registry import Answer, Registry, Run
from shiftlog.model.caller import Caller
from shiftlog.model.errors import InternalError, ShiftlogError
from shiftlog.model.nouns import changed
from shiftlog.web.live import Live

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.002, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# The first part of a path, as a label; anything else is "other".
ROUTES = frozenset(
    "mcp mcp-transport tools sessions usage projects files decisions outputs palette events static openapi.json "
    "sign-in sign-out healthz readyz metrics".split()
)
EVENTS = "events"
# Figures of the store: its name for one, ours, what it says, and whether it only grows.
_STORE = (
    ("pool_size", "shiftlog_pool_connections", "Connections to the database", False),
    ("pool_available", "shiftlog_pool_idle_connections", "Connections that nothing uses now", False),
    ("requests_waiting", "shiftlog_pool_waiting", "Works that wait for a connection", False),
    ("requests_errors", "shiftlog_pool_errors", "Works that got no connection in time", True),
    ("connections_errors", "shiftlog_pool_connect_errors", "Connections that could not be made", True),
    ("connections_lost", "shiftlog_pool_lost_connections", "Connections that broke", True),
    ("queue", "shiftlog_write_queue", "Writes that wait for the writer", False),
    ("commits", "shiftlog_commits", "Transactions committed", True),
    ("works", "shiftlog_writes", "Writes committed, several in one transaction", True),
    ("retries", "shiftlog_commit_retries", "Transactions run again after a conflict or a broken connection", True),
    ("commit_seconds", "shiftlog_commit_seconds", "Time spent in transactions that were committed", True),
)


class Metrics:
    """The metrics of one replica."""

    def __init__(self, team: Team, live: Live) -> None:
        self.registry = CollectorRegistry()
        self._team = team
        self._live = live
        self.requests = Counter(
            "shiftlog_http_requests",
            "Requests answered, by route, method and status",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "shiftlog_http_request_seconds",
            "Time from the first byte to the last of the answer; streams of events are left out",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.running = Gauge("shiftlog_http_requests_running", "Requests under way", registry=self.registry)
        self.tool_seconds = Histogram(
            "shiftlog_tool_seconds", "Time that a tool took", ("tool",), buckets=SECONDS, registry=self.registry
        )
        self.errors = Counter("shiftlog_errors", "Errors answered by tools, by code", ("code",), registry=self.registry)
        ProcessCollector(registry=self.registry)
        self.registry.register(self)

    def text(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """Yield what is read from elsewhere at the moment of the question."""
        yield GaugeMetricFamily("shiftlog_streams", "Open streams of events", value=self._live.streams)
        hearing = float(self._team.changes.is_hearing)
        yield GaugeMetricFamily("shiftlog_hears_changes", "1 if LISTEN works, 0 if streams poll", value=hearing)
        about = GaugeMetricFamily("shiftlog_build_info", "The version that runs", labels=("version",))
        about.add_metric((__version__,), 1)
        yield about
        figures = self._team.store.figures()
        for name, ours, says, grows in _STORE:
            kind = CounterMetricFamily if grows else GaugeMetricFamily
            yield kind(ours, says, value=figures.get(name, 0.0))

    def counted(self, registry: Registry) -> Registry:
        """Return a registry whose tools are timed, and their errors counted."""
        tools = tuple(changed(tool, run=self._timed(tool.name, tool.run)) for tool in registry.tools)
        return Registry(tools=tools, resources=registry.resources, prompts=registry.prompts)

    def _timed(self, name: str, run: Run) -> Run:
        seconds = self.tool_seconds.labels(name)

        async def timed(caller: Caller, arguments: dict[str, object]) -> Answer:
            with seconds.time():
                try:
                    return await run(caller, arguments)
                except ShiftlogError as error:
                    self.errors.labels(error.code).inc()
                    raise
                except Exception:
                    self.errors.labels(InternalError.code).inc()
                    raise

        return timed


def route_of(path: str) -> str:
    """Return the label of a path."""
    parts: Iterable[str] = path.split("/")
    first, *rest = [part for part in parts if part] or ["page"]
    if first == EVENTS or rest[-1:] == [EVENTS]:
        return EVENTS
    first = first.partition(".")[0] if first not in ROUTES else first
    return first if first in ROUTES or first == "page" else "other"
