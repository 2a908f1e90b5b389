"""Clipped sums against one backward pass an example, for all ways in which norms are computed."""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np
import pytest
from tests.late import Late

torch, nn = Late("torch"), Late("torch.nn")
gradients = Late("dpoco.adapters._clipped_gradients", needs="torch")
pytestmark = pytest.mark.usefixtures("one_thread")
CLIP, EXAMPLES = 0.5, 6


def Model(compute, **layers):
    """Return layers, and what is computed with them."""

    class Layers(nn.Module):
        def forward(self, x):
            return compute(self, x).flatten(1)

    model = Layers()
    for name, layer in layers.items():
        model.add_module(name, layer)
    return model


def in_place(own, x):
    y = own.one(x)
    z = x * 1.0
    out = own.two(z)
    z += 1.0  # the input of the layer is not what it was
    return y + out


def texts(size=11, length=7):
    return torch.randint(0, size, (EXAMPLES, length), generator=torch.Generator().manual_seed(1))


def numbers(*shape):
    return torch.randn(EXAMPLES, *shape, generator=torch.Generator().manual_seed(2))


def normed():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    return Model(lambda own, x: own.one(x), one=layer)


def tied():
    model = Model(lambda own, x: own.two(own.one(x).tanh()), one=nn.Linear(4, 4),
                  two=nn.Linear(4, 4))  # fmt: skip
    model.two.weight = model.one.weight
    return model


def hooked():
    layer = nn.Linear(4, 3)
    layer.register_forward_hook(lambda layer, x, y: 2.0 * y)
    return Model(lambda own, x: own.one(x), one=layer)


def frozen():
    model = Model(lambda own, x: own.two(own.one(x).tanh()), one=nn.Linear(4, 4),
                  two=nn.Linear(4, 3))  # fmt: skip
    model.one.bias.requires_grad_(False)
    model.two.weight.requires_grad_(False)
    return model


# Model, inputs, and which layers are tapped.
CASES = {
    "vectors": (lambda: Model(lambda o, x: o.two(o.one(x).tanh()), one=nn.Linear(4, 5),
                              two=nn.Linear(5, 3, bias=False)), partial(numbers, 4), "one two"),
    "one layer alone": (lambda: nn.Linear(4, 3), partial(numbers, 4), "-"),
    "sequences": (lambda: Model(lambda o, x: o.two(o.one(x).tanh()).mean(1), one=nn.Linear(4, 5),
                                two=nn.Linear(5, 3)), partial(numbers, 6, 4), "one two"),
    "batch and places flattened": (lambda: Model(lambda o, x: o.one(x.reshape(-1, 4)).reshape(
        len(x), -1, 3).mean(1), one=nn.Linear(4, 3)), partial(numbers, 6, 4), "one"),
    "images": (lambda: Model(lambda o, x: o.two(o.one(x).relu()).mean((2, 3)),
                             one=nn.Conv2d(2, 4, 3, stride=2, padding=(1, 2)),
                             two=nn.Conv2d(4, 3, (1, 2), dilation=2, bias=False)),
               partial(numbers, 2, 8, 9), "one two"),
    "one place of an image": (lambda: Model(lambda o, x: o.one(x), one=nn.Conv2d(2, 3, 5)),
                              partial(numbers, 2, 5, 5), "one"),
    "signals": (lambda: Model(lambda o, x: o.one(x).mean(2), one=nn.Conv1d(2, 3, 4, stride=3,
                              padding=2, dilation=2)), partial(numbers, 2, 20), "one"),
    "groups": (lambda: Model(lambda o, x: o.one(x).mean(2), one=nn.Conv1d(2, 4, 4, groups=2)),
               partial(numbers, 2, 20), ""),
    "reflected": (lambda: Model(lambda o, x: o.one(x).mean(2), one=nn.Conv1d(
        2, 4, 3, padding=1, padding_mode="reflect")), partial(numbers, 2, 20), ""),
    "texts": (lambda: Model(lambda o, x: o.two(o.one(x).mean(1)), one=nn.Embedding(11, 4),
                            two=nn.Linear(4, 3)), texts, "one two"),
    "padded texts": (lambda: Model(lambda o, x: o.one(x).mean(1), one=nn.Embedding(
        11, 4, padding_idx=3)), texts, "one"),
    "norms of layers": (lambda: Model(lambda o, x: o.two(o.one(x)), one=nn.LayerNorm(4),
                                      two=nn.Linear(4, 3)), partial(numbers, 4), "two"),
    "a mean over the batch": (lambda: Model(lambda o, x: o.one(x - x.mean(0) + 1.0),
                                            one=nn.Linear(4, 3)), partial(numbers, 4), "one"),
    "a layer twice": (lambda: Model(lambda o, x: o.one(o.one(x).tanh()), one=nn.Linear(4, 4)),
                      partial(numbers, 4), ""),
    "a layer that nothing calls": (lambda: Model(lambda o, x: o.two(x), one=nn.Linear(4, 4),
                                                 two=nn.Linear(4, 3)), partial(numbers, 4), "two"),
    "a weight in two layers": (tied, partial(numbers, 4), ""),
    "a weight that is used elsewhere": (lambda: Model(
        lambda o, x: nn.functional.linear(o.two(o.one(x).mean(1)), o.one.weight),
        one=nn.Embedding(11, 4), two=nn.Linear(4, 4)), texts, "two"),
    "a weight that is computed": (normed, partial(numbers, 4), ""),
    "a layer with a hook": (hooked, partial(numbers, 4), ""),
    "frozen parameters": (frozen, partial(numbers, 4), "one"),
    "an argument by name": (lambda: Model(lambda o, x: o.one(input=x), one=nn.Linear(4, 3)),
                            partial(numbers, 4), "one"),
}  # fmt: skip


def prepared(case):
    make, inputs, tapped = CASES[case]
    torch.manual_seed(0)
    return make(), inputs(), tapped.replace("-", "").split() if tapped != "-" else [""]


def loss(outputs, targets):
    return (outputs.sin() * torch.arange(1.0, outputs.shape[1] + 1)).sum(dim=1).mean() * targets[0]


def by_hand(model, inputs, targets, clip=CLIP):
    total = 0.0
    for x, y in zip(inputs, targets, strict=True):
        model.zero_grad()
        loss(model(x[None]), y[None]).backward()
        own = np.concatenate([
            (torch.zeros_like(p) if p.grad is None else p.grad).flatten().double().numpy()
            for p in model.parameters() if p.requires_grad
        ])  # fmt: skip
        total = total + own * min(1.0, clip / max(np.linalg.norm(own), 1e-300))
    return total


def clipped(model, clip=CLIP):
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    return gradients.ClippedGradients(model, loss, trained, clip)


def summed(own, inputs, targets, memory=2**28, size=EXAMPLES):
    total = torch.zeros(own._size, dtype=torch.float64)
    own.add((inputs, targets), size, memory, total)
    return total.numpy()


@cache
def targets():
    return torch.tensor([0.01, 1.0, -3.0, 0.2, 0.05, 10.0])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
@pytest.mark.parametrize("memory", [1, 2**28])
def test_clipped_sums_are_those_of_one_backward_pass_an_example(case, double, memory):
    model, inputs, tapped = prepared(case)
    wanted = targets().double() if double else targets()
    if double:
        model = model.double()
        inputs = inputs.double() if inputs.is_floating_point() else inputs
    own = clipped(model)
    found = summed(own, inputs, wanted, memory)
    slack = 1e-11 if double else 2e-5
    np.testing.assert_allclose(found, by_hand(model, inputs, wanted), rtol=slack, atol=slack / 10)
    assert [name for plan in own._plans.values() for name in plan] == tapped


def longest(case, scale=1.0):
    """The exact norm of the longest of some examples, each alone in its batch."""
    model, inputs, _ = prepared(case)
    own = clipped(model)
    totals = (summed(own, x[None], y[None] * scale, size=1)
              for x, y in zip(inputs, targets(), strict=True))  # fmt: skip
    return max(math.sqrt(math.fsum(v * v for v in total.tolist())) for total in totals)


@pytest.mark.parametrize("case", ["vectors", "sequences", "images", "texts", "padded texts"])
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e20])
def test_no_gradient_is_longer_than_the_bound_not_even_by_rounding(case, scale):
    assert CLIP * (1 - 1e-12) <= longest(case, scale) <= CLIP


def test_an_input_that_changes_behind_a_layer_is_refused_as_by_pytorch():
    model = Model(in_place, one=nn.Linear(4, 3), two=nn.Linear(4, 3))
    with pytest.raises(RuntimeError, match="inplace"):
        by_hand(model, numbers(4), targets())
    with pytest.raises(RuntimeError, match="inplace"):
        summed(clipped(model), numbers(4), targets())


def forget_the_output(self):
    return torch.linalg.vector_norm(self._columns, dim=1)


@pytest.mark.parametrize(
    ("case", "where", "bug"),
    [
        ("vectors", "_Outer.norms", forget_the_output),
        ("texts", "_add_equal_words", lambda words, rows: rows),
        ("sequences", "_Written.norms", lambda self: torch.zeros(len(self._values)).double()),
    ],
)
def test_planted_bugs_in_norms_are_seen(monkeypatch, case, where, bug):
    monkeypatch.setattr(f"dpoco.adapters._clipped_gradients.{where}", bug)
    assert longest(case) > CLIP * 1.01


def test_examples_that_are_not_finite_count_as_empty_in_every_kind_of_layer():
    for case in ("vectors", "sequences", "images"):
        model, inputs, _ = prepared(case)
        inputs[2].view(-1)[0] = math.nan
        inputs[4] *= math.inf
        kept = [0, 1, 3, 5]
        found = summed(clipped(model), inputs, targets())
        expected = by_hand(model, inputs[kept], targets()[kept])
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    model, words, _ = prepared("texts")
    scaled = targets().clone()
    scaled[2] = math.nan
    kept = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(summed(clipped(model), words, scaled),
                               by_hand(model, words[kept], targets()[kept]),
                               rtol=2e-5, atol=2e-6)  # fmt: skip


def test_gradients_are_finite_where_squares_leave_the_range_of_doubles():
    """A norm below the range of squares is not taken for zero: the other factor may be large."""
    model, inputs, _ = prepared("one layer alone")
    model, inputs = model.double(), inputs.double() * 1e-170
    own = clipped(model)
    for scale in (1e170, 1e175):
        total = summed(own, inputs, targets().double() * scale)
        assert np.linalg.norm(total) <= CLIP * EXAMPLES


def test_an_example_alone_or_among_others_has_the_same_gradient():
    """The noise hides one gradient, and not what it does to the arithmetic of others."""
    model, inputs, _ = prepared("images")
    own = clipped(model)
    alone = [summed(own, x[None], y[None]) for x, y in zip(inputs, targets(), strict=True)]
    together = summed(own, inputs, targets())
    np.testing.assert_allclose(sum(alone), together, rtol=1e-12, atol=1e-15)


def test_looking_for_layers_draws_nothing():
    torch.manual_seed(3)
    model = Model(lambda o, x: o.two(o.drop(o.one(x))), one=nn.Linear(4, 5), drop=nn.Dropout(0.5),
                  two=nn.Linear(5, 3))  # fmt: skip
    own = clipped(model)
    own._taps(numbers(4)[:1], targets()[:1])
    state = torch.get_rng_state()
    summed(own, numbers(4), targets())
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    summed(clipped(model), numbers(4), targets())
    assert torch.equal(torch.get_rng_state(), after)
