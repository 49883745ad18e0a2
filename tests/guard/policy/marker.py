"""A denied program that leaves a file behind, and bash to try spellings of it in."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

DENIED = ("mark", "markbin")


@dataclass(frozen=True, slots=True)
class Marker:
    """The directory with `mark` (a script) and `markbin` (a copy of `touch`), and the file that shows a run."""

    directory: Path

    @property
    def path(self) -> str:
        return f"{self.directory}:{os.environ['PATH']}"

    def fill(self, text: str) -> str:
        """Put the real places into a spelling."""
        return text.replace("@D@", str(self.directory)).replace("@F@", str(self.directory / "ran"))

    def runs(self, text: str, scratch: Path) -> bool:
        """Run a spelling in plain bash and say whether the program ran."""
        ran = self.directory / "ran"
        ran.unlink(missing_ok=True)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        environment = {**os.environ, "PATH": self.path, "HOME": str(scratch), "GIT_TERMINAL_PROMPT": "0"}
        subprocess.run(
            ["bash", "-c", self.fill(text)],
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
        return ran.exists()


def make_marker(directory: Path) -> Marker:
    """Put the denied programs into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    script = directory / "mark"
    script.write_text(f"#!/bin/sh\n: > {directory / 'ran'}\n")
    script.chmod(0o755)
    shutil.copy(shutil.which("touch") or "/usr/bin/touch", directory / "markbin")
    return Marker(directory)
