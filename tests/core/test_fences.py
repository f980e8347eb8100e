"""Text in a fence can't end its own quotation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logist.core.text.fences import fence_text, make_fence


@given(st.text("`a\n"))
def test_a_fence_is_longer_than_every_run_of_backticks(text: str) -> None:
    fence = make_fence(text)
    assert set(fence) == {"`"}
    assert fence not in text
    assert len(fence) == 3 or fence[1:] in text
    assert fence_text(text).count(fence) == 2
