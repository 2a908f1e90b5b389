#pragma once

#include <memory>

#include "common.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::bindings {

void register_random(py::module_& m);
void register_digests(py::module_& m);
void register_participants(py::module_& m);
void register_noise(py::module_& m);
void register_domains(py::module_& m);
void register_losses(py::module_& m);
void register_live(py::module_& m);
void register_mechanisms(py::module_& m);
void register_selection(py::module_& m);
void register_samplers(py::module_& m);
void register_gibbs(py::module_& m);
void register_experts(py::module_& m);
void register_oblivious_tracker(py::module_& m);
void register_shift_detector(py::module_& m);
void register_batch_share(py::module_& m);
void register_prefix_hedge(py::module_& m);
void register_nets(py::module_& m);
void register_record_learners(py::module_& m);
void register_frank_wolfe(py::module_& m);
void register_noisy_ftrl(py::module_& m);
void register_noisy_newton(py::module_& m);
void register_coupled_regularized_leader(py::module_& m);
void register_bandits(py::module_& m);
void register_high_dimensional_bandit(py::module_& m);
void register_local_client(py::module_& m);
void register_local_server(py::module_& m);
void register_local_simulate(py::module_& m);
void register_continuous_multiplicative_weights(py::module_& m);
void register_repeated_runs(py::module_& m);
void register_keyed_runs(py::module_& m);
void register_tally(py::module_& m);

// Used by other binding files: reads a key, and makes a generator from its key.
random::Key key_from(const py::bytes& bytes);
std::unique_ptr<random::Source> make_source(const py::bytes& key, std::uint64_t stream);

}  // namespace dpoco::bindings
