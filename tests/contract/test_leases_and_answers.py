"""What stands beside the journal: leases and grants, first answers, outcomes of calls, receipts."""

from dataclasses import replace

from shiftlog.store.protocol import Answer, Store
from tests.contract import builders as b

ONE = b.session_id("one")


def answer(text: str = "ok", *, name: str = "one", minutes: float = 0) -> Answer:
    return Answer(
        request_hash="0" * 64,
        answer={"session_id": b.session_id(name), "text": text, "nested": {"list": [1, None, "ü"]}},
        at=b.at(minutes),
    )


async def test_a_lease_comes_back_until_it_is_ended(store: Store) -> None:
    assert await store.read(lambda reader: reader.lease(ONE)) is None
    await store.write(lambda writer: writer.put_lease(b.lease()))
    assert await store.read(lambda reader: reader.lease(ONE)) == b.lease()
    await store.write(lambda writer: writer.end_lease(ONE))
    assert await store.read(lambda reader: reader.lease(ONE)) is None
    await store.write(lambda writer: writer.end_lease(ONE))


async def test_a_new_lease_replaces_the_one_before(store: Store) -> None:
    newer = b.lease(client_id="client-2", fence=2, pid=None, pid_started=None)
    for item in (b.lease(), newer):
        await store.write(lambda writer, item=item: writer.put_lease(item))
    assert await store.read(lambda reader: reader.leases()) == [newer]


async def test_leases_are_listed_by_session(store: Store) -> None:
    held = [b.lease(name) for name in ("c", "a", "b")]
    for item in held:
        await store.write(lambda writer, item=item: writer.put_lease(item))
    assert await store.read(lambda reader: reader.leases()) == [held[1], held[2], held[0]]


async def test_a_grant_stays_known_after_the_lease_has_passed_on(store: Store) -> None:
    await store.write(lambda writer: writer.put_lease(b.lease()))
    await store.write(lambda writer: writer.put_lease(b.lease(client_id="client-2", fence=2)))
    await store.write(lambda writer: writer.end_lease(ONE))
    assert await store.read(lambda reader: reader.grant(ONE, "client-1")) == 1
    assert await store.read(lambda reader: reader.grant(ONE, "client-2")) == 2
    assert await store.read(lambda reader: reader.grant(ONE, "client-3")) is None
    assert await store.read(lambda reader: reader.grant(b.session_id("two"), "client-1")) is None


async def test_the_turn_that_a_client_works_in_is_the_one_put_last(store: Store) -> None:
    for minute, (client, turn) in enumerate((("client-1", "req-1"), ("client-2", "req-1"), ("client-2", "req-2"))):
        await store.write(lambda w, who=client, turn=turn, n=minute: w.put_turn_of(ONE, who, turn, b.at(n)))
    assert await store.read(lambda reader: reader.turn_of(ONE, "client-1")) == "req-1"
    assert await store.read(lambda reader: reader.turn_of(ONE, "client-2")) == "req-2"
    assert await store.read(lambda reader: reader.turn_of(b.session_id("two"), "client-1")) is None
    assert await store.read(lambda reader: reader.client_of_turn(ONE, "req-1")) == "client-1"
    assert await store.read(lambda reader: reader.client_of_turn(ONE, "req-9")) is None
    await store.write(lambda writer: writer.forget_clients(b.at(1)))
    assert await store.read(lambda reader: reader.turn_of(ONE, "client-1")) is None
    assert await store.read(lambda reader: reader.turn_of(ONE, "client-2")) == "req-2"


async def test_renewing_prolongs_all_leases_of_the_named_clients_and_no_others(store: Store) -> None:
    clients = {"a": "client-1", "b": "client-1", "c": "client-2", "d": "client-3"}
    held = {name: b.lease(name, client_id=client) for name, client in clients.items()}
    for item in held.values():
        await store.write(lambda writer, item=item: writer.put_lease(item))
    await store.write(lambda writer: writer.renew_leases(iter(["client-1", "client-3", "client-9"]), b.at(90)))
    expected = [replace(held[name], expires_at=b.at(90)) if name in "abd" else held[name] for name in "abcd"]
    assert await store.read(lambda reader: reader.leases()) == expected


async def test_the_first_answer_to_a_key_comes_back_as_it_was_given(store: Store) -> None:
    await store.write(lambda writer: writer.put_answer("begin_turn x", "key", answer()))
    assert await store.read(lambda reader: reader.answer("begin_turn x", "key")) == answer()
    assert await store.read(lambda reader: reader.answer("begin_turn y", "key")) is None
    assert await store.read(lambda reader: reader.answer("begin_turn x", "other")) is None


async def test_the_outcome_of_a_call_comes_back(store: Store) -> None:
    outcome: dict[str, object] = {"code": "persisted", "seq": 4}
    await store.write(lambda writer: writer.put_outcome("client", "call", outcome, b.at(0)))
    assert await store.read(lambda reader: reader.outcome("client", "call")) == outcome
    assert await store.read(lambda reader: reader.outcome("client", "other")) is None


async def test_the_receipt_of_a_call_comes_back_after_later_entries_and_after_erasing(store: Store) -> None:
    chain = b.Chain()
    receipts: dict[str, dict[str, object]] = {}

    def work(writer: b.Writer, call: str, told: dict[str, object]) -> None:
        items = [chain.indexed("one"), chain.indexed("two")]
        last = chain.made[-1]
        writer.append(ONE, items)
        writer.put_session(b.session(head_seq=last.seq, head_hash=last.hash))
        receipt = {"code": "persisted", "session_id": ONE, "seq": last.seq, "hash": last.hash, "redactions": 0, **told}
        receipts[call] = receipt
        writer.put_outcome("client", call, receipt, b.at(0))

    told: list[dict[str, object]] = [{"redactions": 3}, {}, {"code": "unchanged"}, {"seq": 1}, {"hash": "sha256:00"}]
    for call, differing in enumerate(told):
        await store.write(lambda writer, n=call, told=differing: work(writer, str(n), told))
    await store.write(lambda writer: writer.erase_body(ONE, 2))
    for call, receipt in receipts.items():
        assert await store.read(lambda reader, call=call: reader.outcome("client", call)) == receipt


async def test_answers_of_a_session_can_be_forgotten(store: Store) -> None:
    await store.write(lambda writer: writer.put_answer("s", "1", answer()))
    await store.write(lambda writer: writer.put_answer("s", "2", answer(name="two")))
    await store.write(lambda writer: writer.put_outcome("client", "call", {"session_id": ONE}, b.at(0)))
    await store.write(lambda writer: writer.forget_answers(session_id=ONE))
    assert await store.read(lambda reader: reader.answer("s", "1")) is None
    assert await store.read(lambda reader: reader.answer("s", "2")) == answer(name="two")
    assert await store.read(lambda reader: reader.outcome("client", "call")) is not None


async def test_answers_and_outcomes_before_a_time_can_be_forgotten(store: Store) -> None:
    def work(writer: b.Writer) -> None:
        for minute in (1, 2, 3):
            writer.put_answer("s", str(minute), answer(minutes=minute))
            writer.put_outcome("client", str(minute), {"minute": minute}, b.at(minute))

    await store.write(work)
    await store.write(lambda writer: writer.forget_answers(before=b.at(2)))
    await store.write(lambda writer: writer.forget_outcomes(b.at(3)))
    for minute, are_kept in {"1": (False, False), "2": (True, False), "3": (True, True)}.items():
        kept = await store.read(lambda reader, minute=minute: reader.answer("s", minute))
        outcome = await store.read(lambda reader, minute=minute: reader.outcome("client", minute))
        assert (kept is not None, outcome is not None) == are_kept


async def test_forgetting_neither_by_session_nor_by_time_forgets_nothing(store: Store) -> None:
    await store.write(lambda writer: writer.put_answer("s", "1", answer()))
    await store.write(lambda writer: writer.forget_answers())
    assert await store.read(lambda reader: reader.answer("s", "1")) == answer()


async def test_receipts_are_listed_by_seq(store: Store) -> None:
    for seq in (9, 3, 12):
        await store.write(lambda writer, seq=seq: writer.put_receipt(b.receipt(seq=seq)))
    await store.write(lambda writer: writer.put_receipt(b.receipt("two", 1)))
    assert await store.read(lambda reader: reader.receipts(ONE)) == [b.receipt(seq=seq) for seq in (3, 9, 12)]
    assert await store.read(lambda reader: reader.receipts(b.session_id("three"))) == []


async def test_a_receipt_under_a_test_clock_says_so(store: Store) -> None:
    marked = replace(b.receipt(), test_clock=True)
    await store.write(lambda writer: writer.put_receipt(marked))
    assert await store.read(lambda reader: reader.receipts(ONE)) == [marked]
