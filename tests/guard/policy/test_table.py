"""Every row of the contract's table of spellings, with the kernel layer and without it (case 34)."""

import pytest

from shiftlog.guard.policy.files import LocalFiles, NoFiles
from shiftlog.guard.policy.judge import Judge
from shiftlog.guard.policy.operator import OperatorPolicy, shell_rules

LETTERS = {"A": "allowed", "D": "denied", "K": "deferred", "U": "undecidable"}
ROWS: list[tuple[str, str, str]] = [
    ("ls /", "D", "D"),
    ("/bin/ls /", "D", "D"),
    ("./ls", "D", "D"),
    ('"ls" /', "D", "D"),
    ("\\ls /", "D", "D"),
    ('l""s /', "D", "D"),
    (r"$'\x6c\x73' /", "D", "D"),
    ("l\\\ns /", "D", "D"),
    ("A=1 ls", "D", "D"),
    ("command ls", "D", "D"),
    ("command -v ls", "A", "A"),
    ("builtin echo x", "A", "A"),
    ("env -i A=1 ls", "D", "D"),
    ('env -S "ls -l"', "D", "D"),
    ("sudo -n -u root ls", "D", "D"),
    ('bash -c "ls /"', "D", "D"),
    ("sh -c 'echo hi'", "A", "D"),
    ('bash -c "$CMD"', "K", "D"),
    ("echo $(ls)", "D", "D"),
    ('echo "`ls`"', "D", "D"),
    ("git diff <(ls)", "D", "D"),
    ("x=ls; $x /", "K", "K"),
    ('"${cmd[@]}"', "K", "K"),
    ("/bin/l?", "K", "K"),
    ("{ls,-d,/}", "D", "D"),
    ("(ls)", "D", "D"),
    ("{ ls; }", "D", "D"),
    ("if true; then ls; fi", "D", "D"),
    ("for i in 1 2; do echo $i; done", "A", "A"),
    ("time ls", "D", "D"),
    ("! ls", "D", "D"),
    ("echo a | xargs ls", "D", "D"),
    ("echo ls | xargs -I{} {} /", "K", "D"),
    ("find . -exec ls {} +", "D", "D"),
    ("find . -exec sh -c 'ls \"$1\"' _ {} \\;", "D", "D"),
    ("find . -name ls", "A", "D"),
    ("nohup nice -n 5 timeout 3 ls", "D", "D"),
    ("exec ls", "D", "D"),
    ('eval "l""s /"', "D", "D"),
    ('eval "$x"', "K", "K"),
    ("echo bHMK | base64 -d | sh", "K", "D"),
    ("bash <<< 'ls'", "D", "D"),
    ("echo ls | echo x", "A", "A"),
    ("f() { ls; }", "D", "D"),
    ("alias q=ls", "D", "D"),
    ("trap 'ls' EXIT", "D", "D"),
    ("coproc ls", "D", "D"),
    ('echo "a; ls b"', "A", "A"),
    ('git log --format="%h; %s"', "A", "A"),
    ("echo hi # ls", "A", "A"),
    ("cd /tmp && export A=1", "A", "A"),
    ("grep ls f", "A", "D"),
    ("git -c alias.x='!ls' x", "D", "D"),
    ("busybox ls", "D", "D"),
    ("/lib64/ld-linux-x86-64.so.2 /bin/ls", "D", "D"),
    ("hash -p /bin/ls git", "D", "D"),
    ("PATH=. git status", "A", "K"),
    ("source ./env.sh", "A", "K"),
    ("bash script.sh", "A", "D"),
    ("echo $((1+$(ls | wc -l)))", "D", "D"),
    ("[[ -n $(ls) ]]", "D", "D"),
    ("case x in x) ls;; esac", "D", "D"),
    ("echo hi > ls", "A", "A"),
    ("git status & ls", "D", "D"),
    ("ssh build ls", "A", "D"),
    ("echo <<E\n$(ls)\nE", "D", "D"),
    ("echo <<'E'\n$(ls)\nE", "A", "A"),
    ("python3 -c \"import os; os.system('ls')\"", "A", "D"),
    ("enable -f ./x.so y", "U", "U"),
]
# The kernel's 126 is what makes this spelling harmless; where it does not hold, the text is all there is.
RESTS_ON_THE_KERNEL = "python3 -c \"import os; os.system('ls')\""


def verdict(text: str, *, kernel: bool, deny: tuple[str, ...] = (), allow: tuple[str, ...] = ()) -> str:
    files = LocalFiles() if kernel else NoFiles()
    return Judge(shell_rules(OperatorPolicy(), deny=deny, allow=allow), kernel=kernel, files=files).judge(text).verdict


@pytest.mark.parametrize(("text", "deny", "allow"), ROWS)
def test_a_row_has_its_verdicts_where_the_kernel_holds(text: str, deny: str, allow: str) -> None:
    """Case 34, kernel on."""
    assert verdict(text, kernel=True, deny=("ls",)) == LETTERS[deny]
    assert verdict(text, kernel=True, allow=("echo", "git")) == LETTERS[allow]


@pytest.mark.parametrize(("text", "deny", "allow"), ROWS)
def test_what_would_be_deferred_is_undecidable_where_only_text_is_checked(text: str, deny: str, allow: str) -> None:
    """Case 34, kernel off."""
    wanted = "U" if text == RESTS_ON_THE_KERNEL else deny.replace("K", "U")
    assert verdict(text, kernel=False, deny=("ls",)) == LETTERS[wanted]
    assert verdict(text, kernel=False, allow=("echo", "git")) == LETTERS[allow.replace("K", "U")]
