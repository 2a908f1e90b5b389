#include <vector>

#include "dpoco/evaluation/best_sequences.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using evaluation::LossTable;

namespace {

LossTable table_of(const Array& losses) {
  if (losses.ndim() != 2) throw std::invalid_argument("losses must be a matrix");
  return {.losses = entries(losses),
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
  Integers decisions(static_cast<py::ssize_t>(best.decisions.size()));
  std::ranges::copy(best.decisions, writable(decisions).begin());
  return py::make_tuple(Array(static_cast<py::ssize_t>(best.costs.size()), best.costs.data()),
                        decisions);
}

double interval_regret(Reals own_losses, const Array& losses, double allowance) {
  const LossTable table = table_of(losses);
  expect_size(own_losses, table.rounds, "own_losses");
  const py::gil_scoped_release nogil;
  return evaluation::interval_regret(table, own_losses, allowance);
}

}  // namespace

void register_evaluation(py::module_& m) {
  m.def("best_switching_sequence", &best_switching_sequence);
  m.def("interval_regret", &interval_regret);
}

}  // namespace dpoco::bindings
