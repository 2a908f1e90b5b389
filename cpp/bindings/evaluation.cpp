#include <vector>

#include "dpoco/evaluation/best_sequences.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using evaluation::LossTable;

namespace {

LossTable table_of(const Array& losses) {
  if (losses.ndim() != 2) throw std::invalid_argument("losses must be a matrix");
  return {.losses = data(losses),
          .rounds = static_cast<std::uint64_t>(losses.shape(0)),
          .experts = static_cast<std::uint64_t>(losses.shape(1))};
}

py::tuple best_switching_sequence(const Array& losses, std::uint64_t switches) {
  const LossTable table = table_of(losses);
  evaluation::BestSequence best;
  {
    const py::gil_scoped_release nogil;  // the caller's array outlives the call
    best = evaluation::best_sequence(table, switches);
  }
  py::array_t<std::int64_t> decisions(static_cast<py::ssize_t>(best.decisions.size()));
  std::copy(best.decisions.begin(), best.decisions.end(), decisions.mutable_data());
  Array costs(static_cast<py::ssize_t>(best.costs.size()));
  std::copy(best.costs.begin(), best.costs.end(), costs.mutable_data());
  return py::make_tuple(costs, decisions);
}

double interval_regret(const Array& own_losses, const Array& losses, double allowance) {
  const LossTable table = table_of(losses);
  expect_size(own_losses, table.rounds, "own_losses");
  const double* const own = data(own_losses);
  const py::gil_scoped_release nogil;
  return evaluation::interval_regret(table, own, allowance);
}

}  // namespace

void register_evaluation(py::module_& m) {
  m.def("best_switching_sequence", &best_switching_sequence, "losses"_a.noconvert(), "switches"_a);
  m.def("interval_regret", &interval_regret, "own_losses"_a.noconvert(), "losses"_a.noconvert(),
        "allowance"_a);
}

}  // namespace dpoco::bindings
