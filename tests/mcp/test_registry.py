"""Which tools, resources and prompts a selection serves."""

import pytest

from shiftlog.mcp.registry import Registry, Selection
from shiftlog.model.errors import InvalidParameter
from tests.mcp.samples import echo, resource, sample_registry, tool

JOURNAL = [
    "echo",
    "checked",
    "whoami",
    "refuse",
    "crash",
    "items",
    "picture",
    "count_up",
    "hidden",
    "own_shape",
    "plain_words",
]


def names(**flags: object) -> list[str]:
    return [tool.name for tool in sample_registry().select(Selection.read(flags)).tools]


def test_without_flags_the_default_toolsets_are_served_in_registry_order():
    assert names() == [*JOURNAL, "run_it"]


def test_naming_toolsets_replaces_the_default():
    assert names(toolsets="ingest,shell") == ["run_it", "import_it"]


@pytest.mark.parametrize(
    ("toolsets", "expected"),
    [
        ("all", [*JOURNAL, "run_it", "import_it"]),
        ("default", [*JOURNAL, "run_it"]),
        ("default,ingest", [*JOURNAL, "run_it", "import_it"]),
        ("workspace", []),
    ],
)
def test_all_and_default_stand_for_groups_of_toolsets(toolsets: str, expected: list[str]):
    assert names(toolsets=toolsets) == expected


def test_tools_alone_serve_only_these():
    assert names(tools="import_it,echo") == ["echo", "import_it"]


def test_tools_beside_toolsets_are_added():
    assert names(toolsets=["shell"], tools=["echo"]) == ["echo", "run_it"]


def test_an_excluded_tool_is_gone_even_when_it_is_also_named():
    assert names(toolsets="shell", tools="echo", exclude_tools="echo") == ["run_it"]


def test_a_part_of_a_tool_is_served_and_excluded_with_it():
    whole = sample_registry() + Registry(tools=(tool("half_echo", echo, part_of="echo", listed=False),))

    def served(**flags: object) -> list[str]:
        return [tool.name for tool in whole.select(Selection.read(flags)).tools]

    assert served(tools="echo") == ["echo", "half_echo"]
    assert served(tools="half_echo") == ["half_echo"]
    assert "half_echo" in served()
    assert not {"echo", "half_echo"} & set(served(exclude_tools="echo"))


def test_read_only_leaves_out_every_tool_that_changes_something():
    assert names(read_only=True, tools="refuse,run_it,echo") == ["echo"]
    assert "refuse" not in names(read_only=True)


def test_a_dialect_is_served_beside_the_native_tools():
    assert names(dialects="nexo") == [*JOURNAL, "run_it", "nexo_log"]


def test_with_execkit_only_tools_of_dialects_are_served():
    assert names(dialects="execkit") == ["session_exec"]
    assert names(dialects="nexo,execkit", tools="echo", toolsets="all") == ["nexo_log", "session_exec"]


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"toolsets": "jurnal"}, "there is no toolset 'jurnal'; did you mean 'journal'?"),
        ({"tools": "ekho"}, "there is no tool 'ekho'; did you mean 'echo'?"),
        ({"exclude_tools": "refuze"}, "there is no tool 'refuze'; did you mean 'refuse'?"),
        ({"dialects": "execit"}, "there is no dialect 'execit'; did you mean 'execkit'?"),
        ({"toolsets": "nexo"}, "there is no toolset 'nexo'"),
        ({"tools": "zzz"}, "there is no tool 'zzz'"),
    ],
)
def test_an_unknown_name_is_refused_naming_the_nearest(flags: dict[str, object], says: str):
    with pytest.raises(InvalidParameter) as caught:
        names(**flags)
    assert caught.value.message == f"Parameter '{next(iter(flags))}' is invalid: {says}"
    assert caught.value.details["value"] == next(iter(flags.values()))


def test_an_unknown_flag_is_refused_naming_the_nearest():
    with pytest.raises(InvalidParameter, match="did you mean 'toolsets'"):
        Selection.read({"toolset": "journal"})


def test_a_selection_survives_the_handshake():
    selection = Selection.read(
        {"toolsets": " journal , shell,,journal", "tools": ["echo"], "read_only": "yes", "dialects": None}
    )
    assert selection == Selection(toolsets=("journal", "shell"), tools=("echo",), read_only=True)
    assert selection.as_dict() == {"toolsets": ["journal", "shell"], "tools": ["echo"], "read_only": True}
    assert Selection.read(selection.as_dict()) == selection
    assert Selection().as_dict() == {}


def test_resources_and_prompts_follow_the_toolsets_that_are_served():
    only_shell = sample_registry().select(Selection(toolsets=("shell",)))
    assert [item.name for item in only_shell.resources] == ["page"]
    assert only_shell.prompts == ()
    one_tool = sample_registry().select(Selection(tools=("echo",)))
    assert [item.name for item in one_tool.resources] == ["notes", "blob", "thing"]
    assert [item.name for item in one_tool.prompts] == ["greeting"]


@pytest.mark.parametrize(
    "twice",
    [
        Registry(tools=(tool("parrot", echo),)),
        Registry(tools=(tool("other", echo, aliases=("echo",)),)),
        Registry(resources=(resource("shiftlog://notes", "more", "text/plain", echo),)),
        Registry(prompts=sample_registry().prompts),
    ],
)
def test_a_name_that_is_registered_twice_is_refused(twice: Registry):
    with pytest.raises(ValueError, match="registered twice"):
        _ = sample_registry() + twice
