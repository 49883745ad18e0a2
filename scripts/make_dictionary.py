"""Make a dictionary for small documents: `python scripts/make_dictionary.py FILE`, from words of this project alone.

A dictionary that documents were packed with never changes, so this never writes over one; what it makes gets the next
number in `shiftlog.store.codec.packed`, beside those before it. Ids are random, as real ones are: they teach how
often digits occur, and no id.
"""

import json
import random
import string
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import zstandard

ROOT = Path(__file__).parent.parent
SAMPLES = 6_000
LONGEST_SAMPLE = 6_000
DICTIONARY_BYTES = 8_192
NUMBER = 77

_pick = random.Random(11)  # noqa: S311 - samples, not secrets
_CODE = "\n".join(path.read_text() for path in sorted(ROOT.glob("src/shiftlog/**/*.py"))).split("\n")
_PROSE = [line for path in sorted(ROOT.glob("docs/**/*.md")) for line in path.read_text().split("\n") if line.strip()]
_PATHS = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("src/shiftlog/**/*.py"))]


def _lines(of: list[str], count: int) -> list[str]:
    start = _pick.randrange(len(of) - count)
    return of[start : start + count]


def _token(head: str, length: int, letters: str = string.ascii_letters + string.digits) -> str:
    return head + "".join(_pick.choices(letters, k=length))


def _uuid() -> str:
    return "-".join(_token("", length, "0123456789abcdef") for length in (8, 4, 4, 4, 12))


def _said(role: str, category: str, content: str, *, of_model: bool) -> dict[str, Any]:
    record = {"parent_uuid": _uuid(), "uuid": _uuid()}
    if of_model:
        record |= {"message_id": _token("msg_01", 22), "request_id": _token("req_011C", 20)}
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=_pick.randrange(30_000_000))
    shown = at.isoformat().replace("+00:00", "Z")
    return {"role": role, "category": category, "content": content, "timestamp": shown, "record": record}


def _answer() -> dict[str, Any]:
    category = _pick.choice(["observation", "reasoning"])
    return _said("model", category, "\n".join(_lines(_PROSE, _pick.randint(1, 8))), of_model=True)


def _call() -> dict[str, Any]:
    path = f"/home/dev/project/{_pick.choice(_PATHS)}"
    edit = {"old_string": "\n".join(_lines(_CODE, 4)), "new_string": "\n".join(_lines(_CODE, 5))}
    tool, given = _pick.choice(
        [
            ("Read", {"file_path": path}),
            ("Bash", {"command": f"grep -rn '{_pick.choice(_PROSE)[:12]}' src | head -50", "description": "Look"}),
            ("Edit", {"file_path": path, **edit}),
            ("shell", {"command": ["bash", "-lc", f"sed -n '1,200p' {path}"], "workdir": "/home/dev/project"}),
        ]
    )
    call = {"tool": tool, "call_id": _token("toolu_01", 22), "input": given}
    return _said("tool", "tool_call", f"{tool}: {path}", of_model=True) | call


def _result() -> dict[str, Any]:
    lines = _lines(_CODE, _pick.randint(3, 40))
    shown = _pick.choice(["{line}", "{number:>6}→{line}", "src/main.py:{number}: {line}"])
    content = "\n".join(shown.format(number=number, line=line) for number, line in enumerate(lines, 1))
    return _said("tool", "tool_result", content, of_model=False) | {"call_id": _token("call_", 24), "exit_code": 0}


def _usage() -> dict[str, Any]:
    given, cached, created, output = (_pick.randint(1, most) for most in (40, 90_000, 4_000, 1_500))
    vendor = {
        "input_tokens": given,
        "cache_creation_input_tokens": created,
        "cache_read_input_tokens": cached,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": created},
        "output_tokens": output,
        "service_tier": "standard",
    }
    counts = {"cached_input_tokens": cached, "cache_creation_tokens": created, "output_tokens": output}
    return {"input_tokens": given, **counts, "model": "claude-opus-4-6", "vendor": vendor}


def _turn() -> dict[str, Any]:
    text = "\n".join(_lines(_PROSE, 3))
    begun = {"imported": True, "opened_by": "prompt", "query_text": text, "query_title": text[:80]}
    ended = {"response": text, "duration_ms": 5_000, "seal": _token("sha256:", 64, "0123456789abcdef")}
    added = {"add": {"context_list": _pick.sample(_PATHS, 4)}, "set": {"interpretation": text}}
    return _pick.choice([begun | {"vendor_turn_id": _uuid()}, ended, added])


_SHAPES: dict[Callable[[], dict[str, Any]], int] = {_answer: 20, _call: 25, _result: 30, _usage: 15, _turn: 10}


def main(path: Path) -> int:
    """Train and write a dictionary."""
    if path.exists():
        print(f"{path} exists: documents may have been packed with it", file=sys.stderr)
        return 1
    bodies = (shape() for shape in _pick.choices([*_SHAPES], [*_SHAPES.values()], k=SAMPLES))
    samples = [json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() for body in bodies]
    short: list[Any] = [sample for sample in samples if len(sample) < LONGEST_SAMPLE]
    path.write_bytes(zstandard.train_dictionary(DICTIONARY_BYTES, short, level=3, dict_id=NUMBER).as_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
