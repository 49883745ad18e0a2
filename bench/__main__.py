"""`python -m bench [PART …]`: print the figures; parts are starts, tools, sessionlog, redaction, ingest, search."""

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from bench import search, sessionlog, starts, tools

PARTS = ("starts", "tools", "sessionlog", "redaction", "ingest", "search")
SIZES = [100_000, 1_000_000]


def main(parts: list[str]) -> int:
    """Run the parts asked for, or all."""
    unknown = [part for part in parts if part not in PARTS and not part.startswith("--")]
    if unknown:
        print(f"bench: no part '{unknown[0]}'; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    chosen = [part for part in parts if part in PARTS] or list(PARTS)
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    scratch = Path(tempfile.mkdtemp(prefix="shiftlog-bench-"))
    try:
        if "starts" in chosen:
            starts.main(scratch)
        if "tools" in chosen:
            tools.main(scratch)
        if "sessionlog" in chosen:
            sessionlog.main(scratch)
        if "redaction" in chosen:
            from bench import redaction

            redaction.main()
        if "ingest" in chosen:
            from bench import corpus, ingest

            corpus.write_corpus(scratch / "corpus", (60 if "--quick" in parts else 300) * corpus.MB, turns=16)
            ingest.main(scratch / "corpus")
        if "search" in chosen:
            search.main(SIZES[:1] if "--quick" in parts else SIZES)
    finally:
        shutil.rmtree(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
