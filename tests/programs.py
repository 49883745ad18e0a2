"""Programs of tests in the place of the machine's own."""

import os
from pathlib import Path


def only_in(folder: Path) -> str:
    """Return a PATH of this folder alone: with what is in it already, and links to all other programs of the PATH.

    Before another directory it would be of no use: programs of the system's directories come first.
    """
    for directory in os.environ["PATH"].split(":"):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if not os.path.lexists(folder / program.name):
                (folder / program.name).symlink_to(program)
    return str(folder)
