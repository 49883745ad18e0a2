"""`python -m bench [PART …] [--quick]`: print the figures of the parts named, or of all; `--list` names them."""

import inspect
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path

SIZES = [100_000, 1_000_000]
CORPUS_MB = 300
QUICK_CORPUS_MB = 60

Part = Callable[[Path, bool], None]


def _module(name: str, scratch: Path, quick: bool) -> None:
    """Measure a part that has a file of its own; it is given the scratch directory if it wants one."""
    measure = import_module(f"bench.{name}").main
    if "scratch" in inspect.signature(measure).parameters:
        place = scratch / name
        place.mkdir()
        measure(place)
    else:
        measure()


def _ingest(scratch: Path, quick: bool) -> None:
    from bench import corpus, ingest

    corpus.write_corpus(scratch / "corpus", (QUICK_CORPUS_MB if quick else CORPUS_MB) * corpus.MB, turns=16)
    ingest.main(scratch / "corpus")


def _search(scratch: Path, quick: bool) -> None:
    from bench import search

    search.main(SIZES[:1] if quick else SIZES)


_ALL: dict[str, Part] = {
    "starts": partial(_module, "starts"),
    "tools": partial(_module, "tools"),
    "answers": partial(_module, "answers"),
    "sessionlog": partial(_module, "sessionlog"),
    "hook": partial(_module, "hook"),
    "guard": partial(_module, "guard"),
    "continuity": partial(_module, "continuity"),
    "redaction": partial(_module, "redaction"),
    "shell_engine": partial(_module, "shell_engine"),
    "shell_remote": partial(_module, "shell_remote"),
    "outputs": partial(_module, "outputs"),
    "policy": partial(_module, "policy"),
    "broker": partial(_module, "broker"),
    "checkpoints": partial(_module, "checkpoints"),
    "page": partial(_module, "page"),
    "page_browser": partial(_module, "page_browser"),
    "postgres": partial(_module, "postgres"),
    "postgres_size": partial(_module, "postgres_size"),
    "team": partial(_module, "team"),
    "ingest": _ingest,
    "search": _search,
}
PARTS = {name: part for name, part in _ALL.items() if Path(__file__).with_name(f"{name}.py").exists()}


def main(arguments: list[str]) -> int:
    """Run the parts asked for, or all."""
    chosen = [argument for argument in arguments if not argument.startswith("--")]
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        print(f"bench: no part '{unknown[0]}'; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if "--list" in arguments or "--help" in arguments:
        print("\n".join(PARTS))
        return 0
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    scratch = Path(tempfile.mkdtemp(prefix="shiftlog-bench-"))
    try:
        for name in chosen or PARTS:
            PARTS[name](scratch, "--quick" in arguments)
    finally:
        shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
