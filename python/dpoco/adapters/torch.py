"""Private training of PyTorch models: DP-FTRL with any optimiser (extra ``torch``).

A step clips the gradient of every example, adds them up, and puts the noisy sum where
``backward`` would put the gradient. All that an optimiser, a schedule or an average makes of noisy
gradients is post-processing. Guide: ``docs/deep_learning.md``; proof:
``docs/privacy/deep_learning.md``.
"""

from __future__ import annotations

import inspect
import io
import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

try:
    import torch
except ImportError:
    raise ImportError(
        'dpoco.adapters.torch needs PyTorch: pip install "dpoco[torch]"', name="torch"
    ) from None

from dpoco._encryption import EncryptionKey, given_key, refuse_readable
from dpoco._files import read_state, write_atomically
from dpoco._literals import Relation
from dpoco._validation import FloatArray, instance, positive_float, positive_int
from dpoco.accounting import Budget
from dpoco.adapters._clipped_gradients import Batch, ClippedGradients, Loss
from dpoco.adapters.gradients import NoisyGradients
from dpoco.errors import StateError
from dpoco.learning.participation import Participation
from dpoco.random import Source

__all__ = ["PrivateLoader", "PrivateTraining"]

_MEMORY = 2**26
# Conditions of a guarantee, besides those of the engine.
_IN_PYTHON = (
    "dpoco.adapters.torch clips every example's gradient, in Python, and empties those that are "
    "not finite.",
    "PyTorch computes the gradient of an example from the parameters and that example alone, in "
    "batches of one shape.",
)


class PrivateLoader:
    """Batches of a data set in one fixed order, the same in every epoch.

    An example comes in every `steps`-th step and in no other, so that the rule that
    `PrivateTraining` charges for holds by construction, if each person has one example.

    Parameters
    ----------
    dataset : dataset
        Pairs of input and target: a ``torch.utils.data.Dataset`` with a length.
    batch_size : int
        Examples of a step; the last batch of an epoch may be shorter, which is the same as one that
        is filled with empty examples.
    epochs : int, default 1
        How often each example comes.
    seed : int or None, default 0
        Seed of the public permutation; None keeps the order of the data set, as one pass over a
        stream does.

    Attributes
    ----------
    steps : int
        Steps of one epoch.
    """

    def __init__(
        self, dataset: Any, batch_size: int, epochs: int = 1, *, seed: int | None = 0
    ) -> None:
        if not hasattr(dataset, "__len__"):
            raise TypeError("the data set has no length: its batches cannot be fixed in advance")
        self.dataset = dataset
        self.batch_size = positive_int("batch_size", batch_size)
        self.epochs = positive_int("epochs", epochs)
        # The guarantee depends on the number of batches, so it must be known in advance.
        size = positive_int("the length of the data set", len(dataset))
        # The division rounds up, since the last batch may be shorter.
        self.steps = -(-size // batch_size)
        # One order for all epochs: another one would bring an example twice within `steps` steps.
        self._order = np.arange(size)
        if seed is not None:
            self._order = np.random.default_rng(seed).permutation(size)

    def __len__(self) -> int:
        """Return the steps of all epochs."""
        return self.steps * self.epochs

    def batch(self, step: int) -> Batch:
        """Return inputs and targets of a step, from 0 on."""
        start = step % self.steps * self.batch_size
        chosen = self._order[start : start + self.batch_size].tolist()
        inputs, targets = zip(*(self.dataset[i] for i in chosen), strict=True)
        return _stack(inputs), _stack(targets)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of all epochs."""
        return (self.batch(step) for step in range(len(self)))


def _stack(values: Iterable[object]) -> torch.Tensor:
    """Return values of one shape as one tensor, examples along the first axis."""
    return torch.stack([torch.as_tensor(value) for value in values])


class PrivateTraining:
    """A model whose training is differentially private, with any optimiser.

    Parameters
    ----------
    model : torch.nn.Module
        Parameters with ``requires_grad`` are trained, all in single or double precision; the others
        stay as they are. Layers that mix examples are refused.
    loss : callable
        ``loss(outputs, targets)``, a number for a batch. It is called with one example at a time.
    budget : Budget or None
        Guarantee of the whole training; None adds no noise. This and all following arguments are
        keyword-only.
    clip : float
        Every example's gradient is clipped to this l2 norm. Public: never take it from the data.
    steps, epochs : int
        Steps of one epoch, and how many epochs there are (default 1).
    batch_size : int
        Largest number of examples in a step.
    participation : Participation, optional
        A rule for the steps of a person other than one step an epoch, with ``enforced=False``.
    workload : "prefix" or float, default "prefix"
        See `NoisyGradients`. "prefix" is for SGD, also with momentum, and for schedules of the
        learning rate; a half-life in steps is for weight decay or a decaying rate that forgets.
    relation : {"zero_out", "replace"}
        Neighbouring data differ in one person, who does not take part, or has other examples.
    memory : int, default 2^26
        Bytes for gradients of single examples: a batch is worked on in pieces of this size.
    source : Source, optional
        Source of randomness; None: the operating system.

    Attributes
    ----------
    noise : NoisyGradients
        What adds the noise.
    guarantee : Guarantee
        Of all models of the training together.

    Raises
    ------
    ValueError, TypeError
        For models and arguments that no proof covers.

    Notes
    -----
    Threads take turns, each for a whole call.

    Examples
    --------
    >>> import dpoco, torch
    >>> from dpoco.adapters.torch import PrivateTraining
    >>> model = torch.nn.Linear(2, 1)
    >>> training = PrivateTraining(
    ...     model, torch.nn.functional.mse_loss, budget=dpoco.Budget(8.0, 1e-6), clip=1.0,
    ...     steps=100, batch_size=32)
    >>> training.attach(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    >>> training.step((torch.zeros(32, 2), torch.zeros(32, 1)))
    >>> training.round
    1
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        *,
        budget: Budget | None,
        clip: float,
        steps: int,
        batch_size: int,
        epochs: int = 1,
        participation: Participation | None = None,
        workload: str | float = "prefix",
        relation: Relation = "zero_out",
        memory: int = _MEMORY,
        source: Source | None = None,
    ) -> None:
        instance("model", model, torch.nn.Module, "a torch.nn.Module, not its class")
        # This check comes first: the proof needs every gradient to depend on one example alone.
        _refuse_mixing(model)
        self.model = model
        self._trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        if not self._trained:
            raise ValueError("the model has no parameter that requires a gradient")
        for name, parameter in self._trained.items():
            if parameter.dtype not in (torch.float32, torch.float64):
                raise TypeError(
                    f"parameter {name!r} is of type {parameter.dtype}: gradients of single or "
                    "double precision only are clipped exactly"
                )
        # A layer that grows would change the entries of a clipped gradient and the sum's length.
        self._forms = {name: (p.shape, p.dtype) for name, p in self._trained.items()}
        self._size = sum(p.numel() for p in self._trained.values())
        self._gradients = ClippedGradients(model, loss, self._trained, positive_float("clip", clip))
        self._batch_size = positive_int("batch_size", batch_size)
        self._memory = positive_int("memory", memory)
        self._optimizer: torch.optim.Optimizer | None = None
        self._total, self._count = np.zeros(self._size), 0
        # Two steps at once would release the same examples twice. `step` calls `accumulate`.
        self._turn = threading.RLock()
        self._key: EncryptionKey | None = None
        if any(p.device.type != "cpu" for p in self._trained.values()):
            warnings.warn("sums of gradients are copied to the CPU, where noise is added",
                          UserWarning, stacklevel=2)  # fmt: skip
        self.noise = NoisyGradients(
            self._size, clip=clip, batch_size=batch_size, steps=steps, epochs=epochs,
            budget=budget, participation=participation, workload=workload, relation=relation,
            source=source,
        )  # fmt: skip
        self.guarantee = own = self.noise.guarantee
        if own.private:
            self.guarantee = replace(own, conditions=(*own.further, *_IN_PYTHON))

    @property
    def round(self) -> int:
        """Steps so far, with those that were skipped after a crash."""
        return self.noise.round

    def attach(self, optimizer: torch.optim.Optimizer) -> None:
        """Let `step` call ``optimizer.step()``, and checkpoints contain its state.

        Raises
        ------
        ValueError
            If it changes parameters that are not among those trained here.
        TypeError
            If its steps compute losses, as those of LBFGS do: these would not be private.
        """
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise TypeError(
                f"{type(optimizer).__name__} computes losses in its steps: take an optimizer that "
                "only reads gradients"
            )
        own = {id(p) for p in self._trained.values()}
        given = {id(p) for group in optimizer.param_groups for p in group["params"]}
        # Frozen parameters are public and get no gradient, so that an optimizer may hold them.
        if not given <= own | {id(p) for p in self.model.parameters() if not p.requires_grad}:
            raise ValueError(
                "the optimizer has parameters that do not belong to the model of this training"
            )
        self._optimizer = optimizer

    def accumulate(self, batch: Batch) -> None:
        """Add the clipped gradients of some of a step's examples; nothing is released.

        Raises
        ------
        TypeError
            Unless the batch is a pair of tensors.
        ValueError
            If the step then has more examples than `batch_size`, the loss of an example is no
            number, or PyTorch refuses an example for its values; the text quotes none.
        """
        pair = isinstance(batch, (tuple, list)) and len(batch) == 2
        if not (pair and all(isinstance(each, torch.Tensor) for each in batch)):
            raise TypeError("a batch is a pair of tensors: (inputs, targets)")
        inputs, targets = batch
        examples = len(inputs)
        if len(targets) != examples:
            raise ValueError(f"a batch has {examples} inputs and {len(targets)} targets")
        with self._turn:
            if self._count + examples > self._batch_size:
                raise ValueError(
                    f"a step has at most batch_size = {self._batch_size} examples; got "
                    f"{self._count + examples}"
                )
            self._check_model()
            total = self._add(inputs, targets)
            # The number comes first: an interrupt in between must not let examples enter twice.
            self._count, self._total = self._count + examples, total

    def _add(self, inputs: torch.Tensor, targets: torch.Tensor) -> FloatArray:
        """Return the sum of gradients so far and those of some examples, shape (d,)."""
        # The gradients are added to a copy of the sum. If a piece of the batch fails (memory, an
        # interrupt), the examples of earlier pieces would otherwise stay in the sum, and enter it
        # twice when the caller brings the batch again.
        total = self._total.copy()
        size, memory = self._batch_size, self._memory
        try:
            self._gradients.add((inputs, targets), size, memory, torch.from_numpy(total))
            return total
        except MemoryError:
            raise
        except Exception as error:
            name = type(error).__name__
        # PyTorch's texts quote values ("index 777 is out of bounds"). Zeros of the same types and
        # shapes show whether these, which are public, are wrong: the call then raises as before.
        public = torch.zeros_like(inputs), torch.zeros_like(targets)
        self._gradients.add(public, size, memory, torch.zeros_like(torch.from_numpy(total)))
        raise ValueError(
            f"PyTorch raises {name} for the values of an example, such as a label or a word beyond "
            "the last one; zeros of the same types and shapes pass. Nothing was added"
        )

    def step(self, batch: Batch | None = None) -> None:
        """Put the noisy mean gradient of a batch into ``.grad``; step the attached optimizer.

        The mean is over `batch_size`, whatever the number of examples is.

        Parameters
        ----------
        batch : pair of tensors, optional
            Inputs and targets, examples along the first axis; None: what was accumulated.

        Raises
        ------
        HorizonExceeded
            After the last step.

        Notes
        -----
        If it raises and `round` is as before, nothing of the batch was added, and it can be brought
        again.
        """
        with self._turn:
            # This check comes before the gradients, which take most of the time.
            self.noise._require(1)
            before, total, count = self.noise.round, self._total, self._count
            try:
                if batch is not None:
                    self.accumulate(batch)
                whole = self._total
                self._total, self._count = np.zeros(self._size), 0
                noisy = self.noise.release(whole)
            except BaseException:
                # Before the draw, all is as before the call: the caller has the batch and brings it
                # again. After the draw the examples have had their step, and must not get another.
                if self.noise.round == before:
                    self._count, self._total = count, total
                raise
            noisy /= self._batch_size
            self._set_gradients(noisy)
            if self._optimizer is not None:
                self._optimizer.step()

    def run(self, loader: PrivateLoader) -> None:
        """Play all steps that are left, with the loader's batches and the attached optimizer.

        Raises
        ------
        StateError
            Without an optimizer: the model would not change.
        TypeError, ValueError
            For another loader, and if it has other steps, epochs or batches than were declared.
        """
        instance("loader", loader, PrivateLoader, "a PrivateLoader, whose order the proof needs")
        # The guarantee holds for the declared rule: more epochs, or shorter ones, would bring
        # examples more often, even if the number of all steps is the declared one.
        declared = (self.noise.horizon, self._batch_size)
        if (len(loader), loader.batch_size) != declared:
            raise ValueError(
                f"the loader has {len(loader)} steps of {loader.batch_size} examples; declared "
                "were {} of {}".format(*declared)
            )
        if not self.noise.covers(loader.epochs, loader.steps):
            raise ValueError(
                f"the loader brings every example {loader.epochs} times, {loader.steps} steps "
                "apart: more often than steps and epochs, or the participation, declare"
            )
        if self._optimizer is None:
            raise StateError(
                "attach an optimizer before run(): without one no step changes the model"
            )
        # The round chooses the batch: after a crash, the batches of skipped steps are skipped too.
        while self.round < self.noise.horizon:
            self.step(loader.batch(self.round))

    # -- gradients --------------------------------------------------------------------------------

    def _check_model(self) -> None:
        """Raise for what may have changed since the start and the proof does not cover."""
        if torch.is_autocast_enabled("cpu"):
            raise RuntimeError(
                "mixed precision (autocast) is refused: the proof does not cover its gradients"
            )
        now = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        for name in now.keys() | self._trained.keys():
            # Gradients would otherwise go to a parameter that the model does not use any more.
            if now.get(name) is not self._trained.get(name):
                raise ValueError(
                    f"parameter {name!r} was replaced, frozen or set free: the parameters that a "
                    "training has at its start are those that it trains"
                )
            if (now[name].shape, now[name].dtype) != self._forms[name]:
                raise ValueError(f"parameter {name!r} has changed its shape or type")

    def _set_gradients(self, noisy: FloatArray) -> None:
        """Put a noisy mean gradient, shape (d,), where optimisers look for it."""
        start = 0
        for parameter in self._trained.values():
            part = torch.from_numpy(noisy[start : start + parameter.numel()])
            parameter.grad = part.view(parameter.shape).to(parameter.device, parameter.dtype)
            start += parameter.numel()

    # -- states -----------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, key: EncryptionKey | None = None) -> None:
        """Write model, optimizer, noise and PyTorch's generator to one file, atomically.

        It holds the noise key and raw sums of gradients: guard it as the data, or encrypt it. If it
        is continued twice, two models have the same noise, which shows their difference:
        `NoisyGradients.reserve` refuses that.

        Raises
        ------
        StateError
            With examples accumulated that no step has released.
        """
        self.noise._engine.check_process()
        with self._turn:
            if self._count:
                raise StateError("examples are accumulated: call step() before save()")
            self._key = given_key("key", key, self._key)
            held = {
                "model": self.model.state_dict(),
                "optimizer": None if self._optimizer is None else self._optimizer.state_dict(),
                "generator": torch.get_rng_state(),
                # PyTorch warns about memory that is read-only, as that of bytes.
                "noise": torch.frombuffer(bytearray(self.noise.to_bytes()), dtype=torch.uint8),
            }
            file = io.BytesIO()
            torch.save(held, file)
            write_atomically(path, file.getvalue(), self._key)

    def load(self, path: str | os.PathLike[str], *, key: EncryptionKey | None = None) -> None:
        """Continue a saved training, bit for bit on a CPU, in an object with the same arguments.

        Raises
        ------
        StateError
            If the file is of another training, this one has started or accumulated examples, or
            others may read the file.
        """
        with self._turn:
            # They would enter a step that is not theirs.
            if self._count:
                raise StateError("examples are accumulated: load() comes before them")
            if key is None:
                refuse_readable(Path(path), Path(path).stat())
            data = read_state(path, key)
            try:
                # With `weights_only` a file cannot make PyTorch run code.
                held = torch.load(io.BytesIO(data), weights_only=True)
                model, optimizer, generator, noise = (
                    held[name] for name in ("model", "optimizer", "generator", "noise")
                )
            except Exception as error:  # its text may quote the file
                raise StateError(f"not a saved training ({type(error).__name__})") from None
            if optimizer is not None and self._optimizer is None:
                raise StateError("attach an optimizer before load(): the saved training had one")
            if optimizer is None and self._optimizer is not None:
                raise StateError("the saved training had no optimizer: attach one after load()")
            self.model.load_state_dict(model)
            if self._optimizer is not None:
                self._optimizer.load_state_dict(optimizer)
            self.noise.restore(noise.numpy().tobytes())  # last: all else has been read
            torch.set_rng_state(generator)
            self._key = key

    def __reduce__(self) -> NoReturn:
        raise TypeError("a training cannot be copied or pickled: copies would share noise")

    def __repr__(self) -> str:
        """Return how far the training is, and its guarantee."""
        return (
            f"<PrivateTraining of {self._size} parameters, step {self.round} of "
            f"{self.noise.horizon}>\n  {self.guarantee!r}"
        )


def _refuse_mixing(model: torch.nn.Module) -> None:
    """Raise for layers whose output for an example depends on other examples."""
    for name, layer in model.named_modules():
        running = getattr(layer, "track_running_stats", False)
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) or running:
            size = getattr(layer, "num_features", None)
            raise ValueError(
                f"layer {name or 'model'!r} is a {type(layer).__name__}, which mixes the examples "
                f"of a batch: replace it by torch.nn.GroupNorm(1, {size}) or LayerNorm"
            )
