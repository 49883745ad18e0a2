"""The reader against bash itself: random text that is not refused never runs the denied program."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from shiftlog.guard.policy.files import NoFiles
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, shell_rules
from tests.guard.policy.marker import make_marker

RUNS = 250
# No slash and no tilde: whatever these texts write stays in the test's own directory.
PIECES = [
    *"mark mark mark ; && || | & ( ) $( ) ` \" ' \\ $ ${ } x = a= <<E <<-E <<'E' > < <<< #".split(),
    *"if then fi else done do while case esac [[ ]] (( )) $(( <( >( ! time coproc f() f echo eval trap EXIT".split(),
    *"env cat true {a,b} * ? @( !( -c bash command exec :- [ a[ ]= $x $' -p >&2 &> 2> E".split(),
    *", { .. % @ + - a 1 == =~ in ;;".split(),
    *[
        " ",
        "\n",
        "\t",
        "\\\n",
        "\nE\n",
        "\n\tE\n",
        "for i in a",
        "case a in a)",
        "function f ",
        "{ ",
        " }",
        '"$(',
        "&\\\n&",
    ],
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_text_that_passes_the_judge_does_not_run_a_denied_program(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    marker = make_marker(tmp_path / "bin")
    for name in ("true", "cat", "env"):
        (marker.directory / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    judge = Judge(shell_rules(OperatorPolicy(), deny=["mark"]), kernel=False, files=NoFiles())
    tried = 0
    while tried < RUNS:
        text = "".join(draw.choice(PIECES) + draw.choice(("", "", " ")) for _ in range(draw.randint(2, 14)))
        judgement = judge.judge(text)
        if "mark" not in text or judgement.violations:
            continue
        tried += 1
        if judgement.syntax_error is not None:
            assert not _bash_accepts(text), text
        else:
            _run(text, marker.directory, tmp_path)
            assert not (marker.directory / "ran").exists(), text


def _bash_accepts(text: str) -> bool:
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr


def _run(text: str, directory: Path, scratch: Path) -> None:
    bash = shutil.which("bash") or "/bin/bash"
    environment = {"PATH": str(directory), "HOME": str(scratch)}
    try:
        subprocess.run(
            [bash, "-c", text], cwd=scratch, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=2,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return
