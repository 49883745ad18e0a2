"""`python -m bench.peers [PART …] [OPTIONS]`: parts are shells, checkpoints, transcripts; `--help` has the options."""

import argparse
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

PARTS = ("shells", "checkpoints", "transcripts")


def main(arguments: list[str]) -> int:
    """Run the parts asked for, or all."""
    parser = argparse.ArgumentParser(prog="bench.peers", description="Measure other tools beside ours.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure: {', '.join(PARTS)}; all by default")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of twenty-five `true` for each shell")
    parser.add_argument("--only", default="", metavar="NAME", help="only ours, the floor and this peer")
    parser.add_argument("--files", type=int, default=20_000, help="files in the tree that is checkpointed")
    parser.add_argument("--mb", type=int, default=30, help="megabytes of transcripts to generate; 300 for a full run")
    parser.add_argument("--corpus", type=Path, help="a folder of transcripts instead of generated ones")
    given = parser.parse_args(arguments)
    for part in given.parts:
        if part not in PARTS:
            parser.error(f"no part '{part}'; there are {', '.join(PARTS)}")
    chosen = given.parts or PARTS
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores, load average {load}")
    scratch = Path(tempfile.mkdtemp(prefix="shiftlog-peers-"))
    try:
        if "shells" in chosen:
            from bench.peers import shells

            shells.main(scratch, given.rounds, given.only)
        if "checkpoints" in chosen:
            from bench.peers import checkpoints

            checkpoints.main(scratch, given.files)
        if "transcripts" in chosen:
            from bench.peers import transcripts

            transcripts.main(scratch, given.mb, given.corpus, given.only)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"\nload average at the end {' '.join(f'{value:.1f}' for value in os.getloadavg())}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
