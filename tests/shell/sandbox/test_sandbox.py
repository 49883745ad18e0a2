"""What a sandbox promises on which machine: modes that cannot be held are errors, notes say what is missing."""

import marshal
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shiftlog.model.shell_errors import SandboxUnavailable
from shiftlog.shell.sandbox import detect as detection
from shiftlog.shell.sandbox import kernel, landlock, seccomp
from shiftlog.shell.sandbox.detect import Capabilities, detect
from shiftlog.shell.sandbox.launcher import LaunchPlan, decode, encode
from shiftlog.shell.sandbox.sandbox import ExecRules, Sandbox, SandboxSpec
from tests.shell.sandbox.conftest import Shells, needs_broker, needs_confinement
from tests.shell.sandbox.damage import WAYS
from tests.story import machines

Make = Callable[..., Shells]
NOTHING = Capabilities(
    landlock_abi=0,
    seccomp=False,
    exec_broker=False,
    filter_flags=0,
    supervisor_process=False,
    bwrap=None,
    why={
        "landlock": "no Landlock here",
        "seccomp": "no seccomp here",
        "exec_broker": "no notifications here",
        "bwrap": "bubblewrap is not installed",
        "terminals": "no namespaces here",
        "sockets": "no pidfd_getfd here",
    },
)
RULES = ExecRules(deny=("ls",))


def _spec(tmp_path: Path, **changes: object) -> SandboxSpec:
    (tmp_path / "state").mkdir(exist_ok=True)
    (tmp_path / "workspace").mkdir(exist_ok=True)
    base = SandboxSpec(
        mode="full-access",
        state_dir=str(tmp_path / "state"),
        workspace=str(tmp_path / "workspace"),
        cwd=str(tmp_path / "workspace"),
    )
    return replace(base, **changes)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_a_mode_that_the_machine_cannot_hold_is_an_error(mode: str, tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable) as caught:
        Sandbox(NOTHING).prepare(_spec(tmp_path, mode=mode))
    assert str(caught.value) == f"sandbox '{mode}' cannot be enforced here: no Landlock here"
    assert caught.value.details == {"mode": mode, "why": "no Landlock here"}


def test_lists_without_any_kernel_layer_are_checked_as_text_only_and_say_so(tmp_path: Path) -> None:
    sandbox = Sandbox(NOTHING)
    spec = _spec(tmp_path, rules=RULES)
    assert sandbox.prepare(spec) is None
    enforcement, note = sandbox.enforcement(spec)
    assert enforcement == "syntax"
    assert note is not None
    assert note.startswith("only the command text is checked here: no Landlock here")


def test_an_operator_who_requires_the_kernel_gets_it_or_an_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="cannot be enforced here"):
        Sandbox(NOTHING).prepare(_spec(tmp_path, rules=RULES, require_kernel=True))


def test_nothing_asked_means_no_launcher_and_no_enforcement(tmp_path: Path) -> None:
    sandbox = Sandbox(NOTHING)
    assert sandbox.prepare(_spec(tmp_path)) is None
    assert sandbox.enforcement(_spec(tmp_path)) == ("none", None)


def test_an_operator_may_require_bubblewrap(tmp_path: Path) -> None:
    machine = replace(NOTHING, landlock_abi=7, seccomp=True, exec_broker=True)
    with pytest.raises(SandboxUnavailable, match="bubblewrap is not installed"):
        Sandbox(machine).prepare(_spec(tmp_path, mode="read-only", require_bwrap=True))


def test_workspace_write_needs_a_workspace(tmp_path: Path) -> None:
    machine = replace(NOTHING, landlock_abi=7, seccomp=True, exec_broker=True)
    with pytest.raises(SandboxUnavailable, match="it needs a workspace") as caught:
        Sandbox(machine).prepare(_spec(tmp_path, mode="workspace-write", workspace=None))
    assert caught.value.hint == "Name the directory to work in as the workspace"


@pytest.mark.parametrize("inner", ["", "/inner"])
def test_a_workspace_inside_the_state_directory_is_refused(tmp_path: Path, inner: str) -> None:
    machine = replace(NOTHING, landlock_abi=7, seccomp=True, exec_broker=True, bwrap="/usr/bin/bwrap")
    place = f"{tmp_path}/state{inner}"
    with pytest.raises(SandboxUnavailable, match="inside shiftlog's data"):
        Sandbox(machine).prepare(_spec(tmp_path, mode="workspace-write", workspace=place, cwd=None))


def test_a_workspace_around_the_state_directory_needs_bubblewrap(tmp_path: Path) -> None:
    machine = replace(NOTHING, landlock_abi=7, seccomp=True, exec_broker=True)
    with pytest.raises(SandboxUnavailable, match="contains shiftlog's data"):
        Sandbox(machine).prepare(_spec(tmp_path, mode="workspace-write", workspace=str(tmp_path)))


@needs_confinement()
def test_a_workspace_around_the_state_directory_works_with_bubblewrap(make_shells: Make, tmp_path: Path) -> None:
    shells = make_shells("workspace-write", bwrap=True)
    ran = shells.run(
        f"echo x > {tmp_path}/new; cat {shells.state}/secret.key", replace(shells.base, workspace=str(tmp_path))
    )
    assert (tmp_path / "new").read_text() == "x\n"
    assert "private" not in ran.out


@needs_confinement()
def test_nothing_on_the_way_to_the_state_directory_can_be_replaced(make_shells: Make, tmp_path: Path) -> None:
    shells = make_shells("workspace-write", bwrap=True)
    state, policy = tmp_path / ".local/share/shiftlog", tmp_path / "policies/strict.json"
    for file in (state / "config.toml", policy):
        file.parent.mkdir(parents=True)
        file.write_text("strict\n")
    spec = replace(shells.base, workspace=str(tmp_path), state_dir=str(state), protected=(str(policy),))
    ran = shells.run(
        f"""cd {tmp_path}
        mv .local moved; mv .local/share moved; mv .local/share/shiftlog moved; rm -rf .local; mv policies moved
        mkdir -p .local/share/shiftlog; echo loose > .local/share/shiftlog/config.toml; echo loose > {policy}
        rm -f {policy}; mv {policy} moved; ln -sfn /tmp .local; echo x > .local/other
        python3 - <<'EOF'
import ctypes, os
os.mkdir("decoy")
for name in (b".local", b".local/share", b".local/share/shiftlog", b"policies"):
    ctypes.CDLL(None).renameat2(-100, b"decoy", -100, name, 2)
EOF
        """,
        spec,
    )
    assert (state / "config.toml").read_text() == "strict\n", ran.err
    assert policy.read_text() == "strict\n"
    assert (tmp_path / ".local/other").read_text() == "x\n"


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ({"exec_broker": False}, "Program starts are neither judged one by one nor recorded: no notifications here."),
        (
            {"takes_sockets": False},
            "Sockets that have a path (containers, agents, tmux) stay reachable: no pidfd_getfd here.",
        ),
        ({"bwrap": None}, "Commands cannot have a terminal: no namespaces here."),
        ({"landlock_abi": 4}, "This kernel does not confine signals and abstract sockets."),
        ({"landlock_abi": 0}, "This kernel does not confine signals and abstract sockets."),
        ({"landlock_abi": 1}, "This kernel refuses to move files between directories inside the sandbox."),
    ],
)
def test_a_note_says_what_does_not_hold(machine: dict[str, object], said: str, tmp_path: Path) -> None:
    whole = replace(NOTHING, landlock_abi=7, seccomp=True, exec_broker=True, bwrap="/usr/bin/bwrap", takes_sockets=True)
    spec = _spec(tmp_path, mode="workspace-write")
    assert Sandbox(whole).enforcement(spec) == ("kernel", None)
    enforcement, note = Sandbox(replace(whole, **machine)).enforcement(spec)  # pyright: ignore[reportArgumentType]
    assert enforcement == "kernel"
    assert note is not None
    assert said in note


@pytest.mark.parametrize("place", [sys.prefix, str(Path(sys.prefix).parent)])
def test_a_note_says_that_shiftlog_itself_can_be_changed(place: str, tmp_path: Path) -> None:
    whole = replace(NOTHING, landlock_abi=7, seccomp=True, exec_broker=True, bwrap="/usr/bin/bwrap", takes_sockets=True)
    for changes in ({"workspace": place}, {"write_extra": (place,)}):
        _, note = Sandbox(whole).enforcement(_spec(tmp_path, mode="workspace-write", cwd=None, **changes))
        assert note == f"Shiftlog itself is installed in {place}, where this shell may change it."


@pytest.mark.long
@needs_broker()
@needs_confinement()
@pytest.mark.parametrize("abi", [1, 2, 3, 5])
def test_older_kernels_keep_files_outside_the_workspace_too(make_shells: Make, abi: int) -> None:
    """Each Landlock version closes gaps of the one before; on older ones seccomp closes them."""
    shells = make_shells("workspace-write")
    if abi > shells.sandbox.capabilities.landlock_abi:
        pytest.skip("this kernel is older than that")
    shells.sandbox.capabilities = replace(shells.sandbox.capabilities, landlock_abi=abi)
    victim = shells.home / "keep.txt"
    before = victim.stat()
    shells.make_places(len(WAYS))
    ways = {name: f'T="{victim}"; D="{victim.parent}"; {way}' for name, way in WAYS.items()}
    shells.run_each(ways, shells.base, "false")
    now = victim.stat()
    assert victim.read_text() == "precious\n"
    assert (now.st_mode, now.st_ino, now.st_mtime_ns) == (before.st_mode, before.st_ino, before.st_mtime_ns)


@needs_confinement()
def test_landlock_alone_refuses_metadata_changes_and_denied_programs(make_shells: Make) -> None:
    """A kernel without notifications: no broker, so chmod is refused everywhere and files are simply out of reach."""
    shells = make_shells("workspace-write")
    shells.sandbox.capabilities = replace(shells.sandbox.capabilities, exec_broker=False)
    ran = shells.run("touch f; chmod 600 f || echo refused; ls || echo $?; /bin/echo fine", shells.denying("ls"))
    assert ran.out == "refused\n126\nfine\n"
    assert ran.starts == []


def test_a_bubblewrap_without_a_user_namespace_is_not_used_alone(tmp_path: Path) -> None:
    """Its programs would reach the files of other processes below /proc."""
    if os.geteuid() or detect().bwrap is None:
        pytest.skip("only root can show a set-uid bubblewrap")
    set_uid = tmp_path / "bwrap"
    shutil.copy(detect().bwrap or "", set_uid)
    set_uid.chmod(0o4755)
    look = "from shiftlog.shell.sandbox import detect as d; w = {}; print(d._try_bwrap(w, alone=@), *w.values())"
    said: dict[tuple[bool, bool], str] = {}
    for covered, alone in ((False, True), (True, True), (True, False)):
        cover = f'mount --bind {set_uid} "$(command -v bwrap)"' if covered else ":"
        user = machines.prefix(bwrap=True, user=True)
        code = [sys.executable, "-c", look.replace("@", str(alone))]
        command = ["unshare", "-m", "sh", "-c", f'{cover} && cd / && exec "$@"', "sh", *user, *code]
        said[covered, alone] = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said[False, True] == said[True, False] != said[True, True]
    assert "other processes' files stay in reach" in said[True, True]


def test_a_machine_that_is_not_linux_offers_nothing_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "NUMBERS", {})
    monkeypatch.setattr(kernel, "MACHINE", "")
    detection.detect.cache_clear()
    try:
        machine = detection.detect()
        assert not machine.any_kernel
        assert set(machine.why) == {"landlock", "seccomp", "exec_broker", "bwrap"}
    finally:
        detection.detect.cache_clear()


def test_what_is_missing_on_this_machine_has_a_reason() -> None:
    machine = detect()
    present = {
        "landlock": machine.landlock_abi > 0,
        "seccomp": machine.seccomp,
        "exec_broker": machine.exec_broker,
        "bwrap": machine.bwrap is not None,
    }
    assert {name for name, there in present.items() if not there} == set(machine.why)


def test_a_second_listener_in_the_tree_is_found_out_by_trying() -> None:
    """Only one listener may exist per tree: inside a supervised shell the trial must say no, not crash."""
    if not detect().exec_broker:
        pytest.skip(detect().why["exec_broker"])
    script = (
        "from shiftlog.shell.sandbox import kernel, seccomp\n"
        "from shiftlog.shell.sandbox.detect import main\n"
        "kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)\n"
        "filter = seccomp.build(seccomp.FilterOptions(broker=False, metadata='broker'))\n"
        "listener = kernel.install_filter(filter, flags=kernel.FILTER_FLAG_NEW_LISTENER)\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert '"exec_broker": false' in done.stdout
    assert "could not be installed" in done.stdout


def test_a_plan_reads_back_as_it_was_written() -> None:
    plan = LaunchPlan(
        program=b"/bin/bash",
        arguments=[b"bash", b"-c", b"echo 'a=b:c'\n", b""],
        environment={b"A": b"x=y", b"EMPTY": b"", b"\xff": b"\xfe\n"},
        ruleset=(1, 2, 3, 7),
        rules=[(5, b"/a:b"), (8191, b"/\xff")],
        filter_program=bytes(range(256)),
        filter_flags=40,
        socket=9,
        keep_capabilities=0x4FB,
    )
    again = decode(encode(plan))
    assert [getattr(again, name) for name in LaunchPlan.__slots__] == [
        getattr(plan, name) for name in LaunchPlan.__slots__
    ]


@pytest.mark.parametrize(
    "data",
    [b"", b"P/bin/sh", encode(LaunchPlan(program=b"/bin/sh"))[:-4], marshal.dumps({"unknown": 1}), marshal.dumps(7)],
)
def test_a_plan_that_is_cut_or_unknown_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="launch plan"):
        decode(data)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_of_a_filter_stays_inside_it(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    column = {"x86_64": 0, "aarch64": 1}[machine]
    numbers = {name: row[column] for name, row in kernel.ALL_NUMBERS.items() if row[column] is not None}
    monkeypatch.setattr(kernel, "NUMBERS", numbers)
    monkeypatch.setattr(kernel, "MACHINE", machine)
    options = seccomp.FilterOptions(broker=True, confined=True, network=False, metadata="broker", guard_truncate=True)
    program = seccomp.build(options)
    steps = [program[at : at + 8] for at in range(0, len(program), 8)]
    assert len(steps) < 4096
    for at, step in enumerate(steps):
        code, yes, no = int.from_bytes(step[:2], "little"), step[2], step[3]
        if code != 0x06:
            assert at + 1 + max(yes, no) < len(steps)
    assert steps[-1][:2] == b"\x06\x00"


def test_hiding_a_file_grants_its_siblings_and_never_its_hard_links(tmp_path: Path) -> None:
    for name in ("hidden", "beside"):
        (tmp_path / name).write_text(name)
    os.link(tmp_path / "hidden", tmp_path / "other-name")
    (tmp_path / "link").symlink_to("hidden")
    place = tmp_path.resolve()
    plan = landlock.make_plan(landlock.FileRules(abi=7, confined=False, hidden=(str(place / "hidden"),)))
    granted = {os.fsdecode(path) for _, path in plan.rules if isinstance(path, bytes)}
    assert str(place / "beside") in granted
    assert granted.isdisjoint({str(place), str(place / "hidden"), str(place / "other-name"), str(place / "link")})
