#include "mechanism_fields.hpp"
#include "registrars.hpp"
#include "rounds.hpp"

namespace dpoco::bindings {

using mechanisms::ContinualSum;

namespace {

using Clipper = std::optional<losses::RecordClipper>;

Clipper read_clipper(Fields& summand) {
  if (summand.kind() == "interval_totals") {
    // The tally bounds what a record adds to a total, so the sum does not clip.
    for (const char* kept : {"cells", "units", "records"}) summand.skip(kept);
    return std::nullopt;
  }
  summand.expect_kind("clipped_vector");
  return read_vector(summand);
}

// Every vector is one push.
ContinualSum make_sum_of_vectors(const py::object& mechanism, const py::object& claim) {
  auto [sum, clipper] = read_gaussian_sum(mechanism, read_clipper);
  if (sum.batches.first != 1 || sum.batches.growth != Growth::none) {
    throw std::invalid_argument("a sum of vectors has no batches");
  }
  return mechanisms::make_sum(sum.settings, read_claim(claim), std::move(clipper));
}

}  // namespace

void register_mechanisms(py::module_& m) {
  py::class_<ContinualSum> sum(m, "ContinualSum");
  sum.def(py::init(&make_sum_of_vectors))
      .def("push",
           [](ContinualSum& self, Reals value) {
             expect_size(value, static_cast<std::size_t>(self.dimension()), "value");
             Array out(self.dimension());
             self.push(value, writable(out));
             return out;
           })
      .def("run", [](ContinualSum& self, Reals values, RealsOut out) {
        const auto d = static_cast<std::size_t>(self.dimension());
        expect_size(values, values.size() / d * d, "values");
        expect_size(out, values.size(), "out");
        const auto entered = self.enter();   // while the interpreter lock still orders the threads
        const py::gil_scoped_release nogil;  // no Python object is used below
        self.run(entered, values, out);
      });
  bind_rounds(sum);
}

}  // namespace dpoco::bindings
