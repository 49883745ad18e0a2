"""Which works the writer's queue waits for before it commits them together."""

import threading

from shiftlog.store.jobs import Job, WriteQueue

LONG_S = 600.0


def _job(*, is_bulk: bool = False) -> Job:
    return Job(lambda _: None, None, lasting=True, is_bulk=is_bulk)


def _gathered(works: WriteQueue, many: int) -> threading.Thread:
    thread = threading.Thread(target=works.gather, args=(many, LONG_S), daemon=True)
    thread.start()
    return thread


def test_works_of_callers_that_come_back_are_one_group() -> None:
    works = WriteQueue()
    gathering = _gathered(works, 3)
    for _ in range(3):
        assert gathering.is_alive()
        works.put(_job())
    gathering.join(60)
    assert not gathering.is_alive()
    assert len(list(works.next_group() or ())) == 3


def test_a_caller_alone_bulk_work_and_the_end_wait_for_nobody() -> None:
    alone = WriteQueue()
    alone.gather(1, LONG_S)
    bulk, ending = WriteQueue(), WriteQueue()
    threads = [_gathered(bulk, 9), _gathered(ending, 9)]
    bulk.put(_job(is_bulk=True))
    ending.end()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_works_that_do_not_come_are_not_waited_for_any_longer() -> None:
    works = WriteQueue()
    works.put(_job())
    works.gather(2, 0.01)
    assert len(list(works.next_group() or ())) == 1
