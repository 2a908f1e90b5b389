"""Sums of clipped gradients: an example's norm without its gradient, where a layer allows that.

The gradient of a linear layer on a vector is an outer product, and that of an embedding has few
rows: both are clipped and added up without being written out ("ghost clipping"). A linear layer on
a sequence and a convolution take one batched product, all other parameters ``torch.func.vmap``.
The model sees one example at a time in every case. Proof: ``docs/privacy/deep_learning.md``, Lemmas
1 and 2. Sources: Goodfellow (2015); Li et al. (2022); Bu et al. (2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

Batch = tuple[torch.Tensor, torch.Tensor]
Named = dict[str, torch.Tensor]
Loss = Callable[[Any, torch.Tensor], torch.Tensor]  # of what a model puts out, and targets
_SMALLEST = 1e-140  # more than a norm can lose by squares below the range of doubles
_COLUMNS = 2**13  # entries of a gradient that are turned into doubles at once
_WORDS = 1024  # longest text whose words are compared with each other


class ClippedGradients:
    """Adds up the gradients of examples, each clipped to a norm.

    Parameters
    ----------
    model : torch.nn.Module
        A model that does not mix examples.
    loss : callable
        ``loss(outputs, targets)``, a number.
    trained : dict of str to torch.nn.Parameter
        Parameters of the model, in the order in which their gradients are written.
    clip : float
        Bound on the l2 norm of a gradient.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        trained: Mapping[str, torch.nn.Parameter],
        clip: float,
    ) -> None:
        self._model, self._loss, self._trained = model, loss, dict(trained)
        self._clip = clip
        self._size = sum(p.numel() for p in self._trained.values())
        self._plans: dict[object, dict[str, _Tap]] = {}

    def add(self, batch: Batch, size: int, memory: int, total: torch.Tensor) -> None:
        """Add the clipped gradients of a batch to `total`, d doubles.

        PyTorch always sees pieces of one length, so that the gradient of an example does not depend
        on how many others there are: examples that are missing count as empty.

        Parameters
        ----------
        batch : pair of tensors
            Inputs and targets, at most `size` of each.
        size : int
            Largest number of examples.
        memory : int
            Bytes for what is written out of the examples of a piece.
        total : tensor of float64, shape (d,)
            Where they are added.
        """
        inputs, targets = batch
        if not len(inputs):
            return
        # The shapes are those of one example: the form of its gradients may depend on nothing else.
        taps = self._taps(inputs[:1], targets[:1])
        entries = sum(p.numel() for p in self._others(taps).values())
        entries += sum(tap.entries for tap in taps.values())
        piece = min(size, max(1, memory // (16 * entries)))
        for start in range(0, len(inputs), piece):
            part = slice(start, start + piece)
            self._add_piece(inputs[part], targets[part], piece, taps, total)

    def _add_piece(
        self,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        size: int,
        taps: dict[str, _Tap],
        total: torch.Tensor,
    ) -> None:
        """Add the clipped gradients of a piece.

        Norms are computed in doubles. A slightly smaller clipping norm makes up for their rounding.
        """
        count = len(inputs)
        gradients = self._gradients(_pad(inputs, size), _pad(targets, size), taps)
        norm = torch.linalg.vector_norm(torch.stack([g.norms() for g in gradients.values()]), dim=0)
        empty = ~torch.isfinite(norm)
        # The rows that only fill up the piece are copies of an example, and must add nothing.
        empty[count:] = True
        # The s of Lemma 1 in docs/privacy/deep_learning.md: 2^-51 is 4 u.
        room = self._clip * (1.0 - (self._size + 64.0) * 2.0**-51)
        factor = torch.clamp(room / norm, max=1.0)  # 1 for a gradient of zeros
        # The factor of a norm that is NaN is NaN, and would spoil the whole sum.
        factor = torch.where(empty, torch.zeros_like(factor), factor)
        # 0 times infinity is NaN, so that a factor of 0 is not enough.
        if bool(empty.any()):
            for gradient in gradients.values():
                gradient.clear(empty)
        start = 0
        for name, parameter in self._trained.items():
            end = start + parameter.numel()
            gradients[name].add(factor, total[start:end])
            start = end

    def _example_loss(self, parameters: Named, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the loss of one example; the model sees it and no other."""
        # Only parameters that are passed take gradients; all others are constants.
        held = {n: p.detach() for n, p in self._model.named_parameters()}
        held.update(self._model.named_buffers())
        held.update(parameters)
        outputs = functional_call(self._model, (held,), (x.unsqueeze(0),), strict=True)
        found = self._loss(outputs, y.unsqueeze(0))
        # With reduction="none" a loss would be a vector, and its gradient a sum of several.
        if found.numel() != 1:
            raise ValueError("the loss of one example must be one number: a mean or a sum")
        return found.reshape(())

    def _gradients(
        self, inputs: torch.Tensor, targets: torch.Tensor, taps: dict[str, _Tap]
    ) -> dict[str, _Gradients]:
        """Return the examples' gradients, by the name of the parameter.

        Zeros are added to the output of a tapped layer. The loss is differentiated with respect to
        these zeros, instead of with respect to the layer's parameters.
        """
        layers = {name: tap.layer for name, tap in taps.items()}
        zeros = {
            name: torch.zeros(tap.output, dtype=tap.layer.weight.dtype,
                              device=tap.layer.weight.device).expand(len(inputs), *tap.output)
            for name, tap in taps.items()
        }  # fmt: skip

        def tapped_loss(
            others: Named, zeros: Named, x: torch.Tensor, y: torch.Tensor
        ) -> tuple[torch.Tensor, Named]:
            seen: Named = {}

            def tap(name: str, value: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
                seen[name] = value
                return output + zeros[name]

            with _hooks(layers, tap):
                return self._example_loss(others, x, y), seen

        one = grad(tapped_loss, argnums=(0, 1), has_aux=True)
        # Layers with dropout draw another mask for every example.
        each = vmap(one, in_dims=(None, 0, 0, 0), randomness="different")
        (written, slopes), seen = each(self._others(taps), zeros, inputs, targets)
        found: dict[str, _Gradients] = {n: _Written(_on_cpu(g)) for n, g in written.items()}
        for name, tap in taps.items():
            each_own = tap.gradients(_on_cpu(seen[name]), _on_cpu(slopes[name]))
            found.update({_join(name, own): own_gradients for own, own_gradients in each_own})
        return found

    def _others(self, taps: dict[str, _Tap]) -> Named:
        """Return the parameters whose gradients vmap computes."""
        tapped = {_join(name, own) for name, tap in taps.items() for own in tap.parameters}
        return {n: p for n, p in self._trained.items() if n not in tapped}

    def _taps(self, inputs: torch.Tensor, targets: torch.Tensor) -> dict[str, _Tap]:
        """Return `_find_taps` of examples of these shapes, found once."""
        key = (inputs.shape, targets.shape, self._model.training)
        if key not in self._plans:
            # The trial run may draw for dropout, and must not advance the caller's generator.
            with torch.random.fork_rng(devices=[]):
                self._plans[key] = self._find_taps(inputs[0], targets[0])
        return self._plans[key]

    def _find_taps(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, _Tap]:
        """Return the layers whose gradients follow from their input and the slope in their output.

        Such a layer is called once, nothing else uses its parameters, and nothing changes its
        input. Only the shapes of an example and the structure of the model decide this, not values.
        """
        layers = {n: m for n, m in self._model.named_modules() if self._may_be_tapped(n, m)}
        own = {name: self._own(name, layer) for name, layer in layers.items()}
        leaves = {
            _join(name, n): self._trained[_join(name, n)].detach().requires_grad_()
            for name, names in own.items() for n in names
        }  # fmt: skip
        calls: dict[str, list[tuple[torch.Tensor, int, torch.Size]]] = {n: [] for n in layers}

        def note(name: str, value: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
            calls[name].append((value, value._version, output.shape))
            # The layer's parameters get no gradient here, but its input still does.
            return output.detach() + (0.0 * value.sum() if value.requires_grad else 0.0)

        # The caller may have switched gradients off, as in an evaluation.
        with torch.enable_grad(), _hooks(layers, note):
            found = self._example_loss(leaves, x, y)
        if found.requires_grad:
            slopes = torch.autograd.grad(found, list(leaves.values()), allow_unused=True)
            used = {n for n, slope in zip(leaves, slopes, strict=True) if slope is not None}
        else:
            used = set()
        taps = {}
        for name, layer in layers.items():
            if len(calls[name]) == 1 and not used & {_join(name, n) for n in own[name]}:
                value, version, output = calls[name][0]
                # PyTorch counts changes in place: the product below would take the changed input.
                if value._version == version and _is_one_example(layer, value.shape):
                    taps[name] = _Tap(layer, own[name], value.shape, output)
        return taps

    def _own(self, name: str, layer: torch.nn.Module) -> tuple[str, ...]:
        """Return the names that a layer has for those of its parameters that are trained."""
        names = (n for n, _ in layer.named_parameters(recurse=False))
        return tuple(n for n in names if _join(name, n) in self._trained)

    def _may_be_tapped(self, name: str, layer: torch.nn.Module) -> bool:
        """Return whether a layer is of a kind, and used in a way, that `_find_taps` looks at."""
        # Weights that two layers share have one identity, and their gradient is a sum.
        everywhere = [id(p) for _, p in self._model.named_parameters(remove_duplicate=False)]
        own = self._own(name, layer)
        return (
            _has_product(layer)
            and "weight" in own
            and all(everywhere.count(id(self._trained[_join(name, n)])) == 1 for n in own)
            # The caller's hooks may change what a layer takes in or puts out.
            and not (layer._forward_hooks or layer._forward_pre_hooks)
        )


@dataclass(frozen=True)
class _Tap:
    """A layer whose gradients follow from its input and the slope of the loss in its output."""

    layer: torch.nn.Module
    parameters: tuple[str, ...]
    input: torch.Size
    output: torch.Size

    @property
    def entries(self) -> int:
        """How many entries are written out for an example."""
        seen = int(self.input.numel() + self.output.numel())
        if isinstance(self.layer, nn.Embedding):
            return 2 * seen + int(self.input.numel()) ** 2 // 4
        if _is_vector(self.layer, self.output):
            return 2 * seen
        unfolded = 0
        if not isinstance(self.layer, nn.Linear):
            unfolded = int(self.output[2:].numel() * self.weight[0].numel())
        return seen + unfolded + int(self.weight.numel())

    @property
    def weight(self) -> torch.Tensor:
        """The layer's weight."""
        weight = self.layer.weight
        assert isinstance(weight, torch.Tensor)
        return weight

    def gradients(
        self, inputs: torch.Tensor, slopes: torch.Tensor
    ) -> Iterator[tuple[str, _Gradients]]:
        """Yield the examples' gradients by the layer's names of its parameters.

        Parameters
        ----------
        inputs, slopes : tensors, shapes (examples, ...)
            The layer's input, and the gradient of the loss with respect to its output.
        """
        examples = len(inputs)
        if isinstance(self.layer, nn.Embedding):
            words = inputs.reshape(examples, -1)
            rows = slopes.reshape(examples, words.shape[1], -1)
            # PyTorch gives the row of this word no gradient.
            if self.layer.padding_idx is not None:
                rows = rows.masked_fill((words == self.layer.padding_idx).unsqueeze(2), 0.0)
            yield "weight", _Rows(words, _add_equal_words(words, rows))
            return
        if isinstance(self.layer, nn.Linear):
            rows = slopes.reshape(examples, -1, slopes.shape[-1])
            columns = inputs.reshape(examples, -1, inputs.shape[-1])
        else:
            rows = slopes.reshape(examples, slopes.shape[2], -1).transpose(1, 2)
            columns = _unfold(self.layer, inputs.squeeze(1)).transpose(1, 2)
        # All other gradients are written out: products in a sum may cancel each other, and their
        # rounding would be larger than the sum (docs/privacy/deep_learning.md).
        if _is_vector(self.layer, self.output):
            if "bias" in self.parameters:
                yield "bias", _Written(rows[:, 0])
            yield "weight", _Outer(rows[:, 0].double(), columns[:, 0].double())
            return
        if "bias" in self.parameters:
            yield "bias", _Written(rows.sum(dim=1))
        yield "weight", _Written(torch.bmm(rows.transpose(1, 2), columns))


class _Written:
    """Gradients that are written out, shape (examples, ...)."""

    def __init__(self, values: torch.Tensor) -> None:
        self._values = values.flatten(1)

    def norms(self) -> torch.Tensor:
        """Return the norm of each, in doubles."""
        parts = [torch.linalg.vector_norm(part, dim=1) for part in self._in_doubles()]
        return torch.linalg.vector_norm(torch.stack(parts), dim=0)

    def clear(self, empty: torch.Tensor) -> None:
        """Set the gradients of some examples to zero: they may be infinite."""
        self._values = self._values.masked_fill(empty.unsqueeze(1), 0.0)

    def add(self, factor: torch.Tensor, total: torch.Tensor) -> None:
        """Add each, times its factor, to `total`, in doubles."""
        start = 0
        for part in self._in_doubles():
            end = start + part.shape[1]
            total[start:end] += factor @ part
            start = end

    def _in_doubles(self) -> Iterator[torch.Tensor]:
        """Yield some entries of all examples, as doubles in memory that the next ones reuse."""
        examples, entries = self._values.shape
        memory = torch.empty(examples, min(entries, _COLUMNS), dtype=torch.float64)
        for part in self._values.split(_COLUMNS, dim=1):
            yield memory[:, : part.shape[1]].copy_(part)


class _Outer:
    """Outer products of two vectors, in doubles, shapes (examples, p) and (examples, q)."""

    def __init__(self, rows: torch.Tensor, columns: torch.Tensor) -> None:
        self._rows, self._columns = rows, columns

    def norms(self) -> torch.Tensor:
        """Return the norm of each: the product of two norms."""
        # Enlarged, as squares below the range of doubles are lost and the other factor may be large
        # (Lemma 1).
        one, other = (torch.linalg.vector_norm(x, dim=1) for x in (self._rows, self._columns))
        return (one + _SMALLEST) * (other + _SMALLEST)

    def clear(self, empty: torch.Tensor) -> None:
        """Set the gradients of some examples to zero: they may be infinite."""
        self._rows = self._rows.masked_fill(empty.unsqueeze(1), 0.0)
        self._columns = self._columns.masked_fill(empty.unsqueeze(1), 0.0)

    def add(self, factor: torch.Tensor, total: torch.Tensor) -> None:
        """Add each, times its factor, to `total`."""
        shape = self._rows.shape[1], self._columns.shape[1]
        total.view(shape).addmm_((self._rows * factor.unsqueeze(1)).T, self._columns)


class _Rows:
    """Gradients that are zero except in some rows, shapes (examples, L) and (examples, L, q).

    No two rows of an example have the same number, except rows of zeros.
    """

    def __init__(self, numbers: torch.Tensor, rows: torch.Tensor) -> None:
        self._numbers, self._rows = numbers, rows.double()

    def norms(self) -> torch.Tensor:
        """Return the norm of each."""
        return torch.linalg.vector_norm(self._rows.flatten(1), dim=1)

    def clear(self, empty: torch.Tensor) -> None:
        """Set the gradients of some examples to zero: they may be infinite."""
        self._rows = self._rows.masked_fill(empty.view(-1, 1, 1), 0.0)

    def add(self, factor: torch.Tensor, total: torch.Tensor) -> None:
        """Add each, times its factor, to `total`."""
        rows = (self._rows * factor.view(-1, 1, 1)).flatten(0, 1)
        total.view(-1, rows.shape[1]).index_add_(0, self._numbers.flatten(), rows)


_Gradients = _Written | _Outer | _Rows


def _add_equal_words(words: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of a word's rows in the place where it comes first, zeros in all others."""
    equal = words.unsqueeze(2) == words.unsqueeze(1)
    first = ~equal.tril(-1).any(dim=2)
    return torch.bmm((equal & first.unsqueeze(2)).to(rows.dtype), rows)


def _has_product(layer: torch.nn.Module) -> bool:
    """Return whether the gradients of a layer are products that are known here."""
    # Exact types: a derived class may compute something else.
    if type(layer) is nn.Embedding:
        # Sparse gradients have another form; the other options scale rows by how often words come,
        # or change the weight itself.
        return not (layer.sparse or layer.scale_grad_by_freq) and layer.max_norm is None
    if type(layer) in (nn.Conv1d, nn.Conv2d):
        assert isinstance(layer, nn.Conv1d | nn.Conv2d)
        plain = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        return plain and layer.groups == 1
    return type(layer) is nn.Linear


def _is_one_example(layer: torch.nn.Module, shape: torch.Size) -> bool:
    """Return whether an example has the shape that a layer of this kind expects."""
    if isinstance(layer, nn.Embedding):
        return 0 < int(shape.numel()) <= _WORDS
    if isinstance(layer, nn.Linear):
        return int(shape.numel()) > 0
    return len(shape) == (3 if isinstance(layer, nn.Conv1d) else 4) and int(shape[0]) == 1


def _is_vector(layer: torch.nn.Module, output: torch.Size) -> bool:
    """Return whether a layer is used in one place only, so that its gradient is of rank one."""
    places = output[:-1] if isinstance(layer, nn.Linear) else output[2:]
    return int(places.numel()) == 1


def _unfold(layer: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Return the factors of a convolution's weights, shape (examples, entries, places)."""
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)
    size, dilation, padding, stride = (
        (1, *x) if isinstance(layer, nn.Conv1d) else x
        for x in (layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    )
    if isinstance(layer, nn.Conv1d):
        inputs, padding = inputs.unsqueeze(2), (0, *layer.padding)
    return nn.functional.unfold(inputs, size, dilation=dilation, padding=padding, stride=stride)


@contextmanager
def _hooks(
    layers: Mapping[str, torch.nn.Module],
    watch: Callable[[str, torch.Tensor, torch.Tensor], torch.Tensor],
) -> Iterator[None]:
    """Let `watch` see a layer's name, input and output, and change the output."""

    def hook(name: str) -> Callable[..., torch.Tensor]:
        def watch_output(
            layer: object, given: tuple[torch.Tensor, ...], named: Named, output: torch.Tensor
        ) -> torch.Tensor:
            # An interrupt may leave a hook behind, which must not change what the model computes.
            if not watching:
                return output
            return watch(name, given[0] if given else named["input"], output)

        return watch_output

    watching, handles = True, []
    try:
        for name, layer in layers.items():
            handles.append(layer.register_forward_hook(hook(name), with_kwargs=True))
        yield
    finally:
        watching = False
        for handle in handles:
            handle.remove()


def _join(layer: str, name: str) -> str:
    """Return a parameter's name in the model; the model itself may be the layer."""
    return f"{layer}.{name}" if layer else name


def _on_cpu(values: torch.Tensor) -> torch.Tensor:
    """Return values without their history, where sums in doubles are made."""
    return values.detach().cpu()


def _pad(values: torch.Tensor, size: int) -> torch.Tensor:
    """Return `size` rows: the given ones, followed by copies of the first one."""
    # Every model can read a copy of an example; it might fail on zeros.
    return torch.cat([values, values[:1].expand(size - len(values), *values.shape[1:])])
