import pytest

from shiftlog.entry import bridge_options


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--read-only"], {"read_only": True}),
        (["--tools", "a,b"], {"tools": ["a", "b"]}),
        (["--tools=a", "--tools", " b , c,"], {"tools": ["a", "b", "c"]}),
        (["--toolsets", "journal", "--exclude-tools=x"], {"toolsets": ["journal"], "exclude_tools": ["x"]}),
        (["--dialect", "nexo,mcpserver"], {"dialects": ["nexo", "mcpserver"]}),
        (["--tools="], {"tools": []}),
        (["--policy-file", "a,b", "--policy-file=c"], {"policy_files": ["a,b", "c"]}),
    ],
)
def test_the_flags_of_a_bridge_become_its_options(arguments: list[str], options: dict[str, object]) -> None:
    assert bridge_options(arguments) == options


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--in-process"],
        ["--tools"],
        ["--tools", "--read-only"],
        ["--policy-file"],
        ["--read-only=yes"],
        ["extra"],
        ["--tool", "a"],
    ],
)
def test_everything_else_is_left_to_the_command_line(arguments: list[str]) -> None:
    assert bridge_options(arguments) is None
