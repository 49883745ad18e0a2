"""Which known name a mistyped one meant."""

from shiftlog.text.nearest import nearest, similar_names, suggestion, unknown_and_nearest


def test_there_is_always_a_nearest_name() -> None:
    assert nearest("titel", ["body", "title"]) == "title"
    assert nearest("SHIFTLOG_HTTP_PROT", ["SHIFTLOG_HTTP_HOST", "SHIFTLOG_HTTP_PORT"]) == "SHIFTLOG_HTTP_PORT"
    assert nearest("日本", ["body", "title"]) in {"body", "title"}


def test_the_last_part_of_a_dotted_name_can_decide() -> None:
    assert nearest("web.port", ["shell.web_part", "http.port"]) == "http.port"


def test_a_suggestion_is_made_only_if_it_is_alike_enough() -> None:
    assert suggestion("ekho", ["echo", "mood"]) == "echo"
    assert suggestion("zzz", ["echo", "mood"]) is None
    assert suggestion("Echo", ["echo"]) == "echo"


def test_a_shared_word_makes_names_alike_and_letters_in_a_row_do_not() -> None:
    known = ["session_id", "resonance_tier", "error_message", "query_text"]
    assert suggestion("workspace", known) is None
    assert suggestion("id", known) == "session_id"
    assert suggestion("sessionId", known) == "session_id"
    assert suggestion("message", known) == "error_message"
    assert suggestion("text", known) == "query_text"


def test_similar_names_come_most_alike_first() -> None:
    assert similar_names("alice", ["bob", "alicia", "alice2"], most=2, least=0.4) == ["alice2", "alicia"]


def test_an_unknown_name_is_cut_and_made_printable() -> None:
    shown, near, alike = unknown_and_nearest("\ud800" + "x" * 500, [])
    assert (len(shown), near, alike) == (200, None, False)


def test_an_unknown_name_always_has_a_nearest_one_that_is_alike_or_not() -> None:
    assert unknown_and_nearest("titel", ["title", "body"]) == ("titel", "title", True)
    assert unknown_and_nearest("zzz", ["title"]) == ("zzz", "title", False)
