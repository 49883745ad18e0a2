"""Splicing: our entry gets in, and nothing else in a stranger's file changes."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shiftlog.cli.setup.edit_json import CannotEdit, Entry, with_json_entry
from shiftlog.cli.setup.edit_toml import with_toml_table

PATH = ("mcpServers", "shiftlog")
ENTRY: Entry = {"command": "/bin/shiftlog", "args": ["mcp"]}


def ours(_present: Entry | None) -> Entry:
    return ENTRY


def over(present: Entry | None) -> Entry:
    return {**(present or {}), **ENTRY}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)
SERVERS = st.dictionaries(st.sampled_from(["shiftlog", "other", 'a"}{', ""]), VALUES, max_size=4)
DOCUMENTS = st.dictionaries(st.text(), VALUES, max_size=5).flatmap(
    lambda rest: st.one_of(
        st.just(rest), SERVERS.map(lambda servers: {**rest, "mcpServers": servers, "zeta": "mcpServers"})
    )
)
LAYOUTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 2, 4, "\t", 0]),
        "separators": st.sampled_from([None, (",", ":")]),
        "ensure_ascii": st.booleans(),
    }
)


@given(DOCUMENTS, LAYOUTS, st.booleans(), st.sampled_from(["", "\n", "\n\n"]))
def test_any_document_keeps_all_but_our_entry(
    document: dict[str, Any], layout: dict[str, Any], comments: bool, end: str
) -> None:
    text = json.dumps(document, **layout) + end
    after = with_json_entry(text, PATH, ours, comments=comments)
    expected = {**document, "mcpServers": {**document.get("mcpServers", {}), "shiftlog": ENTRY}}
    assert json.loads(after) == expected
    assert list(json.loads(after)) == list(expected)
    assert after.endswith(end)
    assert with_json_entry(after, PATH, ours, comments=comments) == after


@given(st.text(max_size=80) | st.text(alphabet='{}[]",:/*\\ \nae1', max_size=40), st.booleans())
def test_any_text_is_edited_or_refused_and_never_breaks(text: str, comments: bool) -> None:
    try:
        after = with_json_entry(text, PATH, ours, comments=comments)
    except CannotEdit:
        return
    assert with_json_entry(after, PATH, ours, comments=comments) == after


def test_a_document_of_many_lines_gets_lines_indented_like_its_own() -> None:
    before = """{
    "a": 1.10,
    "mcpServers": {
        "x": {}
    },
    "z": 1e999
}
"""
    added = """,
        "shiftlog": {
            "command": "/bin/shiftlog",
            "args": [
                "mcp"
            ]
        }"""
    expected = before.replace('"x": {}', '"x": {}' + added)
    assert with_json_entry(before, PATH, ours) == expected
    windows = before.replace("    ", "\t").replace("\n", "\r\n")
    assert with_json_entry(windows, PATH, ours) == expected.replace("    ", "\t").replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a":1}', '{"a":1,"mcpServers":{"shiftlog":{"command":"/bin/shiftlog","args":["mcp"]}}}'),
        (
            '{"mcpServers": {}}',
            '{"mcpServers": {"shiftlog": {"command": "/bin/shiftlog", "args": ["mcp"]}}}',
        ),
    ],
)
def test_a_document_of_one_line_stays_one_line(before: str, after: str) -> None:
    assert with_json_entry(before, PATH, ours) == after


def test_comments_and_trailing_commas_stay_where_they_are() -> None:
    before = '// mine\n{\n  "servers": {\n    "x": {}, // the first\n    /* no more */\n  },\n}\n'
    after = with_json_entry(before, ("servers", "shiftlog"), ours, comments=True)
    start, end = after.index('\n    "shiftlog"'), after.index("\n  },")
    assert after[:start] + after[end:] == before
    assert with_json_entry(after, ("servers", "shiftlog"), ours, comments=True) == after


def test_a_comma_goes_before_the_comment_of_the_last_member() -> None:
    before = '{\n  "servers": {\n    "x": {} // the last\n  }\n}'
    after = with_json_entry(before, ("servers", "shiftlog"), ours, comments=True)
    assert '"x": {}, // the last\n    "shiftlog": {' in after


def test_a_file_of_nothing_but_comments_keeps_them() -> None:
    after = with_json_entry("// servers go here\n", PATH, ours, comments=True)
    assert after.startswith("// servers go here\n{\n")


def test_of_a_key_given_twice_the_one_that_counts_is_edited() -> None:
    after = with_json_entry('{"mcpServers": {"x": 1}, "mcpServers": {"y": 2}}', PATH, ours)
    assert json.loads(after)["mcpServers"] == {"y": 2, "shiftlog": ENTRY}
    assert after.startswith('{"mcpServers": {"x": 1}, ')


def test_what_the_owner_added_to_our_entry_stays() -> None:
    before = '{"mcpServers": {"shiftlog": {"command": "old", "timeout": 1.50}}}'
    entry = json.loads(with_json_entry(before, PATH, over))["mcpServers"]["shiftlog"]
    assert entry == {"command": "/bin/shiftlog", "timeout": 1.5, "args": ["mcp"]}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "null",
        '{"a": NaN}',
        '{"a": 1,}',
        '{"a": 1} // note',
        '{"mcpServers": []}',
        '{"mcpServers": null}',
        '{"a": ' + "[" * 100_000,
    ],
)
def test_a_document_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(CannotEdit):
        with_json_entry(text, PATH, ours)


TABLE = ("mcp_servers", "shiftlog")
WRITTEN = '[mcp_servers.shiftlog]\ncommand = "/bin/shiftlog"\nargs = ["mcp"]\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", WRITTEN),
        ("# mine\nmodel = 'm'", "# mine\nmodel = 'm'\n\n" + WRITTEN),
        ("[mcp_servers.x] # y\ncommand='z'\n", "[mcp_servers.x] # y\ncommand='z'\n\n" + WRITTEN),
        ("[mcp_servers]\n", "[mcp_servers]\n\n" + WRITTEN),
        (WRITTEN, WRITTEN),
        ("[mcp_servers.'shiftlog']", WRITTEN.replace("shiftlog]", "'shiftlog']")),
    ],
)
def test_our_table_is_added_and_the_rest_of_the_toml_stays(before: str, after: str) -> None:
    assert with_toml_table(before, TABLE, ours) == after


def test_a_table_of_ours_is_changed_in_place_with_its_comments_and_further_keys() -> None:
    before = (
        'text = """\n[mcp_servers.shiftlog]\nargs = 1\n"""\r\n'
        "[mcp_servers.shiftlog]  # journal\n# slow disk\nstartup_timeout_sec = 20.50\n"
        "args = [\n  'mcp', # old\n  '--x',\n]\ncommand = '/bin/shiftlog'\n\n"
        "# another one\n[mcp_servers.x]\ncommand = 'x'\n"
    )
    after = with_toml_table(before, TABLE, over)
    assert after == before.replace("args = [\n  'mcp', # old\n  '--x',\n]\n", "").replace(
        "# journal\n", '# journal\nargs = ["mcp"]\r\n'
    )


def test_a_stale_environment_table_goes_but_the_comment_behind_it_stays() -> None:
    before = WRITTEN + "[mcp_servers.shiftlog.env]\nSHIFTLOG_HOME = 'x'\n\n# another\n[other]\na = 1\n"
    after = with_toml_table(before, TABLE, ours)
    assert after == WRITTEN + "\n# another\n[other]\na = 1\n"


def test_text_that_needs_escapes_survives_toml() -> None:
    entry: Entry = {"command": 'C:\\a "b"\x7f\x01é😀', "args": [], "env": {"A.b c": "d"}}
    assert tomllib.loads(with_toml_table("", TABLE, lambda _: entry))["mcp_servers"]["shiftlog"] == entry


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "mcp_servers = 3",
        "mcp_servers = {}",
        "[[mcp_servers]]",
        "[mcp_servers]\nshiftlog = 3",
        "[mcp_servers]\nshiftlog = { command = 'old' }",
        "mcp_servers.shiftlog.command = 'old'",
        "a = " + "[" * 5000,
    ],
)
def test_toml_that_is_broken_or_holds_us_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(CannotEdit):
        with_toml_table(text, TABLE, ours)


TOML_LINES = st.sampled_from(
    [
        "# note",
        "",
        "a = 1",
        "b.c = 'x'",
        'd = """\n[e]\n"""',
        "f = [\n 1, # one\n]",
        "g = nan",
        "h = 1979-05-27",
    ]
)
TOML_TABLES = st.lists(
    st.sampled_from(["[t]", "[mcp_servers.x]", "[u.v] # w", "[mcp_servers]", "[[list]]"]), unique=True
)


@given(st.lists(TOML_LINES, unique=True), TOML_TABLES, st.data())
def test_any_toml_keeps_every_line_of_its_own(lines: list[str], tables: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    for table in tables:
        text += f"\n{table}\n" + "\n".join(data.draw(st.lists(TOML_LINES, unique=True)))
    text += data.draw(st.sampled_from(["", "\n"]))
    after = with_toml_table(text, TABLE, ours)
    assert after.startswith(text)
    assert tomllib.loads(after)["mcp_servers"]["shiftlog"] == ENTRY
    again = with_toml_table(after, TABLE, lambda _: {"command": "new"})
    assert again == after[: -len(WRITTEN)] + '[mcp_servers.shiftlog]\ncommand = "new"\n'
