"""Recovery tokens, the agents of clients, and sessions by offer and by predecessor, in every store."""

from dataclasses import replace

from shiftlog.model.nouns import Offer, Token
from shiftlog.store.protocol import Filter, Page, Store, Writer
from tests.contract import builders as b


def token(name: str = "a", **facts: object) -> Token:
    base = Token(hash=name * 64, session_id=b.session_id("one"), issued_at=b.at(0), expires_at=b.at(60))
    return replace(base, **facts)  # pyright: ignore[reportArgumentType]


def offer(agent: str | None) -> Offer:
    return Offer(agent_id=agent, agent_key=agent and agent.lower(), at=b.at(1), expires_at=b.at(60), seq=3)


async def test_a_token_comes_back_by_its_hash(store: Store) -> None:
    for kept in (token(), token("b", used_at=b.at(5)), token("c", revoked_at=b.at(6))):
        await store.write(lambda writer, kept=kept: writer.put_token(kept))
        assert await store.read(lambda reader, kept=kept: reader.token(kept.hash)) == kept
    assert await store.read(lambda reader: reader.token("d" * 64)) is None


async def test_putting_a_token_again_replaces_what_was_known_of_it(store: Store) -> None:
    await store.write(lambda writer: writer.put_token(token()))
    await store.write(lambda writer: writer.put_token(token(used_at=b.at(2))))
    assert await store.read(lambda reader: reader.token("a" * 64)) == token(used_at=b.at(2))


async def test_revoking_touches_the_unspent_tokens_of_one_session_alone(store: Store) -> None:
    used, old = token("b", used_at=b.at(1)), token("c", revoked_at=b.at(1))
    other = token("d", session_id=b.session_id("two"))

    def work(writer: Writer) -> None:
        for kept in (token(), used, old, other):
            writer.put_token(kept)
        writer.revoke_tokens(b.session_id("one"), b.at(9))

    await store.write(work)
    found = await store.read(lambda reader: [reader.token(name * 64) for name in "abcd"])
    assert found == [token(revoked_at=b.at(9)), used, old, other]


async def test_a_transaction_that_fails_leaves_the_tokens_as_they_were(store: Store) -> None:
    await store.write(lambda writer: writer.put_token(token()))

    def work(writer: Writer) -> None:
        writer.revoke_tokens(b.session_id("one"), b.at(9))
        writer.put_token(token("b"))
        writer.put_agent_of("client-1", "alpha", b.at(1))
        raise RuntimeError

    try:
        await store.write(work)
    except RuntimeError:
        pass
    assert await store.read(lambda reader: reader.token("a" * 64)) == token()
    assert await store.read(lambda reader: reader.token("b" * 64)) is None
    assert await store.read(lambda reader: reader.agent_of("client-1")) is None


async def test_the_agent_of_a_client_is_the_last_one_put(store: Store) -> None:
    assert await store.read(lambda reader: reader.agent_of("client-1")) is None
    for agent in ("alpha", "beta"):
        await store.write(lambda writer, agent=agent: writer.put_agent_of("client-1", agent, b.at(1)))
    assert await store.read(lambda reader: reader.agent_of("client-1")) == "beta"
    assert await store.read(lambda reader: reader.agent_of("client-2")) is None


async def test_what_is_known_of_clients_is_forgotten_unless_they_hold_a_lease(store: Store) -> None:
    def work(writer: Writer) -> None:
        for name, second in (("early", 1), ("late", 100), ("holder", 1)):
            client_id = f"client-{name}"
            writer.put_agent_of(client_id, name, b.at(second))
            writer.put_lease(b.lease(name, client_id=client_id, since=b.at(second)))
            writer.put_token(token(name[0], expires_at=b.at(second)))
        for name in ("early", "late"):
            writer.end_lease(b.session_id(name))
        writer.forget_clients(b.at(50))

    await store.write(work)
    names = ("early", "late", "holder")
    agents = await store.read(lambda reader: [reader.agent_of(f"client-{name}") for name in names])
    assert agents == [None, "late", "holder"]
    grants = await store.read(lambda reader: [reader.grant(b.session_id(name), f"client-{name}") for name in names])
    assert [fence is not None for fence in grants] == [False, True, True]
    tokens = await store.read(lambda reader: [reader.token(letter * 64) for letter in "elh"])
    assert [kept is not None for kept in tokens] == [False, True, False]


async def test_sessions_are_found_by_whom_they_are_offered_to(store: Store) -> None:
    offers = {"one": offer("Alpha"), "two": offer(None), "three": None}
    for name, made in offers.items():
        await b.stored(store, of=b.session(name, offer=made))
    assert await _ids(store, Filter(offered_to="alpha")) == {"one"}
    assert await _ids(store, Filter(offered_to="beta")) == set()
    assert await _ids(store, Filter(offered=True)) == {"one", "two"}
    found = await store.read(lambda reader: reader.session(b.session_id("one")))
    assert found is not None
    assert found.offer == offers["one"]


async def test_an_offer_that_is_over_is_not_found_any_more(store: Store) -> None:
    chain = await b.stored(store, of=b.session("one", offer=offer("alpha")))
    await store.write(lambda writer: b.put(writer, of=b.session("one"), chain=chain) and None)
    assert await _ids(store, Filter(offered=True)) == set()


async def test_sessions_are_found_by_their_predecessor(store: Store) -> None:
    await b.stored(store, of=b.session("one"))
    await b.stored(store, of=b.session("two", predecessor_session_id=b.session_id("one")))
    assert await _ids(store, Filter(predecessor_id=b.session_id("one"))) == {"two"}
    assert await _ids(store, Filter(predecessor_id=b.session_id("two"))) == set()


async def _ids(store: Store, where: Filter) -> set[str]:
    rows = await store.read(lambda reader: reader.find_sessions(where, Page(limit=10)))
    return {row.session.id.rpartition("-")[2] for row in rows}
