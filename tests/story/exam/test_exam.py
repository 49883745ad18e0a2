"""The exam of the capsule: from it alone, twelve questions about each story are answered, eleven at the least."""

from pathlib import Path

import pytest

from tests.story.exam import corrections, crashes, everyday, hand_overs, journeys, relays, sizes
from tests.story.exam.actor import Answer, acting
from tests.story.exam.questions import ASKED, ENOUGH, Story, mark, q

STORIES = [
    *crashes.STORIES,
    *corrections.STORIES,
    *hand_overs.STORIES,
    *sizes.STORIES,
    *relays.STORIES,
    *everyday.STORIES,
    *journeys.STORIES,
]


def test_the_exam_has_thirty_five_stories_of_twelve_questions() -> None:
    assert len({story.name for story in STORIES}) == len(STORIES) == 35
    assert {len(story.questions) for story in STORIES} == {ASKED}
    assert all(question.says or question.never for story in STORIES for question in story.questions)


def test_a_question_is_answered_by_its_own_part_alone() -> None:
    told: Answer = {
        "capsule": {"goal": {"text": 'Say "hello"'}, "next": [], "open_turn": None},
        "drift": {"branch": "main"},
    }
    assert q("?", "goal", 'Say "hello"').is_answered(told)
    assert q("?", "/drift.branch", "main", never=["hotfix"]).is_answered(told)
    assert not q("?", "next", "hello").is_answered(told)
    assert not q("?", "goal", "Say", never=["hello"]).is_answered(told)
    assert not q("?", "open_turn.query_text", "hello").is_answered(told)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
async def test_the_next_agent_passes_the_exam(story: Story, tmp_path: Path) -> None:
    async with acting(tmp_path) as actor:
        told = await story.tell(actor)
    marks = mark(story, told)
    print(marks)
    assert marks.right >= ENOUGH, str(marks)
