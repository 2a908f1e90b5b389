#include "dpoco/oco/coupled_regularized_leader.hpp"

#include <cmath>

#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using oco::CoupledRegularizedLeaderSettings;
using oco::LeaderCoupling;
using Engine = oco::CoupledRegularizedLeader;

namespace {

LeaderCoupling coupling_named(const std::string& keep) {
  if (keep == "density_ratio") return LeaderCoupling::density_ratio;
  if (keep == "scheduled") return LeaderCoupling::scheduled;
  if (keep == "maximal") return LeaderCoupling::maximal;
  throw std::invalid_argument("a leader has no such coupling");
}

std::unique_ptr<Engine> make_engine(std::shared_ptr<const domains::Domain> domain,
                                    const py::object& losses, const py::object& mechanism,
                                    const py::object& tuning, const py::object& claim) {
  CoupledRegularizedLeaderSettings own;
  const CoupledDraws drawn = read_coupled_draws(mechanism, [&](Fields& draw) {
    draw.expect_kind("tilted_minimum");
    draw.read("noise", own.noise_scale);
    draw.read("step", own.step_size);
  });
  own.rule = drawn.rule;
  own.coupling = coupling_named(drawn.keep);
  own.noise_growth = std::isinf(own.step_size);
  own.clip_high = drawn.high;
  own.clip_low = drawn.low;
  own.lipschitz = drawn.lipschitz;
  own.smoothness = drawn.smoothness;
  read_whole({tuning, "the tuning of a leader"}, [&](Fields& from) {
    from.read("barrier_weight", own.barrier_weight);
    from.read("strong_convexity", own.strong_convexity);
    return true;
  });
  auto sum = make_loss_sum(std::move(domain), {losses, "a sum of losses"});
  expect_dimension(drawn, *sum);
  return std::make_unique<Engine>(std::move(sum), own, read_claim(claim));
}

}  // namespace

void register_coupled_regularized_leader(py::module_& m) {
  py::class_<Engine, oco::CoupledLearner>(m, "CoupledRegularizedLeader")
      .def(py::init(&make_engine))
      .def("nonprivate_log_ratio", &Engine::nonprivate_log_ratio)
      .def("nonprivate_solve", [](Engine& self, Reals z) {
        expect_size(z, static_cast<std::size_t>(self.intrinsic_dimension()), "u");
        return read_only(self.intrinsic_dimension(),
                         [&](RealsOut out) { self.nonprivate_solve(z, out); });
      });
}

}  // namespace dpoco::bindings
