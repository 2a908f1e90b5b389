"""JAX-Privacy, OpenDP, dp-accounting and diffprivlib: one case a call, printed as JSON.

Runs in the environment of `requirements.txt`; `regenerate.py` calls it: ``theirs.py CASE ARGUMENT
...``. All noise is per unit: a record of norm 1 is emptied, and all releases together are 1-GDP.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np

warnings.simplefilter("ignore")
jax.config.update("jax_enable_x64", True)

DELTA = 1e-6


def versions():
    names = ("jax", "jax-privacy", "opendp", "dp-accounting", "diffprivlib", "numpy")
    return {name: metadata.version(name) for name in names}


def _noise(strategy, noising, rounds: int, apart: int, times: int):
    """Worst and root mean square deviation of a Toeplitz strategy, by the package's functions."""
    from jax_privacy.matrix_factorization import toeplitz

    norm = toeplitz.minsep_sensitivity_squared(strategy, apart, times, rounds, skip_checks=True)
    errors = toeplitz.per_query_error(noising_coef=noising)
    return {
        "max": float(jnp.sqrt(norm * errors.max())),
        "rms": float(jnp.sqrt(norm * errors.mean())),
    }


def blt(rounds: str, times: str, error: str):
    from jax_privacy.matrix_factorization import buffered_toeplitz

    n, k = int(rounds), int(times)
    apart = max(1, n // k) if k > 1 else 1
    start = time.process_time()
    found = buffered_toeplitz.optimize(n=n, min_sep=apart, max_participations=k, error=error)
    seconds = time.process_time() - start
    noise = _noise(found.toeplitz_coefs(n), found.inverse().toeplitz_coefs(n), n, apart, k)
    return noise | {"seconds": seconds, "buffers": int(found._num_buffers)}


def banded(rounds: str, times: str, bands: str):
    from jax_privacy.matrix_factorization import toeplitz

    n, k = int(rounds), int(times)
    start = time.process_time()
    strategy = toeplitz.optimize_banded_toeplitz(n, int(bands))
    seconds = time.process_time() - start
    full = toeplitz.pad_coefs_to_n(strategy, n)
    noising = toeplitz.solve_banded(strategy, jnp.zeros(n).at[0].set(1.0))
    return _noise(full, noising, n, n // k, k) | {"seconds": seconds}


def epsilon():
    """The same mechanism in several accountants, at delta = 1e-6."""
    import dp_accounting as dp
    import opendp.prelude as opendp
    from dp_accounting import pld, rdp

    emptied = dp.NeighboringRelation.REPLACE_SPECIAL

    def epsilon_spent(kind, event):
        accountant = {"PLD": pld.PLDAccountant, "RDP": rdp.RdpAccountant}[kind]
        return accountant(neighboring_relation=emptied).compose(event).get_epsilon(DELTA)

    opendp.enable_features("contrib")
    space = opendp.atom_domain(T=float, nan=False), opendp.absolute_distance(T=float)

    def opendp_gaussian(scale):
        profile = opendp.c.make_zCDP_to_approxDP(opendp.m.make_gaussian(*space, scale)).map(1.0)
        return profile.epsilon(DELTA)

    one, many = dp.GaussianDpEvent(5.0), dp.SelfComposedDpEvent(dp.GaussianDpEvent(100.0), 1000)
    tree = dp.SingleEpochTreeAggregationDpEvent(10.0, 1000)
    return {
        "gaussian": {
            "dp-accounting PLD": epsilon_spent("PLD", one),
            "dp-accounting RDP": epsilon_spent("RDP", one),
            "OpenDP (zCDP)": opendp_gaussian(5.0),
        },
        "gaussians": {
            "dp-accounting PLD": epsilon_spent("PLD", many),
            "dp-accounting RDP": epsilon_spent("RDP", many),
            "OpenDP (zCDP)": opendp_gaussian(100.0 / 1000**0.5),
        },
        "tree": {"dp-accounting RDP": epsilon_spent("RDP", tree)},
    }


def calibration():
    """The least scale for (1, 1e-6) that each package finds for one Gaussian of sensitivity 1."""
    import dp_accounting as dp
    import opendp.prelude as opendp
    from diffprivlib.mechanisms import GaussianAnalytic

    opendp.enable_features("contrib")
    space = opendp.atom_domain(T=float, nan=False), opendp.absolute_distance(T=float)

    def make(scale):
        pure = opendp.c.make_zCDP_to_approxDP(opendp.m.make_gaussian(*space, scale))
        return opendp.c.make_fix_delta(pure, DELTA)

    return {
        "dp-accounting": float(dp.get_sigma_gaussian(1.0, DELTA)),
        "OpenDP": opendp.binary_search_param(make, d_in=1.0, d_out=(1.0, DELTA)),
        "diffprivlib": GaussianAnalytic(epsilon=1.0, delta=DELTA, sensitivity=1.0)._scale,
    }


def _per_call(call, times: int) -> float:
    call()
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times * 1e6


def speed():
    """CPU microseconds of one release of d numbers with secure or usual noise."""
    import opendp.prelude as opendp
    from diffprivlib.mechanisms import GaussianAnalytic
    from jax_privacy import noise_addition
    from jax_privacy.matrix_factorization import buffered_toeplitz

    opendp.enable_features("contrib")
    found = buffered_toeplitz.BufferedToeplitz.from_rational_approx_to_sqrt_x(num_buffers=4)
    scalar = GaussianAnalytic(epsilon=1.0, delta=DELTA, sensitivity=1.0)
    times = {}
    for d in (1, 1000):
        adder = noise_addition.matrix_factorization_privatizer(
            noising_matrix=found.inverse_as_streaming_matrix(), stddev=1.0, prng_key=1
        )
        update, record = jax.jit(adder.update), jnp.zeros(d)
        state = [adder.init(record)]

        def release(update=update, record=record, state=state):
            noisy, state[0] = update(record, state[0])
            return noisy.block_until_ready()

        space = opendp.vector_domain(opendp.atom_domain(T=float, nan=False), size=d)
        fresh = opendp.m.make_gaussian(space, opendp.l2_distance(T=float), 1.0)
        zeros = [0.0] * d
        times[str(d)] = {
            "jax-privacy": _per_call(release, 500),
            "opendp": _per_call(lambda f=fresh, z=zeros: f(z), 5 if d > 1 else 200),
            "diffprivlib": _per_call(
                lambda n=d: [scalar.randomise(0.0) for _ in range(n)], 5 if d > 1 else 500
            ),
        }
    return times


def checks():
    """Return facts about the installed versions that this program establishes."""
    import dp_accounting as dp
    from dp_accounting import pld, rdp
    from jax_privacy import noise_addition
    from jax_privacy.matrix_factorization import toeplitz

    record = jnp.zeros(3)

    def release_sums(matrix, rounds):
        adder = noise_addition.matrix_factorization_privatizer(noising_matrix=matrix, stddev=1.0)
        state, found = adder.init(record), []
        for _ in range(rounds):
            noisy, state = adder.update(record, state)
            found.append(np.asarray(noisy).tolist())
        return found

    matrix = jnp.eye(4)
    runs = []
    for _ in range(2):
        np.random.seed(7)
        runs.append(release_sums(matrix, 2))
    beyond = release_sums(matrix, 7)
    strategy = toeplitz.optimal_max_error_strategy_coefs(16)
    noising = toeplitz.inverse_as_streaming_matrix(strategy, column_normalize_for_n=64)
    norms = np.linalg.norm(np.linalg.inv(np.asarray(noising.materialize(128))), axis=0)

    def response(times, count):
        relation = dp.NeighboringRelation.REPLACE_ONE
        accountant = pld.PLDAccountant(neighboring_relation=relation)
        event = dp.RandomizedResponseDpEvent(0.5, 2)
        for _ in range(times):
            accountant.compose(event, count)
        return accountant.get_epsilon(DELTA)

    def replace_record(accountant):
        relation = dp.NeighboringRelation.REPLACE_ONE
        made = accountant(neighboring_relation=relation)
        return made.compose(dp.GaussianDpEvent(5.0)).get_epsilon(DELTA)

    return {
        "jax_key_from_numpy": runs[0] == runs[1],
        "jax_repeats_noise": beyond[3] == beyond[4] == beyond[5] == beyond[6],
        "jax_column_beyond": float(norms.max()),
        "response_counted": response(1, 100),
        "response_looped": response(100, 1),
        "replace_pld": replace_record(pld.PLDAccountant),
        "replace_rdp": replace_record(rdp.RdpAccountant),
    }


CASES = {
    each.__name__: each for each in (versions, blt, banded, epsilon, calibration, speed, checks)
}

if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]](*sys.argv[2:])))
