#include "dpoco/bandits/high_dimensional_bandit.hpp"
#include "registrars.hpp"
#include "settings.hpp"

namespace dpoco::bindings {

using bandits::BanditLearner;
using bandits::HighDimensionalBandit;

namespace {

using Models = std::vector<std::unique_ptr<frank_wolfe::FrankWolfe>>;

// claims: one for each arm.
std::unique_ptr<HighDimensionalBandit> make_bandit(
    const std::shared_ptr<const domains::Domain>& domain, const losses::GlmLoss& loss,
    const py::object& mechanism, const py::object& tuning, const py::list& claims,
    const Array& start) {
  bandits::HighDimensionalBanditSettings own;
  bandits::BanditSettings shared;
  Models models;
  read_whole({tuning, "the tuning of a bandit"}, [&](Fields& from) {
    from.read("horizon", shared.horizon);
    from.read("gap", own.gap);
    own.logistic = from.read_name<bool>("link", {{"identity", false}, {"logistic", true}});
    from.read("reward_bound", shared.reward_high);
    shared.reward_low = own.logistic ? 0.0 : -shared.reward_high;
    const auto arm = from.read<py::object>("arm");
    return read_whole({mechanism, "arms"}, [&](Fields& arms) {
      arms.expect_kind("parts");
      for (const char* name : {"how", "lemma"}) arms.skip(name);
      arms.read("forced", own.forced);
      for (const py::handle part : arms.read<py::tuple>("parts")) {
        if (models.size() == claims.size()) throw std::invalid_argument("an arm has no stream");
        models.push_back(make_frank_wolfe(domain, loss, py::reinterpret_borrow<py::object>(part),
                                          {arm, "the tuning of an arm"}, claims[models.size()],
                                          start));
      }
      return models.size();
    });
  });
  if (models.empty()) throw std::invalid_argument("a bandit has arms");
  shared.arms = models.size();
  own.batch = models.front()->batch();
  const losses::RecordClipper clipper = models.front()->leaves().clipper();
  return std::make_unique<HighDimensionalBandit>(shared, clipper, own, domain, std::move(models));
}

std::size_t table_size(const HighDimensionalBandit& self) {
  return self.sources() * self.dimension();
}

Array leaf(const HighDimensionalBandit& self, std::uint64_t arm, Reals context, double reward) {
  expect_size(context, self.dimension(), "context");
  if (arm >= self.arms()) throw std::invalid_argument("arm does not exist");
  // Enters the bandit, not one model: otherwise a round that another thread plays would fail
  // midway.
  const auto entered = self.enter();
  const frank_wolfe::FrankWolfe& model = self.model(arm);
  std::vector<double> at(self.dimension());
  std::vector<double> previous(self.dimension());
  model.decision(at);
  model.previous_decision(previous);
  return read_only(model.dimension(),
                   [&](std::span<double> out) { model.leaf(at, previous, context, reward, out); });
}

Array nonprivate_sums(const HighDimensionalBandit& self) {
  const auto entered = self.enter();
  return read_only(static_cast<py::ssize_t>(table_size(self)), [&](std::span<double> out) {
    auto to = out.begin();
    for (std::uint64_t arm = 0; arm < self.arms(); ++arm) {
      const std::vector<double>& sum = self.model(arm).nonprivate_sum();
      to = std::ranges::copy(sum, to).out;
    }
  });
}

std::vector<std::uint64_t> clocks(const HighDimensionalBandit& self) {
  const auto entered = self.enter();
  std::vector<std::uint64_t> rounds;
  for (std::uint64_t arm = 0; arm < self.arms(); ++arm) rounds.push_back(self.model(arm).round());
  return rounds;
}

}  // namespace

void register_high_dimensional_bandit(py::module_& m) {
  using Bandit = const HighDimensionalBandit;
  py::class_<HighDimensionalBandit, BanditLearner>(m, "HighDimensionalBandit")
      .def(py::init(&make_bandit))
      .def("coefficients", array_getter<Bandit>(&table_size, &HighDimensionalBandit::coefficients))
      .def("leaf", &leaf)
      .def("nonprivate_sums", &nonprivate_sums)
      .def("clocks", &clocks);
}

}  // namespace dpoco::bindings
