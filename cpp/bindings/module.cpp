#include "registrars.hpp"

namespace dpoco::bindings {
namespace {

// Turns C++ errors into the classes of dpoco.errors, so that Python code has one hierarchy.
void register_errors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    const auto raise = [](const char* name, const std::exception& error) {
      const py::object type = py::module_::import("dpoco.errors").attr(name);
      py::set_error(type, error.what());
    };
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const HorizonExceeded& error) {
      raise("HorizonExceeded", error);
    } catch (const RoundOrderError& error) {
      raise("RoundOrderError", error);
    } catch (const StateError& error) {
      raise("StateError", error);
    }
  });
}

}  // namespace
}  // namespace dpoco::bindings

PYBIND11_MODULE(_core, m, pybind11::mod_gil_not_used()) {
  using namespace dpoco::bindings;
  m.doc() = "Compiled core of dpoco. Private: its signatures change without notice.";
  m.attr("__version__") = DPOCO_VERSION;
  register_errors();
  register_live(m);
  register_random(m);
  register_digests(m);
  register_participants(m);
  register_noise(m);
  register_domains(m);
  register_losses(m);
  register_mechanisms(m);
  register_selection(m);
  register_samplers(m);
  register_gibbs(m);
  register_experts(m);
  register_oblivious_tracker(m);
  register_shift_detector(m);
  register_batch_share(m);
  register_prefix_hedge(m);
  register_nets(m);
  register_record_learners(m);
  register_frank_wolfe(m);
  register_noisy_ftrl(m);
  register_noisy_newton(m);
  register_coupled_regularized_leader(m);
  register_continuous_multiplicative_weights(m);
  register_bandits(m);
  register_high_dimensional_bandit(m);
  register_local_client(m);
  register_local_server(m);
  register_local_simulate(m);
  register_repeated_runs(m);
  register_keyed_runs(m);
  register_tally(m);
}
