"""What the sandbox modes hold: files outside stay as they are whatever program is used, and inside under read-only."""

import fcntl
import os
import socket
import stat
import subprocess
import threading
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shiftlog.model.shell_errors import SandboxUnavailable
from shiftlog.shell.sandbox.sandbox import Sandbox
from tests.shell.sandbox.conftest import Shells, needs_confinement
from tests.shell.sandbox.damage import WAYS

pytestmark = needs_confinement()
_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS
Make = Callable[..., Shells]
BOTH = pytest.mark.parametrize("bwrap", [True, False], ids=["bwrap", "landlock alone"])


def _state(path: Path) -> tuple[object, ...]:
    """Everything of a file that damage could change."""
    if not path.is_file() or path.is_symlink():
        return ("not there",)
    facts = path.stat()
    names, flags = sorted(os.listxattr(path)), array("l", [0])
    with path.open("rb") as opened:
        fcntl.ioctl(opened, _GET_FLAGS, flags)
        content = opened.read()
    return content, stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_ino, facts.st_mtime_ns, names, flags


def _script(way: str, victim: Path) -> str:
    return f'T="{victim}"; D="{victim.parent}"; {way}'


@pytest.mark.parametrize("name", WAYS)
def test_each_way_of_damage_works_where_nothing_guards(name: str, make_shells: Make) -> None:
    shells = make_shells()
    victim = shells.home / "keep.txt"
    before = _state(victim)
    subprocess.run(
        ["bash", "-c", _script(WAYS[name], victim)], cwd=shells.workspace, capture_output=True, check=False, timeout=30
    )
    assert _state(victim) != before


@BOTH
def test_workspace_write_keeps_a_file_outside_the_workspace_in_every_way(make_shells: Make, *, bwrap: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    victim = shells.home / "keep.txt"
    before = _state(victim)
    shells.make_places(len(WAYS))
    shells.run_each({name: _script(way, victim) for name, way in WAYS.items()}, shells.base, "false")
    assert _state(victim) == before
    assert [entry.name for entry in shells.home.iterdir()] == ["keep.txt"]


@BOTH
def test_read_only_keeps_a_file_inside_the_workspace_in_every_way(make_shells: Make, *, bwrap: bool) -> None:
    shells = make_shells("read-only", bwrap=bwrap)
    victim = shells.make_places(len(WAYS))[0] / "keep.txt"
    victim.write_text("precious\n")
    before = _state(victim)
    shells.run_each({name: _script(way, victim) for name, way in WAYS.items()}, shells.base, "false")
    assert _state(victim) == before
    assert [file for file in shells.workspace.rglob("*") if not file.is_dir()] == [victim]


@BOTH
def test_workspace_write_lets_builds_work_inside_the_workspace(make_shells: Make, *, bwrap: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    script = """
        set -e
        mkdir -p a/b && echo one > a/f && mv a/f a/b/g && cp a/b/g a/h && ln a/b/g a/l && ln -s b/g a/s
        chmod 750 a/b/g && touch -d 2001-01-01 a/b/g && chmod +x a/h && truncate -s 2 a/h
        tar cf t.tar a && mkdir out && tar xf t.tar -C out && cp -a a copied && rm -r out
        stat -c '%a %Y' copied/b/g
        python3 -c 'import os; os.utime("a/h", (1, 2)); os.chmod("a/h", 0o604)'
        stat -c '%a %Y' a/h
        exec 9< a/h && chmod 600 /dev/fd/9 && stat -c %a a/h
    """
    ran = shells.run(script)
    assert (ran.code, ran.out) == (0, "750 978307200\n604 2\n600\n"), ran.err


@BOTH
def test_git_works_inside_the_workspace(make_shells: Make, *, bwrap: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    who = "-c user.name=a -c user.email=a@example.org"
    ran = shells.run(f"git init -q . && echo a > f && git add f && git {who} commit -qm one && git log --format=%s")
    assert (ran.code, ran.out) == (0, "one\n"), ran.err


@BOTH
def test_read_only_writes_to_its_temp_and_to_null_and_nowhere_else(make_shells: Make, *, bwrap: bool) -> None:
    """Acceptance case 38: `touch f` fails, `echo x > $TMPDIR/f` works."""
    shells = make_shells("read-only", bwrap=bwrap, network=False)
    ran = shells.run(
        'touch f; echo "touch $?"; echo x > "$TMPDIR/f" && cat "$TMPDIR/f"; echo y > /dev/null && echo null'
    )
    assert ran.out == "touch 1\nx\nnull\n"
    assert not (shells.workspace / "f").exists()


def test_the_private_temp_goes_with_the_shell(make_shells: Make) -> None:
    shells = make_shells("read-only")
    ran = shells.run('echo x > "$TMPDIR/f"; echo "$TMPDIR"; stat -c %a "$TMPDIR"')
    place, mode = ran.out.split()
    assert mode == "700"
    assert not Path(place).exists()


@BOTH
def test_further_places_the_operator_names_are_writable(make_shells: Make, tmp_path: Path, *, bwrap: bool) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    shells = make_shells("workspace-write", bwrap=bwrap, write_extra=(str(cache), str(tmp_path / "absent")))
    assert shells.run(f"echo x > {cache}/f").code == 0
    assert (cache / "f").read_text() == "x\n"


@BOTH
@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_the_state_directory_can_be_neither_read_nor_written(make_shells: Make, mode: str, *, bwrap: bool) -> None:
    shells = make_shells(mode, bwrap=bwrap)
    ran = shells.run(
        'cat "$STATE/secret.key"; cp "$STATE/secret.key" "$TMPDIR/k" && cat "$TMPDIR/k"; echo x > "$STATE/secret.key"; '
        'rm -f "$STATE/secret.key"; touch "$STATE/new"; chmod 777 "$STATE"; ln "$STATE/secret.key" h && cat h; true'
    )
    assert "private" not in ran.out
    assert (shells.state / "secret.key").read_text() == "private key\n"
    assert [entry.name for entry in shells.state.iterdir()] == ["secret.key"]


_CONNECT = """
import socket, sys
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            s = socket.socket(family, kind)
            s.settimeout(2)
            s.connect((host, int(sys.argv[1])))
            s.send(b"hello")
            print("reached", family, kind)
        except OSError:
            pass
"""


@BOTH
@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_no_network_means_neither_tcp_nor_udp(make_shells: Make, mode: str, *, bwrap: bool) -> None:
    """Acceptance case 38: a TCP connect fails where the operator sets `sandbox_network` false."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        closed = make_shells(mode, bwrap=bwrap, network=False)
        script = f"python3 - {port} <<'END'\n{_CONNECT}\nEND\n(echo > /dev/tcp/127.0.0.1/{port}) && echo reached bash"
        ran = closed.run(script)
        assert "reached" not in ran.out
        opened = make_shells(mode, bwrap=bwrap, network=True)
        assert "reached bash" in opened.run(script).out


def test_no_network_leaves_pipes_and_local_sockets(make_shells: Make) -> None:
    shells = make_shells("read-only", network=False)
    ran = shells.run("python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); print(b.recv(1))'")
    assert ran.out == "b'x'\n"


def test_an_abstract_socket_outside_is_out_of_reach(make_shells: Make) -> None:
    shells = make_shells("workspace-write")
    if shells.sandbox.capabilities.landlock_abi < 6:
        pytest.skip("this kernel's Landlock has no scope for abstract sockets")
    name = f"shiftlog-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        ran = shells.run(f"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")'")
    assert "ConnectionRefusedError" in ran.err


def test_bubblewrap_hides_sockets_that_have_a_path(make_shells: Make, tmp_path: Path) -> None:
    shells = make_shells("workspace-write", bwrap=True)
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        ran = shells.run(f"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{path}\")'; ls -A /run")
    assert "FileNotFoundError" in ran.err
    assert "docker.sock" not in ran.out


def test_a_process_outside_cannot_be_signalled(make_shells: Make) -> None:
    shells = make_shells("workspace-write")
    if shells.sandbox.capabilities.landlock_abi < 6:
        pytest.skip("this kernel's Landlock has no scope for signals")
    with subprocess.Popen(["sleep", "60"]) as outside:
        ran = shells.run(f"kill -9 {outside.pid}; sleep 30 & kill -9 $!; wait $!; echo $?")
        assert outside.poll() is None
        outside.kill()
    assert ran.out.strip() == "137"


def test_without_a_space_of_its_own_a_shell_shares_no_memory_and_no_queue(make_shells: Make) -> None:
    shells = make_shells("workspace-write")
    machine = replace(shells.sandbox.capabilities, own_terminals=False)
    sandbox = Sandbox(machine, use_bwrap=False)
    try:
        ran = replace(shells, sandbox=sandbox).run("ipcmk -M 64; ipcmk -S 1; ipcmk -Q; true")
    finally:
        sandbox.close()
    assert (ran.out, ran.err.count("Operation not permitted")) == ("", 3), ran


def test_no_device_can_be_made_or_opened_for_writing(make_shells: Make) -> None:
    shells = make_shells("workspace-write")
    ran = shells.run("mknod d b 1 0; mknod c c 1 1; echo x > /dev/kmsg; find . -type b -o -type c; true")
    assert ran.out == ""


@BOTH
def test_root_gives_files_no_rights_and_keeps_the_modes_of_devices(make_shells: Make, *, bwrap: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    script = """
        touch f
        for name in trusted.x security.x user.x; do
            python3 -c 'import os, sys; os.setxattr("f", sys.argv[1], b"1"); print(sys.argv[1])' $name
        done
        for device in null zero full random urandom tty; do chmod 666 /dev/$device && echo $device; done
        echo x > /dev/null && head -c 1 /dev/zero | wc -c
    """
    ran = shells.run(script)
    assert ran.out.split() == ["user.x", "1"], ran


def test_mounting_over_a_file_is_refused(make_shells: Make) -> None:
    shells = make_shells("workspace-write")
    ran = shells.run(
        'unshare -m mount --bind /etc "$OUT" && echo mounted; mount -t tmpfs none "$OUT" && echo mounted; true'
    )
    assert "mounted" not in ran.out


def test_hard_wired_temp_paths_work_and_are_private_with_bubblewrap(make_shells: Make) -> None:
    shells = make_shells("workspace-write", bwrap=True)
    name = f"shiftlog-test-{os.getpid()}-{threading.get_ident()}"
    ran = shells.run(f"echo x > /tmp/{name} && cat /tmp/{name}; cat $TMPDIR/{name}")
    assert ran.out == "x\nx\n"
    assert not Path(f"/tmp/{name}").exists()


@BOTH
def test_other_processes_are_no_way_around_the_mounts(make_shells: Make, *, bwrap: bool) -> None:
    shells = make_shells("workspace-write", bwrap=bwrap)
    outside = f"/proc/{os.getpid()}/root"
    ran = shells.run(
        f'cat {outside}"$STATE/secret.key"; echo gone > {outside}"$OUT/keep.txt"; cat /proc/1/root/etc/hostname; '
        f"cat /proc/{os.getpid()}/environ | wc -c"
    )
    assert ran.out.strip() == "0"
    assert (shells.home / "keep.txt").read_text() == "precious\n"


def test_a_working_directory_that_would_show_sockets_is_refused(make_shells: Make) -> None:
    shells = make_shells("read-only", bwrap=True)
    with pytest.raises(SandboxUnavailable, match="name a workspace"):
        shells.sandbox.prepare(replace(shells.base, workspace=None, cwd="/run"))
