"""A real container engine with a data root of its own, and an image made of this machine's own programs.

Docker's, or Podman's where `SHIFTLOG_TEST_DOCKER` says `podman`.
"""

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
    "printf true false setsid nohup yes chmod mv stat sha256sum dd"
).split()
#: A container without bash.
PLAIN = "cat mkdir mkfifo rm sleep sh".split()
#: The program that each client needs, and the package that has it.
NEEDED = {"docker": ("dockerd", "docker.io"), "podman": ("podman", "podman")}
#: What a container may open and start, where the engine has no such setting for all.
LIMITS = {"docker": (), "podman": ("--ulimit=nofile=20000:20000", "--ulimit=nproc=20000:20000")}
CLIENT = "podman" if os.environ.get("SHIFTLOG_TEST_DOCKER") == "podman" else "docker"
MISSING = (
    "SHIFTLOG_TEST_DOCKER is not set; run make test-docker"
    if not os.environ.get("SHIFTLOG_TEST_DOCKER")
    else "a container engine of our own needs root"
    if os.getuid() != 0
    else None
    if shutil.which(NEEDED[CLIENT][0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    else "{} is not installed ({})".format(*NEEDED[CLIENT])
)


@dataclass(slots=True, kw_only=True)
class Engine:
    """One engine; `environ` leads its client to it. Podman has no process of its own."""

    folder: Path
    environ: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    def docker(self, *arguments: str, data: bytes | None = None) -> str:
        """Run the client and return what it says."""
        done = subprocess.run(
            [CLIENT, *arguments], input=data, env=self.environ, capture_output=True, timeout=60, check=False
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
            *LIMITS[CLIENT],
            f"--name={name}",
            image,
            "/bin/sh",
            "-c",
            loop,
        )

    def stop(self) -> None:
        """End every container and the engine."""
        for container in self.docker("ps", "-q").split():
            self.docker("kill", container)
        for container in self.docker("ps", "-aq").split():
            self.docker("rm", "-f", container)
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(START_S)


def start_engine(folder: Path) -> Engine:
    """Start an engine and give it the images."""
    engine = _start_docker(folder) if CLIENT == "docker" else _prepare_podman(folder)
    for name, programs in ((IMAGE, PROGRAMS), (f"{IMAGE}-plain", PLAIN)):
        engine.docker("import", "-", name, data=archived(laid_out(folder / name, programs)))
    return engine


def _start_docker(folder: Path) -> Engine:
    """Start an engine: no bridge, no firewall rules, no registry."""
    return start_docker(folder, "dockerd", "--iptables=false", "--bridge=none")


def start_docker(folder: Path, *command: str) -> Engine:
    """Start Docker Engine with a command that ends with its options."""
    environ = {**os.environ, "DOCKER_HOST": f"unix://{folder}/docker.sock", "DOCKER_CONFIG": str(folder)}
    environ["PATH"] = f"{environ.get('PATH', '')}:/usr/sbin"
    argv = [
        *command,
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--host=unix://{folder}/docker.sock",
        f"--pidfile={folder}/pid",
        "--default-ulimit=nofile=20000:20000",
        "--storage-driver=vfs",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    engine = Engine(folder=folder, environ=environ, process=process)
    deadline = time.monotonic() + START_S
    while subprocess.run(["docker", "info"], env=environ, capture_output=True, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise AssertionError((folder / "log").read_text(encoding="utf-8")[-2000:])
        time.sleep(0.1)
    return engine


def _prepare_podman(folder: Path) -> Engine:
    """Give Podman a place of its own; on its PATH there is no docker, which would be taken first."""
    storage, engine, programs = folder / "storage.conf", folder / "containers.conf", folder / "bin"
    storage.write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/data"\nrunroot = "{folder}/run"\n', encoding="utf-8"
    )
    # Without systemd, and with the runtime that works where both versions of control groups are in use.
    engine.write_text(
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n', encoding="utf-8"
    )
    programs.mkdir()
    for name in ("podman", "conmon", "runc"):
        program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        assert program is not None, f"this machine has no {name}"
        (programs / name).symlink_to(program)
    own = {"CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(engine), "PATH": str(programs)}
    return Engine(folder=folder, environ={**os.environ, **own})


def laid_out(folder: Path, programs: Sequence[str]) -> Path:
    """Make a root file system of some of this machine's programs and what they are linked with."""
    for name in ("bin", "tmp", "proc", "dev", "sys", "root", "etc", "usr"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
    for name in programs:
        program = shutil.which(name)
        assert program is not None, f"this machine has no {name}"
        shutil.copy2(Path(program).resolve(), folder / "bin" / name)
        copy_libraries(folder, program)
    return folder


def copy_libraries(folder: Path, program: str | Path) -> None:
    """Copy the libraries that a program is linked with into a root file system."""
    linked = subprocess.run(["ldd", program], capture_output=True, check=False).stdout.decode()
    for library in re.findall(r"/\S+", linked):
        copy = folder / library.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(library).resolve(), copy)


def archived(folder: Path) -> bytes:
    """Return a root file system as an archive."""
    return subprocess.run(["tar", "-C", str(folder), "-c", "."], capture_output=True, check=True).stdout
