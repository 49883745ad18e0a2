"""The contract's table of budgets as commands: what is run, under which budget, and what must be answered."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row; `report` is (mode, lines in all, lines kept), None where no report is due."""

    command: str
    text: str
    budget: dict[str, Any] = field(default_factory=dict[str, Any])
    report: tuple[str, int, int] | None = None
    truncated: bool = False
    lines: int | None = None
    final_newline: bool = True


TEN, TWENTY = "seq 1 10", "seq 1 20"
FIVES = {"grep": {"pattern": "5", "context": 1}}
ROWS = [
    Row(
        command=TEN,
        budget={"keep": {"mode": "head", "n": 2}},
        text="1\n2\n... 8 lines elided ...",
        report=("head", 10, 2),
        truncated=True,
    ),
    Row(
        command=TEN,
        budget={"keep": {"mode": "tail", "n": 2}},
        text="... 8 lines elided ...\n9\n10",
        report=("tail", 10, 2),
        truncated=True,
    ),
    Row(
        command=TEN,
        budget={"keep": {"mode": "head_tail", "head": 2, "tail": 1}},
        text="1\n2\n... 7 lines elided ...\n10",
        report=("head_tail", 10, 3),
        truncated=True,
    ),
    Row(
        command=TEN,
        budget={"keep": {"mode": "head_tail", "head": 6, "tail": 6}},
        text="1\n2\n3\n4\n5\n6\n7\n8\n9\n10",
        report=("head_tail", 10, 10),
    ),
    Row(
        command=TEN,
        budget={"keep": {"mode": "tail", "n": 0}},
        text="... 10 lines elided ...",
        report=("tail", 10, 0),
        truncated=True,
    ),
    Row(
        command=TWENTY,
        budget=FIVES,
        text="... 3 lines elided ...\n4\n5\n6\n... 7 lines elided ...\n14\n15\n16\n... 4 lines elided ...",
        report=("grep", 20, 6),
        truncated=True,
    ),
    Row(
        command=TWENTY,
        budget={**FIVES, "keep": {"mode": "tail", "n": 2}},
        text="... 14 lines elided ...\n15\n16\n... 4 lines elided ...",
        report=("grep+tail", 20, 2),
        truncated=True,
    ),
    Row(
        command=TWENTY,
        budget={"grep": {"pattern": "zzz"}},
        text="... 20 lines elided ...",
        report=("grep", 20, 0),
        truncated=True,
    ),
    Row(
        command=TWENTY,
        budget={"max_chars": 10},
        text="1\n2\n3\n... 40 chars elided ...\n19\n20",
        report=("all", 20, 20),
        truncated=True,
    ),
    Row(
        command=TWENTY,
        budget={"grep": {"pattern": "1"}, "keep": {"mode": "tail", "n": 3}, "max_chars": 20},
        text="... 16 lin\n... 35 chars elided ...\nelided ...",
        report=("grep+tail", 20, 3),
        truncated=True,
    ),
    Row(command=":", budget={"keep": {"mode": "tail", "n": 2}}, text="", report=("tail", 0, 0), final_newline=False),
    Row(
        command=r"printf 'a\r\nb'",
        budget={"grep": {"pattern": "^a$"}},
        text="a\n... 1 lines elided ...",
        report=("grep", 2, 1),
        truncated=True,
        final_newline=False,
    ),
    Row(command=r"printf '\n'", text="", lines=1),
    Row(command=r"printf 'a\n\n'", text="a\n", lines=2),
    Row(command=r"printf '10%%\r50%%\r100%%\n'", text="100%", lines=1),
    Row(command=TEN, budget={"keep": {"mode": "all"}}, text="1\n2\n3\n4\n5\n6\n7\n8\n9\n10", lines=10),
]
