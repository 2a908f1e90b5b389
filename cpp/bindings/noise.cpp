#include "common.hpp"
#include "dpoco/noise/discrete.hpp"
#include "dpoco/noise/exponential.hpp"
#include "dpoco/noise/rounded_gaussian.hpp"
#include "dpoco/noise/samplers.hpp"

namespace dpoco::bindings {

using noise::Decisions;
using noise::DiscreteGaussian;
using noise::DiscreteLaplace;
using noise::GeneralizedGaussian;
using random::Source;

namespace {

using Words = std::span<const std::uint64_t>;
using Whole = std::span<std::int64_t>;

Decisions decisions(bool exact) { return exact ? Decisions::exact : Decisions::fast; }

template <class From>
void fill_discrete(From& words, const std::string& law, noise::Ratio scale, bool exact, Whole out) {
  if (law == "laplace") {
    const DiscreteLaplace laplace(scale, decisions(exact));
    if constexpr (std::is_same_v<From, Source>) return laplace.draw_many(words, out);
    return noise::fill(laplace, words, out);
  }
  noise::fill(DiscreteGaussian(scale, decisions(exact)), words, out);
}

}  // namespace

// dpoco.random.Source holds a lock of its own where the interpreter's is released.
void register_noise(py::module_& m) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  m.def("fill_gamma", &noise::gammas, Unlocked());
  m.def("fill_generalized_gaussian", [](Source& source, double order, double scale, Array& out) {
    const auto d = static_cast<std::size_t>(out.shape(1));  // rows are vectors
    const RealsOut to = writable(out);
    const py::gil_scoped_release nogil;
    GeneralizedGaussian sampler(static_cast<Index>(d), order, scale);
    for (std::size_t i = 0; i < to.size(); i += d) sampler.sample(source, to.subspan(i, d));
  });
  m.def(
      "fill_discrete",
      [](Source& source, const std::string& law, double numerator, double denominator, bool exact,
         Whole out) { fill_discrete(source, law, {numerator, denominator}, exact, out); },
      Unlocked());
  // The rest is for tests.
  m.def(
      "fill_rounded_gaussian",
      [](Source& source, double scale, RealsOut out) {
        noise::RoundedGaussian(scale).fill(source, out);
      },
      Unlocked());
  // The words behind the pair of the Gaussian variate at a position, and further digits of that
  // pair, in turns for radius and angle.
  m.def("gaussian_words", [](const Source& source, std::uint64_t position) {
    const random::PairWords pair = source.words_behind_gaussian(position);
    return std::make_pair(pair.radius, pair.angle);
  });
  m.def("gaussian_digits", [](const Source& source, std::uint64_t position) {
    Plain<std::uint64_t> out(static_cast<py::ssize_t>(Source::kPairDigits));
    source.further_digits(random::Variate::gaussian, position,
                          writable(out).first<Source::kPairDigits>());
    return out;
  });
  // One value from given words. Returns it and how many further words it took.
  m.def("rounded_gaussian_on", [](std::uint64_t radius, std::uint64_t angle, bool second,
                                  double scale, Words further, bool exact) {
    noise::PairDigits tape(further);
    const auto value =
        noise::RoundedGaussian(scale).resolve({radius, angle, second}, tape, decisions(exact));
    return std::make_pair(value, tape.used());
  });
  // Whether a uniform of given digits is below exp(log_p).
  m.def("is_below_exp", [](std::uint64_t word, Words further, double log_p, bool exact) {
    random::Digits digits{word, {}};
    std::copy_n(further.begin(), std::min(further.size(), digits.further.size()),
                digits.further.begin());
    return noise::is_below_exp(digits, log_p, decisions(exact));
  });
  // Decisions on given words. Returns how many were used.
  m.def("decide_discrete", [](Words words, const std::string& law, double numerator,
                              double denominator, bool exact, Whole out) {
    noise::WordTape tape(words);
    fill_discrete(tape, law, {numerator, denominator}, exact, out);
    return tape.used();
  });
  // The laws with both tails: "cube" fills one vector.
  m.def("fill_exact", [](Source& source, const std::string& law, double scale, RealsOut out) {
    if (law == "cube") return noise::cube_exponential(source, scale, out);
    (law == "laplace" ? noise::laplaces : noise::exponentials)(source, out);
    for (double& each : out) each *= scale;
  });
  m.def("fill_mended", [](Source& source, double x, RealsOut out) {
    for (double& each : out) each = noise::mend(source, x);
  });
}

}  // namespace dpoco::bindings
