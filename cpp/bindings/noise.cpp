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

using Integers = py::array_t<std::int64_t, py::array::c_style>;
using Words = py::array_t<std::uint64_t, py::array::c_style>;

namespace {

template <class From>
void fill_discrete(From& words, const std::string& law, noise::Ratio scale, Decisions decisions,
                   std::size_t n, std::int64_t* out) {
  if (law == "laplace") {
    const DiscreteLaplace laplace(scale, decisions);
    if constexpr (std::is_same_v<From, Source>) return laplace.draw_many(words, n, out);
    return noise::fill(laplace, words, n, out);
  }
  noise::fill(DiscreteGaussian(scale, decisions), words, n, out);
}

}  // namespace

void register_noise(py::module_& m) {
  m.def(
      "fill_gamma",
      [](Source& source, double shape, Array& out) {
        double* to = out.mutable_data();
        const auto n = static_cast<std::size_t>(out.size());
        const py::gil_scoped_release nogil;  // dpoco.random.Source holds a lock of its own
        noise::gammas(source, shape, n, to);
      },
      "source"_a, "shape"_a, "out"_a.noconvert());
  m.def(
      "fill_generalized_gaussian",
      [](Source& source, double order, double scale, Array& out) {  // rows are vectors
        const py::ssize_t rows = out.shape(0);
        const py::ssize_t d = out.shape(1);
        double* to = out.mutable_data();
        const py::gil_scoped_release nogil;
        GeneralizedGaussian sampler(d, order, scale);
        for (py::ssize_t i = 0; i < rows; ++i) sampler.sample(source, to + i * d);
      },
      "source"_a, "order"_a, "scale"_a, "out"_a.noconvert());
  m.def(
      "fill_discrete",
      [](Source& source, const std::string& law, double numerator, double denominator, bool exact,
         Integers& out) {
        std::int64_t* to = out.mutable_data();
        const auto n = static_cast<std::size_t>(out.size());
        const py::gil_scoped_release nogil;
        fill_discrete(source, law, {numerator, denominator},
                      exact ? Decisions::exact : Decisions::fast, n, to);
      },
      "source"_a, "law"_a, "numerator"_a, "denominator"_a, "exact"_a, "out"_a.noconvert());
  m.def(
      "fill_rounded_gaussian",
      [](Source& source, double scale, Array& out) {
        double* to = out.mutable_data();
        const auto n = static_cast<std::size_t>(out.size());
        const py::gil_scoped_release nogil;
        noise::RoundedGaussian(scale).fill(source, to, n);
      },
      "source"_a, "scale"_a, "out"_a.noconvert());
  // For tests: the words behind the pair of the Gaussian variate at a position.
  m.def(
      "gaussian_words",
      [](const Source& source, std::uint64_t position) {
        const random::PairWords pair = source.words_behind_gaussian(position);
        return std::make_pair(pair.radius, pair.angle);
      },
      "source"_a, "position"_a);
  // For tests: further digits of that pair, in turns for radius and angle.
  m.def(
      "gaussian_digits",
      [](const Source& source, std::uint64_t position) {
        py::array_t<std::uint64_t> out(static_cast<py::ssize_t>(Source::kPairDigits));
        source.further_digits(random::Variate::gaussian, position, out.mutable_data());
        return out;
      },
      "source"_a, "position"_a);
  // For tests: one value from given words. Returns it and how many further words it took.
  m.def(
      "rounded_gaussian_on",
      [](std::uint64_t radius, std::uint64_t angle, bool second, double scale, const Words& further,
         bool exact) {
        noise::PairDigits tape({further.data(), static_cast<std::size_t>(further.size())});
        const auto value = noise::RoundedGaussian(scale).resolve(
            {radius, angle, second}, tape, exact ? Decisions::exact : Decisions::fast);
        return std::make_pair(value, tape.used());
      },
      "radius"_a, "angle"_a, "second"_a, "scale"_a, "further"_a.noconvert(), "exact"_a);
  // For tests: whether a uniform of given digits is below exp(log_p).
  m.def(
      "is_below_exp",
      [](std::uint64_t word, const Words& further, double log_p, bool exact) {
        random::Digits digits{word, {}};
        std::copy_n(further.data(), std::min<std::size_t>(further.size(), digits.further.size()),
                    digits.further.begin());
        return noise::is_below_exp(digits, log_p, exact ? Decisions::exact : Decisions::fast);
      },
      "word"_a, "further"_a.noconvert(), "log_p"_a, "exact"_a);
  // For tests: decisions on given words. Returns how many were used.
  m.def(
      "decide_discrete",
      [](const Words& words, const std::string& law, double numerator, double denominator,
         bool exact, Integers& out) {
        noise::WordTape tape({words.data(), static_cast<std::size_t>(words.size())});
        fill_discrete(tape, law, {numerator, denominator},
                      exact ? Decisions::exact : Decisions::fast,
                      static_cast<std::size_t>(out.size()), out.mutable_data());
        return tape.used();
      },
      "words"_a.noconvert(), "law"_a, "numerator"_a, "denominator"_a, "exact"_a,
      "out"_a.noconvert());
  // The laws with both tails, for tests: "cube" fills one vector.
  m.def(
      "fill_exact",
      [](Source& source, const std::string& law, double scale, Array& out) {
        const auto n = static_cast<std::size_t>(out.size());
        double* to = out.mutable_data();
        if (law == "cube") return noise::cube_exponential(source, scale, n, to);
        (law == "laplace" ? noise::laplaces : noise::exponentials)(source, n, to);
        for (std::size_t i = 0; i < n; ++i) to[i] *= scale;
      },
      "source"_a, "law"_a, "scale"_a, "out"_a.noconvert());
  m.def(
      "fill_mended",
      [](Source& source, double x, Array& out) {
        double* to = out.mutable_data();
        for (py::ssize_t i = 0; i < out.size(); ++i) to[i] = noise::mend(source, x);
      },
      "source"_a, "x"_a, "out"_a.noconvert());
}

}  // namespace dpoco::bindings
