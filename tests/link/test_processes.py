import os
import subprocess
import sys

from shiftlog.link import processes
from tests.daemon.support import eventually


def test_a_process_is_known_by_pid_and_start_time() -> None:
    started = processes.started(os.getpid())
    assert started is not None
    assert started == processes.started()
    assert processes.alive(os.getpid(), started)
    assert not processes.alive(os.getpid(), "another")


def test_a_process_that_ended_is_not_alive_even_before_it_is_collected() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    try:
        eventually(lambda: not processes.alive(child.pid))
    finally:
        child.wait()
    assert processes.started(child.pid) is None
    assert processes.parent(child.pid) is None
    assert processes.rss_bytes(child.pid) is None


def test_descent_is_followed_through_several_generations() -> None:
    inner = "import os; os.write(1, str(os.getpid()).encode()); os.read(0, 1)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        grandchild = int(os.read(child.stdout.fileno(), 20))
        assert processes.parent(grandchild) == child.pid
        assert processes.descends_from(grandchild, os.getpid())
        assert processes.descends_from(grandchild, grandchild)
        assert not processes.descends_from(os.getpid(), grandchild)
        child.stdin.write(b"x")
        child.stdin.close()
    assert processes.descends_from(child.pid, os.getpid()), "one that is gone may have"


def test_resident_memory_is_that_of_an_interpreter() -> None:
    rss = processes.rss_bytes()
    assert rss is not None
    assert 5_000_000 < rss < 2_000_000_000
