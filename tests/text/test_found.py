"""What a search found, as every face shows it."""

import pytest

from shiftlog.text.found import repeats_title


@pytest.mark.parametrize(
    ("changed", "repeats"),
    [
        ({}, True),
        ({"snippet": "\u2026w4 Apply the «DISCOUNT» gpt-5.5 /srv/core"}, True),
        ({"snippet": "\u2026w4 Apply it «gpt-5.5» /srv/core"}, False),
        ({"snippet": "no mark"}, False),
        ({"snippet": None}, False),
        ({"seq": 7}, False),
        ({"kind": "turn"}, False),
        ({"title": None}, False),
    ],
)
def test_a_snippet_is_left_out_only_where_it_repeats_the_title(changed: dict[str, object], repeats: bool) -> None:
    item = {"kind": "session", "seq": 1, "title": "Apply the discount", "snippet": "w4 Apply the «discount»"}
    assert repeats_title({**item, **changed}) is repeats
