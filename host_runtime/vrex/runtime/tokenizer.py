"""`FrameAwareTokenizer`: which frame, and which patch of it, each visual token of a stream stands for.

A processor turns a frame into placeholder tokens, one a patch, in among the text's. Told how the patches of each frame
lie, or reading it from the processor's own output, this wrapper names them: so that retrieval can ask for a region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from vrex.trace.address_map import PatchGrid

if TYPE_CHECKING:
    from vrex.runtime.cache import DynamicRetrievalCache


class Patch(NamedTuple):
    """The place of a visual token. Row and column are -1 for one without: a class token, say, that leads its frame."""

    frame_id: int
    patch_row: int
    patch_col: int


@dataclass(frozen=True)
class TaggedTokens:
    """What a tokenizer gave, and where its visual tokens are.

    Parameters
    ----------
    encoding
        As the wrapped tokenizer gave it.
    input_ids : list of int
    patches : list of Patch or None
        Of each token; None for text.
    first_token : int
        The place of the first token in the stream.
    """

    encoding: Any
    input_ids: list[int]
    patches: list[Patch | None]
    first_token: int

    def tokens_of(self, frame_id: int, patch_row: int | None = None) -> list[int]:
        """Places in the stream of a frame's tokens, or of those of one of its rows of patches."""
        return [
            self.first_token + index
            for index, patch in enumerate(self.patches)
            if patch and patch.frame_id == frame_id and patch_row in (None, patch.patch_row)
        ]

    def prefetch(
        self, cache: DynamicRetrievalCache, frame_id: int, patch_row: int | None = None, min_tlevel: int = 2
    ) -> int:
        """Begin to bring a frame's tokens ahead, or those of one of its rows of patches, in all layers and heads.

        Row by row, so that a row that was hot in the frame before or after counts as one T-level hotter. Tokens that a
        layer does not hold yet are left out.

        Returns
        -------
        int
            Lines that are on their way now because of it.
        """
        rows = {patch.patch_row: patch for patch in self.patches if patch and patch.frame_id == frame_id}
        begun = 0
        for row, patch in rows.items():
            if patch_row not in (None, row):
                continue
            tokens = self.tokens_of(frame_id, row)
            for layer in range(cache.kv.layers):
                held = [token for token in tokens if token < cache.tokens(layer)]
                for head in range(cache.kv.heads):
                    begun += cache.prefetch(held, layer, head, min_tlevel, patch=patch) if held else 0
        return begun


class FrameAwareTokenizer:
    """Wraps a tokenizer or processor for one stream. Frames and tokens are numbered through all calls.

    Parameters
    ----------
    tokenizer : callable
        Gives a mapping with `input_ids`, of one sequence: a list, an array or a tensor, of shape (n,) or (1, n).
    visual_token : int, str, or several of them
        The placeholders of patches; text is looked up by the tokenizer's `convert_tokens_to_ids`.
    merge_size : int, optional
        Patches across that one token stands for, where the grid comes from the processor (`image_grid_thw`,
        `video_grid_thw`); that of its image processor unless given.

    Attributes
    ----------
    frames, tokens : int
        So far.

    Raises
    ------
    ValueError
        The tokenizer does not know a placeholder.

    Examples
    --------
    >>> ids = {"<video>": 9}
    >>> tokenizer = FrameAwareTokenizer(lambda text: {"input_ids": [ids.get(word, 1) for word in text.split()]}, 9)
    >>> tokenizer("see <video> <video> there", grids=[(1, 2)]).patches[1:3]
    [Patch(frame_id=0, patch_row=0, patch_col=0), Patch(frame_id=0, patch_row=0, patch_col=1)]
    """

    def __init__(
        self,
        tokenizer: Callable[..., Mapping[str, Any]],
        visual_token: int | str | Iterable[int | str],
        merge_size: int | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        several = [visual_token] if isinstance(visual_token, (int, str)) else list(visual_token)
        if not several:
            raise ValueError("visual_token must name a placeholder, not ()")
        self._visual = frozenset(self._id(token) for token in several)
        if merge_size is None:
            merge_size = getattr(getattr(tokenizer, "image_processor", None), "merge_size", 1)
        if merge_size < 1:
            raise ValueError(f"merge_size must be at least 1, not {merge_size!r}")
        self._merge_size = merge_size
        self.frames = 0
        self.tokens = 0

    def __call__(
        self, *args: Any, grids: Sequence[PatchGrid | tuple[int, int]] | None = None, **kwargs: Any
    ) -> TaggedTokens:
        """Tokenize, and say where each visual token is.

        Parameters
        ----------
        *args, **kwargs
            For the wrapped tokenizer.
        grids : sequence of PatchGrid or (rows, columns), optional
            How the patches of each frame lie, in order; each frame may have its own. Taken from the tokenizer's
            `image_grid_thw` or `video_grid_thw` unless given.

        Returns
        -------
        TaggedTokens

        Raises
        ------
        ValueError
            It is not one sequence, or its visual tokens are not as many as the grids have. Nothing is counted then.
        """
        encoding = self._tokenizer(*args, **kwargs)
        ids = _one_sequence(encoding["input_ids"])
        frames = self._grids(encoding) if grids is None else [_grid(grid) for grid in grids]
        places = [
            Patch(self.frames + number, row, column)
            for number, grid in enumerate(frames)
            for row, column in [(-1, -1)] * grid.leading
            + [(row, column) for row in range(grid.rows) for column in range(grid.columns)]
        ]
        visual = sum(token in self._visual for token in ids)
        if visual != len(places):
            sizes = " + ".join(str(grid.tokens_per_frame) for grid in frames) or "none"
            raise ValueError(
                f"{visual} visual tokens, but the grids of {len(frames)} frames have {len(places)} ({sizes}): "
                "give the grid of each frame, after merging"
            )
        following = iter(places)
        patches = [next(following) if token in self._visual else None for token in ids]
        tagged = TaggedTokens(encoding, ids, patches, self.tokens)
        self.frames += len(frames)
        self.tokens += len(ids)
        return tagged

    def __getattr__(self, name: str) -> Any:
        """Everything else is the wrapped tokenizer's."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        return getattr(self._tokenizer, name)

    def _id(self, token: int | str) -> int:
        if isinstance(token, int):
            return token
        to_ids = getattr(self._tokenizer, "convert_tokens_to_ids", None)
        if to_ids is None:  # a processor has a tokenizer inside
            to_ids = getattr(getattr(self._tokenizer, "tokenizer", None), "convert_tokens_to_ids", None)
        if to_ids is None:
            raise ValueError(
                f"visual_token must be a number, not {token!r}: the tokenizer has no convert_tokens_to_ids"
            )
        found = to_ids(token)
        unknown = getattr(self._tokenizer, "unk_token_id", None)
        if found is None or (found == unknown and token != getattr(self._tokenizer, "unk_token", None)):
            raise ValueError(f"visual_token must be one the tokenizer knows, not {token!r}")
        return int(found)

    def _grids(self, encoding: Mapping[str, Any]) -> list[PatchGrid]:
        """From the processor's output: of each picture or clip its frames, rows and columns before merging."""
        given = [name for name in ("image_grid_thw", "video_grid_thw") if encoding.get(name) is not None]
        if len(given) > 1:
            raise ValueError("pictures and clips in one call: give grids, in the order of their tokens")
        grids = []
        for frames, rows, columns in _lists(encoding[given[0]]) if given else ():
            if rows % self._merge_size or columns % self._merge_size:
                raise ValueError(f"{rows} x {columns} patches cannot be merged by {self._merge_size}: give merge_size")
            grids += [_grid((rows // self._merge_size, columns // self._merge_size))] * frames
        return grids


def _grid(grid: PatchGrid | tuple[int, int]) -> PatchGrid:
    if not isinstance(grid, PatchGrid):
        grid = PatchGrid(*grid)
    if grid.rows < 1 or grid.columns < 1 or grid.leading < 0:
        raise ValueError(f"a grid must have at least a row and a column, not {grid.rows} x {grid.columns}")
    return grid


def _lists(array: Any) -> list[Any]:
    """Nested lists of an array or a tensor, or as they are."""
    return array.tolist() if hasattr(array, "tolist") else list(array)


def _one_sequence(input_ids: Any) -> list[int]:
    ids = _lists(input_ids)
    if ids and isinstance(ids[0], (list, tuple)):
        if len(ids) != 1:
            raise ValueError(f"input_ids must be of one sequence, not {len(ids)}: a stream is one")
        ids = list(ids[0])
    return ids
