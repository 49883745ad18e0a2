"""The compose file, and a base image of this machine's own Debian packages: Python, a shell and their libraries."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent.parent
PYTHON = "python3.11"
PACKAGES = (
    f"{PYTHON} {PYTHON}-minimal {PYTHON}-venv lib{PYTHON}-minimal lib{PYTHON}-stdlib python3-pip-whl "
    "python3-setuptools-whl dash coreutils libc6 libssl3 libexpat1 libffi8 zlib1g libsqlite3-0 libstdc++6 libgcc-s1 "
    "libbz2-1.0 liblzma5 libuuid1 libselinux1 libpcre2-8-0 libacl1 libattr1 libgmp10"
).split()
LEFT_OUT = ("/usr/share/doc", "/usr/share/man", "/usr/share/locale", "/usr/share/lintian")


def base_image(folder: Path) -> bytes:
    """Return the root file system as an archive."""
    for name in ("usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "tmp", "proc", "dev", "sys", "etc", "root", "var/lib"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (folder / name).symlink_to(f"usr/{name}")
    folder.chmod(0o755)
    (folder / "tmp").chmod(0o1777)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        path = Path(line)
        if line.startswith(LEFT_OUT) or (path.is_dir() and not path.is_symlink()) or not os.path.lexists(path):
            continue
        # Where packages say /lib, Debian means /usr/lib.
        copy = folder / path.parent.resolve().relative_to("/") / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(copy):
            shutil.copy2(path, copy, follow_symlinks=False)
    (folder / "usr/bin/sh").unlink(missing_ok=True)
    (folder / "usr/bin/sh").symlink_to("dash")
    (folder / "usr/bin/python3").symlink_to(PYTHON)
    return subprocess.run(["tar", "-C", str(folder), "-c", "."], capture_output=True, check=True).stdout


def compose() -> dict[str, Any]:
    """Return the compose file."""
    yaml: Any = YAML(typ="safe")
    return yaml.load(ROOT / "deploy/compose.yaml")
