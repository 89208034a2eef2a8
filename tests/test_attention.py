"""Attention over a stream's cache in torch: to the bit with everything retrieved; and over nothing else than what is
selected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch: pip install -e '.[torch]'")

from torch.nn import functional  # noqa: E402

from kv_asu.params import Params  # noqa: E402
from kv_asu_firmware.dma import ORIN_NX_DRAM  # noqa: E402
from vrex.attention.fidelity import Call, exact, fidelity, fidelity_curve, relative_error  # noqa: E402
from vrex.attention.sdpa import scaled_dot_product_attention  # noqa: E402
from vrex.attention.selection import Attend, AttentionShare, TokenBudget, attend_selected, choose  # noqa: E402
from vrex.attention.stream import DTYPES, AttentionError, AttentionStream  # noqa: E402
from vrex.errors import DeviceGoneError, KvCacheFull  # noqa: E402
from vrex.runtime.cache import MIB  # noqa: E402
from vrex.trace.address_map import LINE_BYTES, AddressMap  # noqa: E402
from vrex.trace.maker import chosen_tokens  # noqa: E402
from vrex.transports.model import ModelTransport  # noqa: E402

Tensor = Any

LAYERS, KV_HEADS, HEADS, HEAD_SIZE, MOST = 2, 2, 6, 16, 64


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors wait for their threads only
    yield
    torch.set_num_threads(threads)


def small_stream(dtype: str = "fp32", lines: int = 400, **options: Any) -> AttentionStream:
    kv = AddressMap(LAYERS, KV_HEADS, HEAD_SIZE, MOST, dtype)
    options = {"bus": ModelTransport(Params(log2_entries=6, window=8)), "dma": ORIN_NX_DRAM, **options}
    return AttentionStream(kv, reserve_mb=lines * LINE_BYTES / MIB, **options)


def random(rng: np.random.Generator, dtype: str, *shape: int, size: float = 1) -> Tensor:
    return torch.from_numpy(size * rng.standard_normal(shape)).to(DTYPES[dtype])


def causal(queries: int, tokens: int) -> Tensor:
    """The mask of the last queries of a stream."""
    return torch.arange(tokens) <= torch.arange(tokens - queries, tokens)[:, None]


def written(stream: AttentionStream, rng: np.random.Generator, dtype: str, tokens: int, layer: int = 0) -> None:
    stream.write(layer, *(random(rng, dtype, 1, KV_HEADS, tokens, HEAD_SIZE) for _ in range(2)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("heads", [KV_HEADS, HEADS])
def test_with_everything_retrieved_it_is_torchs_to_the_bit(dtype: str, heads: int) -> None:
    rng = np.random.default_rng(1)
    stream = small_stream(dtype, lines=60 * AddressMap(1, 1, HEAD_SIZE, 1, dtype).bytes_per_token // LINE_BYTES)
    past: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(LAYERS)]
    for new in (17, 1, 1, 5, 1, 9):  # a prefill, decoding, left-over lengths
        for layer in range(LAYERS):
            query = random(rng, dtype, 1, heads, new, HEAD_SIZE)
            key, value = (random(rng, dtype, 1, KV_HEADS, new, HEAD_SIZE) for _ in range(2))
            past[layer].append((key, value))
            keys, values = (torch.cat(tensors, dim=2) for tensors in zip(*past[layer], strict=True))
            options: dict[str, Any] = {"enable_gqa": heads != KV_HEADS}
            if len(past[layer]) == 1:
                options["is_causal"] = True
            elif new > 1:
                options["attn_mask"] = causal(new, keys.shape[2])
            got = scaled_dot_product_attention(query, key, value, **options, stream=stream, layer=layer)
            wanted = functional.scaled_dot_product_attention(query, keys, values, **options)
            assert got.dtype == wanted.dtype
            assert torch.equal(got, wanted)
            assert torch.equal(stream.far(layer)[1], values)
    stream.cache.end_frame()
    assert (
        stream.cache.totals.counted["moved"] > 0
    )  # near memory is far less than the stream: lines went, and came back


def by_hand(attend: Attend, values: Tensor, chosen: Tensor) -> Tensor:
    """Attention in float64 over chosen tokens, of one tile."""
    groups = attend.query.shape[1] // attend.kv_heads
    keys, values = (t[0].double().repeat_interleave(groups, dim=0) for t in (attend.keys, values))
    logits = attend.query[0].double() @ keys.transpose(1, 2) * attend.query.shape[-1] ** -0.5
    if attend.mask is not None:
        logits = logits.masked_fill(~attend.mask, -torch.inf)
    logits = logits.masked_fill(~chosen.repeat_interleave(groups, dim=0)[:, None], -torch.inf)
    return (logits.softmax(-1) @ values)[None]


def test_only_what_is_selected_takes_part() -> None:
    rng = np.random.default_rng(2)
    for queries, tokens in ((1, 30), (7, 30), (7, 7)):
        attend = Attend(
            random(rng, "fp32", 1, HEADS, queries, HEAD_SIZE, size=2),
            random(rng, "fp32", 1, KV_HEADS, tokens, HEAD_SIZE),
            causal(queries, tokens),
        )
        values = random(rng, "fp32", 1, KV_HEADS, tokens, HEAD_SIZE)
        reads: list[tuple[int, list[int]]] = []

        def read(head: int, wanted: Any, attend: Attend = attend, values: Tensor = values) -> tuple[Tensor, Tensor]:
            reads.append((head, wanted.tolist()))  # noqa: B023
            return attend.keys[0, head, wanted], values[0, head, wanted]

        for select in (AttentionShare(0.5), TokenBudget(3), AttentionShare(1.0)):
            reads.clear()
            got = attend_selected(attend, select, 0, read)
            chosen = choose(attend, select, 0, slice(0, queries))
            assert reads == [(head, chosen[head].nonzero()[:, 0].tolist()) for head in range(KV_HEADS)]
            assert relative_error(got, by_hand(attend, values, chosen)) < 1e-6
            assert chosen.all() == (select == AttentionShare(1.0))


def test_a_share_is_what_traces_are_made_of() -> None:
    rng = np.random.default_rng(3)
    query, keys = random(rng, "fp32", 1, 1, 20, HEAD_SIZE), random(rng, "fp32", 1, 1, 50, HEAD_SIZE)
    for share in (0.1, 0.5, 0.9):
        got = AttentionShare(share)(0, Attend(query, keys).weights(slice(0, 20))[:, 0])
        wanted = chosen_tokens(query[0, 0].numpy() * HEAD_SIZE**-0.5, keys[0, 0].numpy(), share)
        assert got[0].nonzero()[:, 0].tolist() == wanted.tolist()


def test_of_equally_heavy_tokens_the_earlier() -> None:
    weights = torch.full((1, 1, 10), 0.1)
    assert AttentionShare(0.45)(0, weights)[0].nonzero()[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert TokenBudget(2)(0, weights)[0].nonzero()[:, 0].tolist() == [0, 1]


def test_no_query_is_left_with_nothing_and_none_sees_the_future() -> None:
    rng = np.random.default_rng(4)
    queries = 12
    query, keys = (random(rng, "fp32", 1, heads, queries, HEAD_SIZE) for heads in (HEADS, KV_HEADS))
    one_hot = torch.eye(queries, HEAD_SIZE)  # an output says whose values are in it

    def read(head: int, tokens: Any) -> tuple[Tensor, Tensor]:
        return keys[0, head, tokens], one_hot[tokens]

    output = attend_selected(Attend(query, keys, is_causal=True), TokenBudget(1), 0, read)
    assert torch.allclose(output.sum(-1), torch.ones(1))
    assert (output.triu(1) == 0).all()
    mask = torch.ones(queries, queries, dtype=torch.bool)
    mask[5] = False  # as padding is
    for padding in (mask, torch.zeros(queries, queries).masked_fill(~mask, -torch.inf), mask.expand(1, HEADS, -1, -1)):
        output = attend_selected(Attend(query, keys, padding), AttentionShare(0.5), 0, read, tile=5)
        assert torch.allclose(output.sum(-1), 1 - torch.eye(queries)[5])


def test_a_stream_reads_what_is_selected_and_tells_what_moved() -> None:
    rng = np.random.default_rng(5)
    every, some = (small_stream("fp16", 24, select=select, prefetch_share=0.25) for select in (None, TokenBudget(2)))
    for _ in range(8):
        for layer in range(LAYERS):
            query = random(rng, "fp16", 1, HEADS, 4, HEAD_SIZE)
            key, value = (random(rng, "fp16", 1, KV_HEADS, 4, HEAD_SIZE) for _ in range(2))
            for stream in (every, some):
                scaled_dot_product_attention(query, key, value, enable_gqa=True, stream=stream, layer=layer)
    for stream in (every, some):
        stream.cache.end_frame()
        stream.cache.pass_time(10**9)
    of_every, of_some = (stream.cache.totals.counted for stream in (every, some))
    assert every.cache.totals.frames == some.cache.totals.frames == 8
    assert of_every["lines"] > 2 * of_some["lines"] > 0
    assert of_every["moved_bytes"] > of_some["moved_bytes"]
    for counted in (of_every, of_some):
        assert counted["moved"] == counted["lines"] - counted["hits"] + counted["prefetched"]
    assert of_every["prefetched"]
    assert every.cache.now_ns > 8 * 33_333_333 > 33_333_333


def test_a_selection_of_another_shape() -> None:
    rng = np.random.default_rng(6)
    stream = small_stream(select=lambda layer, weights: weights[:, 0] > 0.1)
    written(stream, rng, "fp32", 5)
    query = random(rng, "fp32", 1, HEADS, 1, HEAD_SIZE)
    stream.attend(0, Attend(query, stream.far(0)[0]))
    stream.select = lambda layer, weights: weights[:, 0]
    with pytest.raises(ValueError, match=r"a selection must be bool of shape \(2, 5\), not float32 of \(2, 5\)"):
        stream.attend(0, Attend(query, stream.far(0)[0]))


@pytest.mark.parametrize("select", [None, AttentionShare(0.5)], ids=["everything", "share"])
def test_an_error_takes_the_step_back(select: AttentionShare | None) -> None:
    rng = np.random.default_rng(7)
    bus = ModelTransport(Params(log2_entries=6, window=8))
    stream = small_stream(lines=40, select=select, bus=bus, prefetch_share=0)

    def step(new: int, spoil: str = "", heads: int = HEADS) -> list[Tensor]:
        outputs = []
        for layer in range(LAYERS):
            tensors = {
                "query": random(rng, "fp32", 1, heads, new, HEAD_SIZE),
                "key": random(rng, "fp32", 1, KV_HEADS, new, HEAD_SIZE),
                "value": random(rng, "fp32", 1, KV_HEADS, new, HEAD_SIZE),
            }
            if spoil and layer == 1:
                tensors[spoil][0, 1, new - 1, 3] = torch.nan
            outputs.append(scaled_dot_product_attention(**tensors, stream=stream, layer=layer, enable_gqa=True))
        return outputs

    def state() -> list[Any]:
        return [[tensor.clone() for tensor in stream.far(layer)] for layer in range(LAYERS)]

    def same(before: list[Any]) -> bool:
        pairs = (pair for layers in zip(before, state(), strict=True) for pair in zip(*layers, strict=True))
        return all(torch.equal(a, b) for a, b in pairs)

    step(6)
    before = state()
    for spoil in ("query", "key", "value"):
        what = "attention" if spoil == "query" and select is None else spoil
        with pytest.raises(AttentionError, match=f"{what} is NaN in layer 1, head 1, token 8: the step is taken back"):
            step(3, spoil)
        assert same(before)
    with pytest.raises(KvCacheFull, match=r"46 lines need a place, .* of 40 are free"):
        step(50)
    assert same(before)
    with pytest.raises(KvCacheFull, match="layer 0 holds 6 tokens of at most 64, no room for 59 more"):
        step(59)
    assert same(before)
    bus.power_good = False
    with pytest.raises(DeviceGoneError, match="not active"):
        step(1)
    assert same(before)
    bus.power_good = True
    bus.idle(1000)
    with pytest.raises(ValueError, match="query must have a multiple of 2 heads, not 3"):
        step(1, heads=3)
    assert same(before)
    step(2)
    assert not same(before)
    assert stream.tokens(1) == 8
    stream.rewind()
    assert same(before)
    assert stream.tokens(0) == stream.tokens(1) == 6
    stream.rewind(2)
    step(1)
    assert stream.tokens(1) == 3
    for layer in range(LAYERS):
        for near, far, kept in zip(stream.read_all(layer), stream.far(layer), before[layer], strict=True):
            assert torch.equal(near, far)
            assert torch.equal(near[:, :, :2], kept[:, :, :2])


def test_wrong_arguments() -> None:
    rng = np.random.default_rng(8)
    stream = small_stream()
    good = {
        "query": (1, KV_HEADS, 2, HEAD_SIZE),
        "key": (1, KV_HEADS, 2, HEAD_SIZE),
        "value": (1, KV_HEADS, 2, HEAD_SIZE),
    }

    def call(layer: int = 0, **others: Any) -> None:
        tensors = {name: random(rng, "fp32", *shape) for name, shape in good.items()}
        scaled_dot_product_attention(**{**tensors, **others}, stream=stream, layer=layer)

    other = random(rng, "fp32", 2, KV_HEADS, 2, HEAD_SIZE)
    one = other[:1]
    for others, error, message in (
        ({"layer": 2}, ValueError, "layer must be 0 to 1, not 2"),
        ({"query": None}, TypeError, "query must be a torch.Tensor, not NoneType"),
        ({"query": one[0]}, ValueError, r"query must have shape \(1, heads, tokens, 16\), not \(2, 2, 16\)"),
        ({"query": one.repeat(1, 3, 1, 1)}, ValueError, "query must have 2 heads, not 6: set enable_gqa"),
        ({"query": other}, ValueError, "query must be of batch 1, not 2: a cache holds one stream"),
        ({"key": None}, TypeError, "keys must be a torch.Tensor, not NoneType"),
        ({"key": one[..., :8]}, ValueError, r"keys must have shape \(1, heads, tokens, 16\), not \(1, 2, 2, 8\)"),
        ({"key": one[:, :1]}, ValueError, "keys must have 2 heads, not 1"),
        ({"value": one[:, :, :1]}, ValueError, "values must have the shape of keys"),
        ({"value": one.half()}, TypeError, "values must be fp32, as the cache is, not float16"),
        ({"key": one.to("meta")}, ValueError, "keys must be on the cpu, as the cache is, not on meta"),
        ({"key": one.clone().requires_grad_()}, ValueError, "keys must carry no gradients: run the model under"),
        ({"attn_mask": torch.ones(2, 3)}, ValueError, "attn_mask must have a column for each of 2 tokens, not 3"),
        ({"attn_mask": torch.ones(2, 2), "is_causal": True}, ValueError, "attn_mask and is_causal exclude each other"),
    ):  # fmt: skip
        with pytest.raises(error, match=message) as caught:
            call(**others)
        assert "\n" not in str(caught.value)
        assert stream.tokens() == 0
    call()
    with pytest.raises(ValueError, match="tile must be at least 1, not 0"):
        small_stream(tile=0)
    with pytest.raises(ValueError, match=r"share must be over 0 and at most 1, not 1\.5"):
        AttentionShare(1.5)
    with pytest.raises(ValueError, match="tokens must be at least 1, not 0"):
        TokenBudget(0)
    with pytest.raises(ValueError, match="tokens must be 0 to 2, not 3"):
        stream.cache.rewind(0, 3)


def test_more_share_is_less_error_and_more_bytes() -> None:
    rng = np.random.default_rng(9)
    calls = [
        Call(
            layer,
            Attend(
                random(rng, "fp16", 1, HEADS, 40, HEAD_SIZE, size=2),
                random(rng, "fp16", 1, KV_HEADS, 40, HEAD_SIZE),
                is_causal=True,
            ),
            random(rng, "fp16", 1, KV_HEADS, 40, HEAD_SIZE),
        )
        for layer in range(2)
    ]
    points = fidelity_curve(calls, (0.3, 0.6, 0.9, 1.0), tile=8)
    assert [point.error for point in points] == sorted((point.error for point in points), reverse=True)
    assert [point.read_bytes for point in points] == sorted(point.read_bytes for point in points)
    assert points[-1].error < 1e-6 < points[-2].error
    assert points[-1].saved == 0 < points[-2].saved
    # 2 layers, 2 heads, tiles of 8 that see 8, 16, ... 40 tokens, of 16 + 16 elements of 2 bytes
    assert points[-1].whole_bytes == 2 * 2 * sum(range(8, 48, 8)) * 64
    assert set(points[0].layer_errors) == {0, 1}
    assert fidelity([], TokenBudget(1)).saved == 0
    call = calls[0]
    assert relative_error(exact(call), exact(call)) == 0
    halved = Call(call.layer, call.attend, call.values / 2)
    assert relative_error(exact(halved), exact(call)) == pytest.approx(0.5, rel=1e-3)
