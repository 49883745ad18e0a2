"""Tokens of Claude Code: each response once, the largest figure of each counter."""

from itertools import permutations
from typing import Any

from shiftlog.facts.transcript import UsageFact
from tests.ingest.readers.claude.tally import Script, Tally, read, read_script, text


def usage(given: object, output: object, created: object, cached: object, **more: Any) -> dict[str, Any]:
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return dict(zip(names, (given, output, created, cached), strict=True)) | more


def response(script: Script, message: str | None, request: str | None, used: dict[str, Any], **more: Any) -> None:
    ids = {"id": message} if message else {"id": None}
    script.model(text("words"), requestId=request, message={**ids, "usage": used}, **more)


def totals(*scripts: Script) -> tuple[int, list[int]]:
    tally = Tally()
    for script in scripts:
        reader, _ = read([])
        for line in script.lines():
            tally.add(reader.feed(line))
    return tally.usage()


def test_the_lines_of_one_message_are_one_response() -> None:
    """Case 18."""
    script = Script()
    for output in (1, 1, 1, 500):
        response(script, "A", "r1", usage(3, output, 900, 12000))
    assert totals(script) == (1, [3, 500, 900, 12000])


def test_the_example_of_the_contract_in_either_order_of_files() -> None:
    """Case 19."""
    main, child = Script(), Script()
    response(main, "A", "r1", usage(3, 5, 900, 12000))
    response(main, "A", "r1", usage(3, 631, 900, 12000))
    message: dict[str, Any] = {"id": "B", "content": [], "usage": usage(4, 6, 100, 8000)}
    nested = {"type": "assistant", "uuid": "n1", "requestId": "r2", "message": message}
    main.record("progress", data={"type": "agent_progress", "agentId": "x", "message": nested})
    response(main, "C", None, usage(2, 10, 0, 500))
    response(main, "C", "r3", usage(2, 40, 0, 500))
    response(main, "D", "r4", usage(0, 0, 0, 0))
    response(child, "B", "r2", usage(4, 798, 100, 8000), isSidechain=True, agentId="x")
    for order in permutations((main, child)):
        assert totals(*order) == (3, [9, 1469, 1000, 20500])


def test_the_split_of_written_tokens_counts_where_the_sum_is_missing() -> None:
    """Case 21."""
    script = Script()
    split = {"ephemeral_5m_input_tokens": 70, "ephemeral_1h_input_tokens": 30}
    response(script, "A", "r1", usage(0, 1, 0, 0, cache_creation=split))
    reader, _ = read([])
    facts = [fact for line in script.lines() for fact in reader.feed(line)]
    (used,) = [fact for fact in facts if isinstance(fact, UsageFact)]
    assert (used.cache_creation_tokens, used.cache_creation_1h_tokens) == (100, 30)


def test_strange_counters_count_as_what_they_are() -> None:
    script = Script()
    response(script, "A", "r1", usage("12", -5, None, [3]))
    response(script, "B", "r2", usage(True, 1.0, {"x": 1}, "x"))
    assert totals(script) == (2, [12, 1, 0, 0])


def test_a_message_without_id_is_not_counted() -> None:
    script = Script()
    response(script, None, "r1", usage(1, 1, 1, 1))
    assert totals(script) == (0, [0, 0, 0, 0])


def test_a_response_belongs_to_its_turn_and_model() -> None:
    script = Script()
    script.user("Go")
    response(script, "A", "r1", usage(1, 2, 3, 4, server_tool_use={"web_search_requests": 2}))
    tally = read_script(script)
    reader, _ = read([])
    facts = [fact for line in script.lines() for fact in reader.feed(line)]
    (used,) = [fact for fact in facts if isinstance(fact, UsageFact)]
    assert (used.model, used.web_searches, used.key) == ("claude-opus-4-6", 2, ("use", "A/r1"))
    assert used.turn == tally.facts[-1].turn


def test_equal_repetitions_of_a_message_give_one_fact() -> None:
    script = Script()
    for _ in range(4):
        response(script, "A", "r1", usage(1, 2, 3, 4))
    reader, _ = read([])
    facts = [fact for line in script.lines() for fact in reader.feed(line)]
    assert sum(isinstance(fact, UsageFact) for fact in facts) == 1


def test_a_repeated_record_still_counts_its_larger_figures() -> None:
    script = Script()
    response(script, "A", "r1", usage(1, 2, 0, 0))
    response(script, "A", "r1", usage(1, 9, 0, 0), uuid="u1")
    assert totals(script) == (1, [1, 9, 0, 0])


def test_tokens_in_any_progress_record_count() -> None:
    """4.1: from every `progress` record with a message of the model, whoever it belongs to."""
    script = Script()
    script.user("Go")
    for number, kind in enumerate(("agent_progress", "hook_progress", "unheard_of")):
        message: dict[str, Any] = {"id": f"m{number}", "usage": usage(10**number, 1, 0, 0)}
        nested = {"type": "assistant", "uuid": f"n{number}", "requestId": "r", "message": message}
        script.record("progress", data={"type": kind, "message": nested})
    assert read_script(script).usage() == (3, [111, 3, 0, 0])
