"""The version of the rules by which sessions and turns were computed."""

from shiftlog.store.protocol import Store


async def test_a_new_store_has_the_first_version_and_keeps_the_last_one_put(store: Store) -> None:
    assert await store.read(lambda reader: reader.projection_version()) == 1
    await store.write(lambda writer: writer.put_projection_version(3))
    await store.write(lambda writer: writer.put_projection_version(4))
    assert await store.read(lambda reader: reader.projection_version()) == 4
