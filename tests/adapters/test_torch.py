"""Private training of PyTorch models: gradients, sensitivity, states, refusals."""

from __future__ import annotations

import copy
import math
import pickle
import stat
import threading
import time

import numpy as np
import pytest
from tests.adapters.replay import used_mu
from tests.late import Late

import dpoco
from dpoco.errors import HorizonExceeded, StateError
from dpoco.learning.participation import Participation
from dpoco.privacy.neighbours import Neighbours
from dpoco.random import Source

torch, nn = Late("torch"), Late("torch.nn")
adapter = Late("dpoco.adapters.torch", needs="torch")

BUDGET = dpoco.Budget(8.0, 1e-5)
pytestmark = pytest.mark.usefixtures("one_thread")


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def training(model=None, budget=BUDGET, **options):
    model = network() if model is None else model
    options = {"clip": 0.5, "steps": 5, "batch_size": 8, **options}
    return adapter.PrivateTraining(model, nn.functional.cross_entropy, budget=budget, **options)


def examples(count=8, seed=0, size=4):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, size, generator=generator)
    return inputs, torch.randint(0, 3, (count,), generator=generator)


def gradient(model):
    return np.concatenate([p.grad.flatten().numpy() for p in model.parameters()])


def by_hand(model, batch, clip):
    """The sum of clipped gradients, one backward pass an example."""
    total = 0.0
    for x, y in zip(*batch, strict=True):
        model.zero_grad()
        nn.functional.cross_entropy(model(x[None]), y[None]).backward()
        own = gradient(model).astype(np.float64)
        total = total + own * min(1.0, clip / np.linalg.norm(own))
    return total


@pytest.mark.parametrize("memory", [1, 2000, 2**28])
def test_without_noise_a_step_is_the_mean_of_clipped_gradients(memory):
    model, batch = network(), examples()
    expected = by_hand(model, batch, 0.5) / 8
    training(model, None, memory=memory).step(batch)
    np.testing.assert_allclose(gradient(model), expected, rtol=2e-5, atol=1e-7)


def test_parts_of_a_batch_add_up():
    one, two, (x, y) = network(), network(), examples()
    training(one, None).step((x, y))
    parts = training(two, None)
    parts.accumulate((x[:3], y[:3]))
    parts.accumulate((x[3:], y[3:]))
    parts.step()
    np.testing.assert_allclose(gradient(one), gradient(two), rtol=1e-5, atol=1e-8)
    parts.step()  # nothing is left of the step before
    assert not gradient(two).any()


def test_a_batch_that_fails_halfway_is_not_added(monkeypatch):
    own, batch = training(network(), None, memory=1), examples()
    own.accumulate((batch[0][:1], batch[1][:1]))
    before, add, pieces = own._total.copy(), own._gradients._add_piece, []

    def fail(*arguments):
        pieces.append(arguments)
        if len(pieces) == 3:
            raise MemoryError
        add(*arguments)

    monkeypatch.setattr(own._gradients, "_add_piece", fail)
    rest = batch[0][1:], batch[1][1:]
    with pytest.raises(MemoryError):
        own.accumulate(rest)
    assert np.array_equal(own._total, before)
    # Brought again, each example is in the sum once.
    own.accumulate(rest)
    once = training(network(), None, memory=1)
    once.accumulate(batch)
    assert np.array_equal(own._total, once._total)


@pytest.mark.parametrize("when", ["before", "behind"])
def test_an_interrupt_leaves_no_hook_that_changes_the_model(when, monkeypatch):
    """A hook that stayed cut the gradient of its layer off, in all later steps."""
    model, batch = network(), examples()
    own = training(model, budget=None)
    expected = by_hand(network(), batch, 0.5) / 8
    owner, name = {
        "before": (nn.Module, "register_forward_hook"),
        "behind": (torch.utils.hooks.RemovableHandle, "remove"),
    }[when]
    whole, calls = getattr(owner, name), []

    def interrupt(*given, **more):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*given, **more)

    monkeypatch.setattr(owner, name, interrupt)
    with pytest.raises(KeyboardInterrupt):
        own.step(batch)
    monkeypatch.undo()
    assert own.round == 0
    own.step(batch)
    assert gradient(model) == pytest.approx(expected, abs=1e-6)


def test_examples_of_an_interrupted_step_are_released_once(monkeypatch):
    own, (x, y) = training(network(), steps=3), examples()
    own.accumulate((x[:3], y[:3]))
    push = own.noise._push

    def interrupt(total):
        push(total)
        raise KeyboardInterrupt

    def fail(total):
        raise OSError("the disk is full")

    monkeypatch.setattr(own.noise, "_push", interrupt)
    with pytest.raises(KeyboardInterrupt):
        own.step()
    assert own.round == 1
    assert own._count == 0
    assert not own._total.any()
    # Before the draw, nothing is lost.
    own.accumulate((x[:3], y[:3]))
    monkeypatch.setattr(own.noise, "release", fail)
    with pytest.raises(OSError, match="full"):
        own.step()
    assert own._count == 3
    assert own._total.any()
    # The caller has a batch that came with the step, and brings it again.
    before = own._total.copy()
    with pytest.raises(OSError, match="full"):
        own.step((x[3:5], y[3:5]))
    assert own._count == 3
    assert np.array_equal(own._total, before)


def test_a_run_goes_on_after_a_step_that_failed(monkeypatch):
    """The last batch is less than half full: it would fit into its step twice."""
    data = torch.utils.data.TensorDataset(*examples(20))
    own, loader = training(network(), None, steps=3), adapter.PrivateLoader(data, 8)
    own.attach(torch.optim.SGD(own.model.parameters(), lr=0.1))
    release, sums = own.noise.release, []

    def fail_twice(total):
        sums.append(total.copy())
        if len(sums) in (2, 4):
            raise OSError("the disk is full")
        return release(total)

    monkeypatch.setattr(own.noise, "release", fail_twice)
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            own.run(loader)
    own.run(loader)
    assert len(sums) == 5
    assert np.array_equal(sums[1], sums[2])
    assert np.array_equal(sums[3], sums[4])


def test_no_example_is_longer_than_the_bound_not_even_by_rounding():
    model = network()
    for scale in (1e-3, 1.0, 1e4, 1e30):
        x, y = examples(64, seed=3)
        own = training(model, None, batch_size=1)
        for row, label in zip(x * scale, y, strict=True):
            total = torch.zeros(own._size, dtype=torch.float64)
            own._gradients.add((row[None], label[None]), 1, 2**28, total)
            exact = math.sqrt(math.fsum(v * v for v in total.tolist()))
            assert exact <= 0.5
            assert exact >= 0.5 * (1 - 1e-12) or scale < 1.0


def test_examples_that_are_not_finite_count_as_empty():
    model, (x, y) = network(), examples()
    x[2, 1] = math.nan
    x[5, 0] = math.inf
    kept = [i for i in range(8) if i not in (2, 5)]
    expected = by_hand(model, (x[kept], y[kept]), 0.5) / 8
    training(model, None).step((x, y))
    np.testing.assert_allclose(gradient(model), expected, rtol=2e-5, atol=1e-7)


def test_frozen_parameters_and_embeddings():
    torch.manual_seed(0)

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(11, 4), nn.Linear(4, 3)

        def forward(self, words):
            return self.head(self.embedding(words).mean(dim=1))

    model = Words()
    model.head.bias.requires_grad_(False)
    words = torch.randint(0, 11, (8, 5), generator=torch.Generator().manual_seed(1))
    training(model, None, clip=100.0).step((words, examples()[1]))
    noisy = model.embedding.weight.grad.clone()
    assert model.head.bias.grad is None
    model.zero_grad()
    nn.functional.cross_entropy(model(words), examples()[1]).backward()
    torch.testing.assert_close(noisy, model.embedding.weight.grad, rtol=1e-4, atol=1e-6)


def test_noise_of_steps_has_the_scale_of_the_plan():
    """The first increment is one draw: 20,000 of them, five deviations of their deviation."""
    model = nn.Linear(20_000, 1, bias=False)
    own = adapter.PrivateTraining(model, nn.functional.mse_loss, budget=BUDGET, clip=0.5, steps=5,
                          batch_size=8, source=Source.seeded(1))  # fmt: skip
    own.step((torch.zeros(8, 20_000), torch.zeros(8, 1)))
    scale = own.noise.mechanism.scale
    found = float(np.std(gradient(model).astype(np.float64) * 8))
    slack = 5.0 / math.sqrt(2 * 20_000)
    assert found == pytest.approx(scale, rel=slack)
    assert found != pytest.approx(0.9 * scale, rel=slack)


def test_several_epochs_cost_more_and_the_guarantee_names_the_rule():
    once, often = training(), training(epochs=3)
    assert often.noise.mechanism.scale > 1.5 * once.noise.mechanism.scale
    assert once.guarantee.unit == "one record"
    assert often.guarantee.person == (3, 5)
    text = " ".join(often.guarantee.conditions)
    assert "clips every example's gradient, in Python" in text
    assert "compiled engine" in text
    assert "only if" in repr(often.guarantee)
    assert dpoco.Guarantee.from_dict(often.guarantee.to_dict()) == often.guarantee


def test_people_with_other_rules():
    rule = dpoco.Participation(3, 5, enforced=False)
    assert training(steps=15, participation=rule).guarantee.person == (3, 5)
    with pytest.raises(ValueError, match="enforced=False"):
        training(participation=dpoco.Participation(3, 2))


# -- sensitivity ----------------------------------------------------------------------------------


def neighbours(epochs):
    """Batches of all steps, and the same with one example emptied in each epoch."""
    batches = [examples(seed=s) for s in range(5)] * epochs
    batches[2][0][0] *= 1e3  # the gradient of one example is longer than all others together
    fewer = [(x[1:], y[1:]) if t % 5 == 2 else (x, y) for t, (x, y) in enumerate(batches)]
    return batches, fewer


def seeded(**options):
    own = training(network(), source=Source.seeded(1), epochs=3, **options)
    own.attach(torch.optim.SGD(own.model.parameters(), lr=0.5, momentum=0.9))
    return own


def test_replayed_releases_show_no_more_than_is_promised():
    spent = used_mu(seeded, *neighbours(3))
    mu = seeded().guarantee.mu
    assert spent <= mu
    assert spent >= 0.5 * mu  # the example is long and comes in every epoch


def test_clipping_the_batch_instead_of_the_example_is_refuted():
    class ClipsTheBatch(adapter.PrivateTraining):
        """A planted bug: the gradient of the batch is clipped, to what its examples may have."""

        def accumulate(self, batch):
            self._gradients._clip = 1e9
            super().accumulate(batch)
            self._total *= min(1.0, 0.5 * self._batch_size / np.linalg.norm(self._total))

    def make():
        own = ClipsTheBatch(
            network(), nn.functional.cross_entropy, budget=BUDGET, clip=0.5, steps=5,
            batch_size=8, epochs=3, source=Source.seeded(1),
        )  # fmt: skip
        own.attach(torch.optim.SGD(own.model.parameters(), lr=0.5, momentum=0.9))
        return own

    assert used_mu(make, *neighbours(3)) > make().guarantee.mu


# -- states ---------------------------------------------------------------------------------------


def parameters(own):
    return torch.cat([p.detach().flatten() for p in own.model.parameters()])


def play(own, first, last):
    for step in range(first, last):
        own.step(examples(seed=step % 5))


def fresh():
    model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3))
    own = training(model, epochs=3)
    own.attach(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    return own


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_checkpoint_continues_bit_for_bit(tmp_path, encrypted):
    pytest.importorskip("cryptography")
    key = dpoco.EncryptionKey(bytes(range(150, 182))) if encrypted else None
    own, path = fresh(), tmp_path / "training"
    play(own, 0, 4)
    own.save(path, key=key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    play(own, 4, 10)
    again = fresh()
    again.load(path, key=key)
    assert again.round == 4
    play(again, 4, 10)
    assert torch.equal(parameters(own), parameters(again))
    if encrypted:
        with pytest.raises(StateError):
            fresh().load(path)


def test_accumulated_examples_are_of_no_other_step(tmp_path):
    own, other, batch = training(), training(), examples(3)
    own.step(batch)
    own.save(tmp_path / "state")
    other.accumulate(batch)
    with pytest.raises(dpoco.StateError, match="accumulated"):
        other.load(tmp_path / "state")
    assert other.round == 0
    with pytest.raises(dpoco.StateError, match="accumulated"):
        other.save(tmp_path / "other")


def test_states_of_other_trainings_are_refused(tmp_path):
    own, path = fresh(), tmp_path / "training"
    play(own, 0, 2)
    own.save(path)
    with pytest.raises(StateError, match="not started"):
        own.load(path)
    other = training(nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3)))
    other.attach(torch.optim.SGD(other.model.parameters(), lr=0.1))
    with pytest.raises(StateError, match="other parameters"):
        other.load(path)
    with pytest.raises(StateError, match="attach an optimizer"):
        training().load(path)
    bare = training()
    play(bare, 0, 2)
    bare.save(tmp_path / "bare")
    with pytest.raises(StateError, match="had no optimizer"):
        fresh().load(tmp_path / "bare")
    path.write_bytes(b"no state")
    with pytest.raises(StateError, match="not a saved training"):
        fresh().load(path)
    path.chmod(0o644)
    with pytest.raises(StateError, match="chmod 600"):
        fresh().load(path)
    own.accumulate(examples(2))
    with pytest.raises(StateError, match="accumulated"):
        own.save(path)


# -- loaders --------------------------------------------------------------------------------------


def test_a_loader_brings_every_example_once_an_epoch_and_always_in_the_same_step():
    data = torch.utils.data.TensorDataset(torch.arange(23.0)[:, None], torch.arange(23))
    loader = adapter.PrivateLoader(data, 5, epochs=3)
    assert (loader.steps, len(loader)) == (5, 15)
    seen = [targets.tolist() for _, targets in loader]
    assert sorted(i for batch in seen[:5] for i in batch) == list(range(23))
    assert seen[:5] == seen[5:10] == seen[10:]
    assert seen[0] != [0, 1, 2, 3, 4]
    assert adapter.PrivateLoader(data, 5, seed=None).batch(0)[1].tolist() == [0, 1, 2, 3, 4]


def test_run_plays_what_is_left_and_wants_the_declared_batches():
    data = torch.utils.data.TensorDataset(*examples(40))
    own = training(epochs=3)
    own.step(examples(8))
    with pytest.raises(dpoco.StateError, match="attach an optimizer before run"):
        own.run(adapter.PrivateLoader(data, 8, 3))
    with pytest.raises(TypeError, match="must be a PrivateLoader"):
        own.run(torch.utils.data.DataLoader(data, 8))
    own.attach(torch.optim.SGD(own.model.parameters(), lr=0.1))
    own.run(adapter.PrivateLoader(data, 8, 3))
    assert own.round == 15
    with pytest.raises(ValueError, match="declared"):
        training(epochs=3).run(adapter.PrivateLoader(data, 4, 3))
    with pytest.raises(TypeError, match="no length"):
        adapter.PrivateLoader(iter([]), 8)


def test_a_loader_may_not_bring_examples_more_often_than_the_guarantee_is_for():
    data = torch.utils.data.TensorDataset(*examples(40))
    often = adapter.PrivateLoader(data, 8, 4)  # every example in four steps, five apart
    for steps, epochs in ((20, 1), (10, 2)):
        own = training(steps=steps, epochs=epochs)
        real = own.noise.mechanism.loss(Neighbours("zero_out", rounds=4, separation=5))
        assert real.epsilon(1e-6) > 2.0 * own.guarantee.epsilon
        with pytest.raises(ValueError, match="4 times, 5 steps apart"):
            own.run(often)
        assert own.round == 0
    for rule in (Participation(4, 5, enforced=False), Participation(6, 3, enforced=False)):
        own = training(steps=20, epochs=1, participation=rule)
        own.attach(torch.optim.SGD(own.model.parameters(), lr=0.1))
        own.run(often)
    for rule in (Participation(3, 5, enforced=False), Participation(4, 6, enforced=False)):
        with pytest.raises(ValueError, match="more often"):
            training(steps=20, epochs=1, participation=rule).run(often)


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options"),
    [("BatchNorm1d", {}), ("SyncBatchNorm", {}), ("InstanceNorm1d", {"track_running_stats": True})],
)
def test_layers_that_mix_examples_are_named_with_a_replacement(kind, options):
    layer = getattr(nn, kind)(6, **options)
    with pytest.raises(ValueError, match=r"layer '1' is a \w+Norm.*GroupNorm\(1, 6\)"):
        training(nn.Sequential(nn.Linear(4, 6), layer))


def test_refusals_come_before_anything_is_drawn():
    x, y = examples(9)
    own = training()
    with pytest.raises(ValueError, match="at most batch_size = 8"):
        own.step((x, y))
    with pytest.raises(ValueError, match="9 inputs and 3 targets"):
        own.step((x, y[:3]))
    with pytest.raises(TypeError, match="pair of tensors"):
        own.step(x)
    several = adapter.PrivateTraining(
        network(), lambda out, y: out.sum(dim=0), budget=BUDGET, clip=1.0, steps=5, batch_size=8
    )
    with pytest.raises(ValueError, match="one number"):
        several.step(examples())
    with torch.autocast("cpu"), pytest.raises(RuntimeError, match="mixed precision"):
        own.step(examples())
    assert own.round == several.round == 0
    play(own, 0, 5)
    before = parameters(own)
    with pytest.raises(HorizonExceeded):
        own.step(examples())
    assert torch.equal(before, parameters(own))
    own = training()
    own.model[0].weight.data = torch.zeros(6, 5)
    with pytest.raises(ValueError, match=r"'0.weight' has changed its shape or type"):
        own.step(examples())


@pytest.mark.parametrize("words", [False, True])
def test_errors_quote_no_value_of_an_example(words):
    x, y = examples()
    model = network()
    if words:
        model = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(8, 3))
        x = torch.ones(8, 2, dtype=torch.int64)
        x[5, 1] = 777
    else:
        y[5] = 777
    own = training(model)
    with pytest.raises(ValueError, match="for the values of an example") as refused:
        own.step((x, y))
    assert "777" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None
    assert own._count == own.round == 0
    # What is wrong with the type is public, and PyTorch's text helps.
    with pytest.raises(RuntimeError, match="type"):
        own.step((x.to(torch.complex64), y))
    with pytest.raises(TypeError, match="pair of tensors"):
        own.step((x.numpy(), y.numpy()))


@pytest.mark.parametrize("change", ["replace", "freeze", "free", "half"])
def test_the_parameters_of_the_start_are_those_that_are_trained(change):
    model = network()
    model[2].bias.requires_grad_(False)
    own = training(model)
    own.step(examples())
    if change == "replace":
        model.load_state_dict(network(1).state_dict(), assign=True)
        model[2].bias.requires_grad_(False)
    elif change == "half":
        model.half()
    else:
        (model[2].bias if change == "free" else model[0].bias).requires_grad_(change == "free")
    with pytest.raises(ValueError, match=r"was replaced, frozen or set free|its shape or type"):
        own.step(examples())
    assert own.round == 1


def test_threads_take_turns_and_release_every_example_once():
    own = training(network(), budget=None, steps=200)
    released = []
    release = own.noise.release

    def watched(total):
        released.append(total.copy())
        time.sleep(0.001)  # another thread runs
        return release(total)

    own.noise.release = watched
    parts = [tuple(t[i : i + 1] for t in examples(40)) for i in range(40)]

    def work(some):
        for part in some:
            own.step(part)

    threads = [threading.Thread(target=work, args=(parts[i::4],)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert own.round == 40
    # The model does not move without an optimizer, so that the parts' order does not matter.
    assert np.allclose(sum(released), by_hand(network(), examples(40), 0.5), atol=1e-6)


def test_no_examples_come_between_the_check_of_a_load_and_its_end(tmp_path):
    saved, own = training(network()), training(network())
    saved.step(examples(4))
    saved.save(tmp_path / "state")
    restore, seen = own.noise.restore, []
    other = threading.Thread(target=own.accumulate, args=(examples(1),))

    def watched(data):
        other.start()
        other.join(0.05)  # it waits for its turn
        seen.append(own._count)
        restore(data)

    own.noise.restore = watched
    own.load(tmp_path / "state")
    other.join()
    assert seen == [0]
    assert own.round == 1


def test_a_training_is_not_copied_and_optimizers_compute_no_losses():
    own = training()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        for each in (own, own.noise):
            with pytest.raises(TypeError, match="copies would share noise"):
                copied(each)
    with pytest.raises(TypeError, match="LBFGS computes losses"):
        own.attach(torch.optim.LBFGS(own.model.parameters()))


def test_tensors_on_other_devices_are_copied_which_is_said():
    with pytest.warns(UserWarning, match="copied to the CPU") as said:
        training(network().to("meta"))
    assert len(said) == 1


def test_models_and_optimizers_that_do_not_fit():
    with pytest.raises(TypeError, match="not its class"):
        training(nn.Linear)
    with pytest.raises(TypeError, match=r"must be a dpoco.Budget or None"):
        training(budget=8.0)
    with pytest.raises(TypeError, match=r"must be a dpoco.Participation or None"):
        training(participation=3)
    with pytest.raises(ValueError, match="'prefix' or a half-life"):
        training(workload="sgd")
    with pytest.raises(ValueError, match="no parameter"):
        training(network().requires_grad_(False))
    with pytest.raises(TypeError, match=r"'0.weight' is of type torch.bfloat16"):
        training(network().to(torch.bfloat16))
    with pytest.raises(ValueError, match="do not belong"):
        training().attach(torch.optim.SGD(network().parameters(), lr=0.1))
