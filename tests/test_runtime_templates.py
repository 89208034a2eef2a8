"""Address templates: coefficients of access expressions, the kernel's order, bursts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrex.runtime.policy import Predictors, RetrievalPolicy
from vrex.runtime.templates import ATTENTION_READ, Template, TemplateError, visit_order
from vrex.trace.address_map import LINE_BYTES, AddressMap


@given(
    layers=st.integers(1, 5),
    heads=st.integers(1, 5),
    head_size=st.sampled_from([8, 24, 64, 128, 160]),
    max_tokens=st.integers(1, 50),
    data=st.data(),
)
def test_the_template_is_the_address_map(
    layers: int, heads: int, head_size: int, max_tokens: int, data: st.DataObject
) -> None:
    kv = AddressMap(layers, heads, head_size, max_tokens)
    template = Template.of_attention(kv)
    layer, head, token = (data.draw(st.integers(0, size - 1)) for size in (layers, heads, max_tokens))
    assert int(template.address(layer=layer, head=head, token=token)) == int(kv.address(layer, head, token))
    tokens = np.array(data.draw(st.lists(st.integers(0, max_tokens - 1), min_size=1, unique=True)))
    bursts = template.bursts(kv.token_bytes, 4, layer=layer, head=head, token=tokens)
    lines = [line for first, count in bursts for line in range(first, first + count)]
    assert lines == np.unique(kv.lines(layer, head, tokens)).tolist()
    assert max(count for _, count in bursts) <= 4


def test_coefficients_by_hand() -> None:
    template = Template.of("2 * (a + 3) * 4 - b + c0 - 1", {"a": 5, "b": 7}, {"c0": 100})
    assert template == Template(123, ("a", "b"), (8, -1), (5, 7))
    assert template.address(a=[0, 1], b=2).tolist() == [121, 129]


def test_neighbours_make_one_burst() -> None:
    template = Template(0, ("token",), (LINE_BYTES,), (100,))
    assert template.bursts(LINE_BYTES, 16, token=[7, 5, 6, 20]) == [(5, 3), (20, 1)]
    assert template.bursts(LINE_BYTES, 2, token=[5, 6, 7]) == [(5, 2), (7, 1)]
    assert template.bursts(2 * LINE_BYTES, 16, token=[5]) == [(5, 2)]
    assert template.bursts(LINE_BYTES, 16, token=[]) == []


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("a * b", r"a \* b is not affine"),
        ("a * (b + 1)", "is not affine"),
        ("a // 2", "a // 2 is neither a number, a name"),
        ("f(a)", r"f\(a\) is neither"),
        ("a + x", "x is neither a loop's counter nor a constant"),
        ("a +", "cannot be read"),
        ("a * 0.5", "0.5 is neither"),
    ],
)
def test_what_has_no_template(expression: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        Template.of(expression, {"a": 5, "b": 7}, {})


def test_the_kernels_order() -> None:
    kv = AddressMap(layers=2, heads=3, head_size=64, max_tokens=10)
    assert visit_order(Template.of_attention(kv), kv).tolist() == [0, 1, 2, 3, 4, 5]
    constants = {"base": 0, "heads": 3, "max_tokens": 10, "bytes_per_token": 256}
    by_head = Template.of(ATTENTION_READ, {"head": 3, "layer": 2, "token": 10}, constants)
    assert visit_order(by_head, kv).tolist() == [0, 2, 4, 1, 3, 5]
    with pytest.raises(TemplateError, match="innermost loop"):
        visit_order(Template.of(ATTENTION_READ, {"layer": 2, "token": 10, "head": 3}, constants), kv)
    with pytest.raises(TemplateError, match="2 layers and 3 heads"):
        visit_order(Template.of(ATTENTION_READ, {"layer": 3, "head": 3, "token": 10}, constants), kv)


def test_the_policy_follows_the_kernels_order() -> None:
    kv = AddressMap(layers=2, heads=2, head_size=64, max_tokens=10)
    policy = RetrievalPolicy(kv, 1, Predictors(tlevels=False), order=np.array([0, 2, 1, 3]))
    for group in range(4):
        policy.write(group, 10 * group + np.arange(10))
    assert [policy.following(group) for group in (0, 2, 1, 3)] == [2, 1, 3, 0]
    policy.read(0, 0, 0, np.arange(10))
    worth = policy.worth.reshape(4, 10).mean(axis=1)
    assert worth[2] > worth[1] > worth[3] > worth[0]
