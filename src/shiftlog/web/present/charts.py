"""Pictures made on the server as inline SVG: the strip of a session's turns, bars of usage, and the lineage tree.

Shapes only carry classes; the style sheet gives them their colours, in light and dark.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from shiftlog.text.figures import duration, milliseconds, money, short_count
from shiftlog.text.printable import page_text
from shiftlog.web.present.addresses import address
from shiftlog.web.present.states import STATES

STRIP_MOST = 240
STRIP_WIDTH = 1000
# A line of text within its own room: how wide a text is drawn, only the browser knows.
_LINE = Markup('<svg x="{}" y="{}" width="{}" height="18"><text x="0" y="13" class="{}">{}</text></svg>')
_SHAPE = Markup('<rect x="{}" y="{}" width="{}" height="{}" class="{}"/>')

BARS_WIDTH, BARS_HEIGHT, AXIS = 480, 170, 48
ROW = 44
INDENT = 26
BOX, BOX_WIDTH = 34, 520
# An unknown cost is not zero.
UNKNOWN = "–"


def strip(turns: Sequence[Mapping[str, Any]], session_id: str, *, by_time: bool = False) -> Markup:
    """Draw a session's turns side by side, each a link to itself; many turns share a bar.

    By time a bar is as wide as its turns took, otherwise all are of one width. Every bar reaches from edge to edge.
    """
    if len(turns) < 2:
        return Markup("")
    size = -(-len(turns) // STRIP_MOST)
    groups = [turns[at : at + size] for at in range(0, len(turns), size)]
    # The root of what a turn took: an hour beside a second must leave the second visible.
    weights = [sum(max(1.0, turn["duration_s"]) ** 0.5 for turn in group) if by_time else 1.0 for group in groups]
    scale = STRIP_WIDTH / sum(weights)
    parts: list[Markup] = []
    x = 0.0
    for group, weight in zip(groups, weights, strict=True):
        width = weight * scale
        gap = min(2.0, width / 4)
        where = address("sessions", session_id, turn=group[0]["request_id"]) + f"#t-{group[0]['request_id']}"
        label = _strip_label(group)
        parts.append(
            Markup('<a href="{}" aria-label="{}"><title>{}</title>{}{}</a>').format(
                where,
                label,
                label,
                _SHAPE.format(f"{x:.2f}", 0, f"{width:.2f}", 24, "room"),
                _SHAPE.format(f"{x:.2f}", 0, f"{max(0.4, width - gap):.2f}", 24, f"turn-{_worst(group)}"),
            )
        )
        x += width
    return Markup('<svg class="strip" viewBox="0 0 {} 24" preserveAspectRatio="none">{}</svg>').format(
        STRIP_WIDTH, Markup("").join(parts)
    )


def _worst(group: Sequence[Mapping[str, Any]]) -> str:
    """Return the status that a bar of several turns shows: what went wrong first."""
    found = {str(turn["status"]) for turn in group}
    if "failed" not in found and any(turn["errors"] for turn in group):
        found.add("errors")
    order = ("failed", "errors", "interrupted", "in_progress", "completed")
    return next((status for status in order if status in found), "completed")


def _strip_label(group: Sequence[Mapping[str, Any]]) -> str:
    first, last = group[0], group[-1]
    lasted = duration(sum(turn["duration_s"] for turn in group))
    errors = sum(turn["errors"] for turn in group)
    wrong = f", {errors} {'error' if errors == 1 else 'errors'}" if errors else ""
    if first is last:
        return f"{first['ordinal']}. {page_text(first['title'])[:80]} ({first['status']}, {lasted}{wrong})"
    return f"Turns {first['ordinal']} to {last['ordinal']} ({lasted}{wrong})"


def waterfall(timing: Mapping[str, Any]) -> Markup:
    """Draw the time of a turn from left to right: tools and waiting over the model's time."""
    parts = [_SHAPE.format(0, 0, STRIP_WIDTH, 10, "model")]
    for span in timing["spans"]:
        label = f"{page_text(span['says'])} · {milliseconds(span['to'] - span['from'])}"
        parts.append(Markup("<g><title>{}</title>{}</g>").format(label, _span_shape(timing, span)))
    return _band("waterfall", Markup("").join(parts))


def fall(timing: Mapping[str, Any], span: Mapping[str, Any]) -> Markup:
    """Draw where one span lies in the time of its turn."""
    return _band("fall", _span_shape(timing, span))


def _span_shape(timing: Mapping[str, Any], span: Mapping[str, Any]) -> Markup:
    scale = STRIP_WIDTH / float(timing["total_ms"])
    width = max(1.5, (span["to"] - span["from"]) * scale)
    x = min((span["from"] - timing["begin"]) * scale, STRIP_WIDTH - width)
    return _SHAPE.format(f"{x:.1f}", 0, f"{width:.1f}", 10, span["kind"])


def _band(kind: str, shapes: Markup) -> Markup:
    return Markup('<svg class="{}" viewBox="0 0 {} 10" preserveAspectRatio="none" aria-hidden="true">{}</svg>').format(
        kind, STRIP_WIDTH, shapes
    )


def bars(
    rows: Sequence[Mapping[str, Any]],
    name: str,
    value: str,
    title: str,
    *,
    limits: Sequence[tuple[str | None, float]] = (),
) -> Markup:
    """Draw one upright bar per row: what `value` came to for each `name`.

    A `stack` in a row divides its bar, an `href` makes it a link, `limits` are drawn as lines.
    """
    figures = [float(row.get(value) or 0) for row in rows]
    most = max(figures, default=0.0)
    if not most:
        return Markup("")
    figure_text = money if value == "cost_usd" else short_count
    # A limit far above everything would flatten the bars, and is not near.
    near = [(whose, limit) for whose, limit in limits if limit <= most * 3]
    top = _round_up(max(most, *(limit for _, limit in near)) if near else most)
    plot = BARS_HEIGHT - 22
    step = (BARS_WIDTH - AXIS) / len(rows)
    parts = [
        Markup('<line x1="{}" x2="{}" y1="{}" y2="{}" class="grid"/><text x="{}" y="{}" class="tick">{}</text>').format(
            AXIS, BARS_WIDTH, f"{plot - plot * part:.1f}", f"{plot - plot * part:.1f}", AXIS - 6,
            f"{plot - plot * part + 4:.1f}", figure_text(top * part),
        )
        for part in (0.0, 0.5, 1.0)
    ]  # fmt: skip
    every = max(1, len(rows) // 6)
    for number, (row, figure) in enumerate(zip(rows, figures, strict=True)):
        x, height = AXIS + number * step, plot * figure / top
        label = page_text(str(row.get(name) or "unknown"))
        shape = _stack(row.get("stack") or [figure], x + step * 0.12, step * 0.76, plot, top)
        said = Markup("<title>{}: {}</title>").format(label, figure_text(row.get(value)) or UNKNOWN)
        if height and row.get("href"):
            parts.append(
                Markup('<a href="{}" aria-label="Sessions of {}">{}{}</a>').format(row["href"], label, said, shape)
            )
        else:
            parts.append(Markup("<g>{}{}</g>").format(said, shape))
        if (number % every == 0 and number + every // 2 < len(rows)) or len(rows) == 1:
            parts.append(
                Markup('<text x="{}" y="{}" class="tick mid">{}</text>').format(
                    f"{x + step / 2:.1f}", BARS_HEIGHT - 4, _day_label(rows, label) if name == "day" else label[:12]
                )
            )
    for whose, limit in near:
        y = f"{plot - plot * limit / top:.1f}"
        said = f"Budget{f' of {page_text(whose)}' if whose else ''}: {figure_text(limit)}"
        line = Markup(
            '<line x1="{}" x2="{}" y1="{}" y2="{}" class="limit"><title>{}</title></line>'
            '<text x="{}" y="{}" class="said">{}</text>'
        )
        parts.append(line.format(AXIS, BARS_WIDTH, y, y, said, AXIS + 4, f"{plot - plot * limit / top - 4:.1f}", said))
    return _picture(title, rows, f"0 0 {BARS_WIDTH} {BARS_HEIGHT}", parts, "bars")


def _day_label(rows: Sequence[Mapping[str, Any]], day: str) -> str:
    """Return a day as the axis names it: days of one year without it, those of several with it and without the day."""
    return day[5:] if str(rows[0]["day"])[:4] == str(rows[-1]["day"])[:4] else day[:7]


def _stack(figures: Sequence[float], x: float, width: float, plot: float, top: float) -> Markup:
    """Draw the parts of one bar on top of each other."""
    shapes: list[Markup] = []
    reached = 0.0
    for number, figure in enumerate(figures):
        height = plot * figure / top
        if height:
            y = f"{plot - reached - height:.1f}"
            shapes.append(_SHAPE.format(f"{x:.1f}", y, f"{width:.1f}", f"{height:.1f}", f"bar s{number}"))
        reached += height
    return Markup("").join(shapes)


def levels(rows: Sequence[Mapping[str, Any]], name: str, value: str, title: str, most_rows: int = 10) -> Markup:
    """Draw one horizontal bar per row, the largest first, with its name above it; an `href` makes it a link."""
    figure_text = money if value == "cost_usd" else short_count
    ranked = sorted(rows, key=lambda row: -float(row.get(value) or 0))[:most_rows]
    top = float(ranked[0].get(value) or 0) if ranked else 0.0
    if not top:
        return Markup("")
    lines: list[Markup] = []
    for row in ranked:
        figure = float(row.get(value) or 0)
        label = page_text(str(row.get(name) or "unknown"))
        # The figure beside it says the same, so that a screen reader need not hear the bar.
        bar = Markup('<progress max="1000" value="{}" aria-hidden="true"></progress>').format(
            max(4, round(1000 * figure / top)) if figure else 0
        )
        said = Markup('<span class="name" title="{}">{}</span><span class="figure">{}</span>{}').format(
            label, label, figure_text(row.get(value)) or UNKNOWN, bar
        )
        lines.append(Markup('<a href="{}">{}</a>').format(row["href"], said) if row.get("href") else said)
    items = Markup("").join(Markup("<li>{}</li>").format(line) for line in lines)
    return Markup('<ul class="levels" aria-label="{}">{}</ul>').format(title, items)


def _picture(title: str, rows: Sequence[object], box: str, parts: Sequence[Markup], kind: str) -> Markup:
    # An image hides what is inside it from a screen reader; a picture with links is a group.
    drawn = Markup("").join(parts)
    role = "group" if "<a " in drawn else "img"
    return Markup('<svg class="chart {}" viewBox="{}" role="{}" aria-label="{}">{}</svg>').format(
        kind, box, role, f"{title}, {len(rows)} values; the table beside it has them", drawn
    )


def _round_up(value: float) -> float:
    """Return the next number that reads well on an axis."""
    size = 1.0
    while size * 10 <= value:
        size *= 10
    while size > value:
        size /= 10
    return next(size * step for step in (1, 2, 4, 5, 8, 10) if size * step >= value)


def lineage_picture(tree: Mapping[str, Any], here: str) -> Markup:
    """Draw the tree of successors, forks and children, with the current session marked."""
    rows: list[tuple[int, int, Mapping[str, Any]]] = []
    waiting: list[tuple[int, int, Mapping[str, Any]]] = [(0, -1, tree)]
    while waiting:
        depth, above, node = waiting.pop()
        rows.append((depth, above, node))
        own = len(rows) - 1
        # A successor goes on where its predecessor stood; only forks and children step in.
        waiting += [
            (depth if child["relation"] == "successor" else depth + 1, own, child)
            for child in reversed(node["children"])
        ]
    deepest = max(depth for depth, _, _ in rows)
    width = 560 + deepest * INDENT
    parts: list[Markup] = []
    for number, (depth, above, node) in enumerate(rows):
        x, y = depth * INDENT + 12, number * ROW + 6
        if above >= 0:
            top_x, top_y = rows[above][0] * INDENT + 12, above * ROW + 6 + BOX
            middle = y + BOX // 2
            path = f"M{top_x + 8} {top_y}V{y if top_x == x else middle}" + ("" if top_x == x else f"H{x}")
            parts.append(Markup('<path d="{}" class="link {}"/>').format(path, node["relation"]))
        parts.append(_node(node, x, y, is_here=node["session_id"] == here))
    return Markup(
        '<svg class="lineage" viewBox="0 0 {} {}" width="{}rem" role="group" aria-label="Lineage">{}</svg>'
    ).format(width, len(rows) * ROW + 4, width / 16, Markup("").join(parts))


def _node(node: Mapping[str, Any], x: int, y: int, *, is_here: bool) -> Markup:
    title = page_text(str(node["title"]))
    shown = title if len(title) <= 52 else title[:51] + "…"
    how = "" if node["relation"] == "root" else f"{node['relation']} · "
    more = f" · {node['left_out']:,} more" if node["left_out"] else ""
    state = STATES.get(str(node["state"]), (str(node["state"]),))[0]
    about = f"{how}{page_text(str(node['agent_id']))[:30]} · {state}{more}"
    return Markup(
        '<a href="{}" aria-label="{}"{}><rect x="{}" y="{}" width="{}" height="{}" rx="6" class="node{}"/>{}{}</a>'
    ).format(
        address("sessions", node["session_id"]),
        f"{title} · {about}",
        Markup(' aria-current="page"') if is_here else "",
        x, y, BOX_WIDTH, BOX, " here" if is_here else "",
        _LINE.format(x + 10, y + 1, BOX_WIDTH - 20, "name", shown),
        _LINE.format(x + 10, y + 15, BOX_WIDTH - 20, "about", about),
    )  # fmt: skip
