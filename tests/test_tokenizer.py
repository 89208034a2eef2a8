"""`FrameAwareTokenizer`: each visual token is named by frame and patch, in frames of any size; text is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrex.runtime.tokenizer import FrameAwareTokenizer, Patch
from vrex.trace.address_map import PatchGrid

VIDEO, CLASS = 9, 8


class Words:
    """A tokenizer of words, as far as the wrapper asks."""

    unk_token_id = 0
    unk_token = "?"
    vocabulary = {"?": 0, "<video>": VIDEO, "<class>": CLASS}

    def __init__(self, shape: Callable[[list[int]], Any] = list, **more: Any) -> None:
        self._shape = shape
        self._more = more

    def __call__(self, text: str) -> dict[str, Any]:
        ids = [self.vocabulary.get(word, 1) for word in text.split()]
        return {"input_ids": self._shape(ids), **self._more}

    def convert_tokens_to_ids(self, token: str) -> int:
        return self.vocabulary.get(token, 0)


@given(
    calls=st.lists(
        st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2), st.integers(0, 3)), max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_every_visual_token_is_named_once_and_in_order(calls: list[list[tuple[int, int, int, int]]]) -> None:
    tokenizer = FrameAwareTokenizer(Words(), ["<video>", CLASS])
    frame = token = 0
    for frames in calls:
        text: list[str] = []
        expected: list[Patch | None] = []
        for rows, columns, leading, words in frames:
            text += ["word"] * words + ["<class>"] * leading + ["<video>"] * (rows * columns)
            expected += [None] * words + [Patch(frame, -1, -1)] * leading
            expected += [Patch(frame, row, column) for row in range(rows) for column in range(columns)]
            frame += 1
        grids = [PatchGrid(rows, columns, leading) for rows, columns, leading, _ in frames]
        tagged = tokenizer(" ".join([*text, "end"]), grids=grids)
        assert tagged.patches == [*expected, None]
        assert tagged.first_token == token
        token += len(tagged.input_ids)
        assert (tokenizer.frames, tokenizer.tokens) == (frame, token)


def test_a_frames_tokens_and_a_rows() -> None:
    tokenizer = FrameAwareTokenizer(Words(), VIDEO)
    tokenizer("two words", grids=[])
    tagged = tokenizer("a <video> <video> <video> <video> b <video> <video>", grids=[(2, 2), (1, 2)])
    assert tagged.tokens_of(0) == [3, 4, 5, 6]
    assert tagged.tokens_of(0, 1) == [5, 6]
    assert tagged.tokens_of(1, 0) == [8, 9]
    assert tagged.tokens_of(2) == []


@pytest.mark.parametrize("shape", [list, tuple, np.array, lambda ids: [ids], lambda ids: np.array([ids])], ids=range(5))
def test_one_sequence_in_any_container(shape: Callable[[list[int]], Any]) -> None:
    tagged = FrameAwareTokenizer(Words(shape), VIDEO)("<video> a", grids=[(1, 1)])
    assert tagged.input_ids == [VIDEO, 1]
    assert tagged.patches == [Patch(0, 0, 0), None]


def test_grids_of_the_processor_are_merged() -> None:
    words = Words(video_grid_thw=np.array([[2, 4, 2], [1, 2, 4]]))
    tagged = FrameAwareTokenizer(words, VIDEO, merge_size=2)(" ".join(["<video>"] * 6))
    assert tagged.patches == [
        Patch(0, 0, 0), Patch(0, 1, 0), Patch(1, 0, 0), Patch(1, 1, 0), Patch(2, 0, 0), Patch(2, 0, 1),
    ]  # fmt: skip


def test_everything_else_is_the_wrapped_tokenizers() -> None:
    tokenizer = FrameAwareTokenizer(Words(), VIDEO)
    assert tokenizer.unk_token == "?"
    with pytest.raises(AttributeError, match="no_such"):
        _ = tokenizer.no_such


def test_what_does_not_fit_is_told_and_not_counted() -> None:
    tokenizer = FrameAwareTokenizer(Words(), VIDEO)
    for text, grids, message in (
        ("<video> <video>", [(1, 1)], r"2 visual tokens, but the grids of 1 frames have 1 \(1\)"),
        ("a", [(2, 2), (1, 3)], r"0 visual tokens, but the grids of 2 frames have 7 \(4 \+ 3\)"),
        ("<video>", None, r"1 visual tokens, but the grids of 0 frames have 0 \(none\)"),
        ("<video>", [(0, 4)], "a grid must have at least a row and a column, not 0 x 4"),
    ):
        with pytest.raises(ValueError, match=message):
            tokenizer(text, grids=grids)
    assert (tokenizer.frames, tokenizer.tokens) == (0, 0)
    with pytest.raises(ValueError, match="input_ids must be of one sequence, not 2"):
        FrameAwareTokenizer(Words(lambda ids: [ids, ids]), VIDEO)("a", grids=[])
    with pytest.raises(ValueError, match="3 x 2 patches cannot be merged by 2"):
        FrameAwareTokenizer(Words(image_grid_thw=[[1, 3, 2]]), VIDEO, merge_size=2)("<video>")
    with pytest.raises(ValueError, match="pictures and clips in one call"):
        FrameAwareTokenizer(Words(image_grid_thw=[[1, 1, 1]], video_grid_thw=[[1, 1, 1]]), VIDEO)("<video>")


def test_placeholders_that_are_none() -> None:
    with pytest.raises(ValueError, match="visual_token must be one the tokenizer knows, not '<image>'"):
        FrameAwareTokenizer(Words(), "<image>")
    with pytest.raises(ValueError, match="the tokenizer has no convert_tokens_to_ids"):
        FrameAwareTokenizer(lambda text: {"input_ids": []}, "<video>")
    with pytest.raises(ValueError, match="visual_token must name a placeholder"):
        FrameAwareTokenizer(Words(), [])
    with pytest.raises(ValueError, match="merge_size must be at least 1, not 0"):
        FrameAwareTokenizer(Words(), VIDEO, merge_size=0)
