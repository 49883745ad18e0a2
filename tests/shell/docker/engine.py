"""A real Docker Engine with a data root of its own, and an image made of this machine's own programs."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

START_S = 30.0
IMAGE = "shiftlog-test"
PROGRAMS = (
    "bash sh cat mkdir mkfifo rm sleep ls ps seq mktemp rmdir tail head wc env touch stty tr grep ln basename id "
    "printf true false setsid nohup yes"
).split()
#: A container without bash.
PLAIN = "cat mkdir mkfifo rm sleep sh".split()
MISSING = (
    "SHIFTLOG_TEST_DOCKER is not set; run make test-docker"
    if not os.environ.get("SHIFTLOG_TEST_DOCKER")
    else "a Docker Engine of our own needs root"
    if os.getuid() != 0
    else None
    if shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    else "dockerd is not installed (docker.io)"
)


@dataclass(slots=True, kw_only=True)
class Engine:
    """One engine; `environ` leads its client to it."""

    folder: Path
    process: subprocess.Popen[bytes]
    environ: dict[str, str]

    def docker(self, *arguments: str, data: bytes | None = None) -> str:
        """Run the client and return what it says."""
        done = subprocess.run(
            ["docker", *arguments], input=data, env=self.environ, capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def run(self, name: str, image: str = IMAGE) -> str:
        """Start a container that does nothing, and return its id."""
        loop = "while :; do sleep 1; done"
        return self.docker(
            "run",
            "-d",
            "--init=false",
            "--network=none",
            "--pids-limit=2000",
            f"--name={name}",
            image,
            "/bin/sh",
            "-c",
            loop,
        )

    def stop(self) -> None:
        """End every container and the engine."""
        for container in self.docker("ps", "-aq").split():
            self.docker("rm", "-f", container)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(START_S)


def start_engine(folder: Path) -> Engine:
    """Start an engine: no bridge, no firewall rules, no registry."""
    environ = {**os.environ, "DOCKER_HOST": f"unix://{folder}/docker.sock", "DOCKER_CONFIG": str(folder)}
    environ["PATH"] = f"{environ.get('PATH', '')}:/usr/sbin"
    argv = [
        "dockerd",
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--host=unix://{folder}/docker.sock",
        f"--pidfile={folder}/pid",
        "--default-ulimit=nofile=20000:20000",
        "--storage-driver=vfs",
        "--iptables=false",
        "--bridge=none",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    engine = Engine(folder=folder, process=process, environ=environ)
    deadline = time.monotonic() + START_S
    while subprocess.run(["docker", "info"], env=environ, capture_output=True, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError((folder / "log").read_text(encoding="utf-8")[-2000:])
        time.sleep(0.1)
    engine.docker("import", "-", IMAGE, data=_root(folder / "root", PROGRAMS))
    engine.docker("import", "-", f"{IMAGE}-plain", data=_root(folder / "plain", PLAIN))
    return engine


def _root(folder: Path, programs: Sequence[str]) -> bytes:
    """Return a root file system of some of this machine's programs and what they are linked with."""
    for name in ("bin", "tmp", "proc", "dev", "sys", "root", "etc", "usr"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
    for name in programs:
        program = shutil.which(name)
        assert program is not None, f"this machine has no {name}"
        shutil.copy2(Path(program).resolve(), folder / "bin" / name)
        linked = subprocess.run(["ldd", program], capture_output=True, check=False).stdout.decode()
        for library in re.findall(r"/\S+", linked):
            copy = folder / library.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(library).resolve(), copy)
    return subprocess.run(["tar", "-C", str(folder), "-c", "."], capture_output=True, check=True).stdout
