"""Commands of a shell read for commits and packages: what runs counts, what is only mentioned does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.ingest.readers.actions import diff_of_created, diff_of_deleted, diff_of_replacements, requirement_ids
from shiftlog.ingest.readers.records import relative_path
from shiftlog.ingest.readers.shell_actions import Commit, commits_made, packages_added

PACKAGES = {
    "pip install -r r.txt": [],
    "pip install -e .[dev] ./x http://a/b.whl $PKG 'flask>=3'": ["pip: flask>=3"],
    "python3 -m pip install -q --index-url https://i/ requests": ["pip: requests"],
    "uv add httpx==1.0 --group dev": ["uv: httpx==1.0"],
    "uv pip install ruff": ["uv pip: ruff"],
    "npm i left-pad ./local": ["npm: left-pad"],
    "npm ci && npm run add thing": [],
    "cd web && pnpm add -D @types/node vite@5 2>&1 | tail -3": ["pnpm: @types/node", "pnpm: vite@5"],
    "pnpm add -w zod && npm i -w web axios": ["pnpm: zod", "npm: axios"],
    "yarn add react; bun install": ["yarn: react"],
    "sudo apt-get install -y curl git": ["apt-get: curl", "apt-get: git"],
    "DEBIAN_FRONTEND=noninteractive apt install jq": ["apt: jq"],
    "poetry add --group test pytest\ncargo add serde --features derive": ["poetry: pytest", "cargo: serde"],
    "go get github.com/a/b@v1.2 && gem install rails -v 7.1": ["go: github.com/a/b@v1.2", "gem: rails@7.1"],
    "composer require vendor/name:^2 && brew install jq": ["composer: vendor/name:^2", "brew: jq"],
    "dotnet add app.csproj package Serilog --version 4.0": ["dotnet: Serilog@4.0"],
    "dotnet add package Serilog": ["dotnet: Serilog"],
    "bash -lc 'npm install express'": ["npm: express"],
    'echo "npm install express" # pip install x': [],
    "cat > a.sh <<'EOF'\npip install hidden\nEOF\npip install shown": ["pip: shown"],
    "pip install one \\\n  two": ["pip: one", "pip: two"],
    "git add src/a.py && docker install x": [],
    "if timeout 60 pip install a; then sudo -u bob npm i b; fi": ["pip: a", "npm: b"],
    "timeout -k 5 1.5m uv add c || until nice -n 5 cargo add d; do sleep 1; done": ["uv: c", "cargo: d"],
}


@pytest.mark.parametrize(("command", "wanted"), PACKAGES.items())
def test_packages_are_named_by_their_manager(command: str, wanted: list[str]) -> None:
    """Case 27 and its neighbours."""
    assert [f"{manager}: {name}" for manager, name in packages_added(command)] == wanted


BOTH: list[tuple[str | None, str | None, str]] = [("1a2b3c4", "m", "a"), ("2b3c4d5", "detached HEAD", "b")]
MESSAGE = 'git commit -m "$(cat <<\'EOF\'\nFix the ("odd") case\n\nWhy\nEOF\n)"'
COMMITS: list[tuple[str, str, list[tuple[str | None, str | None, str]]]] = [
    ("git commit -m x", "[main 1a2b3c4] x", [("1a2b3c4", "main", "x")]),
    ("git commit -m x", "[main (root-commit) 1a2b3c4] x", [("1a2b3c4", "main", "x")]),
    ("git commit -am a; git commit -m b", "[m 1a2b3c4] a\n[detached HEAD 2b3c4d5] b", BOTH),
    ("git -C dir -c user.name=x commit -q -m 'Quiet one'", "", [(None, None, "Quiet one")]),
    (MESSAGE, "", [(None, None, 'Fix the ("odd") case')]),
    ("if timeout 30s git commit -qm Slow; then make; fi", "", [(None, None, "Slow")]),
    ("git commit --dry-run -m x", "[main 1a2b3c4] x", []),
    (
        "git rebase -x 'make && git commit --amend -m x' main",
        "[detached HEAD 1a2b3c4] x",
        [("1a2b3c4", "detached HEAD", "x")],
    ),
    ("git rebase --exec='git commit -qam y' main", "", [(None, None, "y")]),
    ("git rebase main", "[main 1a2b3c4] x", []),
    ("git submodule foreach --recursive 'git commit -m x'", "[main 1a2b3c4] x", [("1a2b3c4", "main", "x")]),
    ("git commit -m x || true", "On branch main\nnothing to commit, working tree clean", []),
    ('echo "git commit"', "[main 1a2b3c4] x", []),
    ("git log --grep=commit", "[main 1a2b3c4] x", []),
    ("make release", "[main 1a2b3c4] x", []),
]


@pytest.mark.parametrize(("command", "output", "wanted"), COMMITS)
def test_commits_are_those_that_git_made(
    command: str, output: str, wanted: list[tuple[str | None, str | None, str]]
) -> None:
    """Case 26 and its neighbours."""
    made = [Commit(sha=sha, branch=branch, message=message) for sha, branch, message in wanted]
    assert commits_made(command, output) == made


@given(st.text(alphabet="git commit-m\"'$()<>|&;\\\n#EOF npm iadd=", max_size=120))
def test_no_command_makes_it_raise(command: str) -> None:
    assert isinstance(packages_added(command + " npm add x"), list)
    assert isinstance(commits_made(command + " git commit", command), list)


def test_diffs_of_whole_files_name_what_is_not_there() -> None:
    assert diff_of_created("a", "x") == "--- /dev/null\n+++ b/a\n@@ -0,0 +1,1 @@\n+x\n\\ No newline at end of file\n"
    assert diff_of_deleted("a", "x\n") == "--- a/a\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n"


def test_a_replacement_keeps_three_lines_around_it() -> None:
    before = "\n".join("abcdefghi")
    wanted = "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n"
    assert diff_of_replacements("f", [(before, before.replace("e", "E"))]) == wanted
    assert diff_of_replacements("f", [("same", "same")]) is None


def test_requirement_ids_are_found_once_each_in_order() -> None:
    assert requirement_ids("TEST-A-1, FR-AB-C2-10 and FR-AB-C2-10; not FR-12 or XFR-A-1") == ["TEST-A-1", "FR-AB-C2-10"]


@pytest.mark.parametrize(
    ("path", "cwd", "wanted"),
    [
        ("/srv/app/a/b.py", "/srv/app", "a/b.py"),
        ("/srv/application/b.py", "/srv/app", "/srv/application/b.py"),
        ("E:\\w\\src\\a.py", "e:\\w", "src/a.py"),
        ("./a.py", "/srv/app", "a.py"),
        ("/srv/app", "/srv/app/", "/srv/app"),
        ("a.py", None, "a.py"),
    ],
)
def test_paths_are_relative_to_the_first_directory(path: str, cwd: str | None, wanted: str) -> None:
    assert relative_path(path, cwd) == wanted
