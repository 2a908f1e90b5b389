// dpoco_probes: what tests in Python see of the insides of the core, and no user has. Digits of
// variates, laws without noise and engines' states must not be published, so the package's own
// extension has none of them. Engines, sources and domains are those of dpoco._core, which is
// imported first: both extensions know the types of either.
#include "common.hpp"
#include "dpoco/bandits/high_dimensional_bandit.hpp"
#include "dpoco/bandits/residual_phases.hpp"
#include "dpoco/domains/floored_simplex.hpp"
#include "dpoco/experts/oblivious_tracker.hpp"
#include "dpoco/local/hedge.hpp"
#include "dpoco/mechanisms/additive_noise.hpp"
#include "dpoco/mechanisms/vertex_selection.hpp"
#include "dpoco/noise/discrete.hpp"
#include "dpoco/noise/exponential.hpp"
#include "dpoco/noise/rounded_gaussian.hpp"
#include "dpoco/oco/continuous_multiplicative_weights.hpp"
#include "dpoco/oco/coupled_regularized_leader.hpp"
#include "dpoco/random/source.hpp"
#include "dpoco/samplers/special.hpp"
#include "dpoco/samplers/truncated_normal.hpp"
#include "dpoco/simd/kernels.hpp"
#include "gibbs_sampler.hpp"
#include "shift_statistic_fields.hpp"

namespace dpoco::bindings {
namespace {

using random::Source;
using random::Variate;
using samplers::SwitchingPaths;
using Words = std::span<const std::uint64_t>;
using Further = std::vector<std::uint64_t>;

random::Digits digits_from(std::uint64_t word, Words further) {
  random::Digits digits{word, {}};
  std::copy_n(further.begin(), std::min(further.size(), digits.further.size()),
              digits.further.begin());
  return digits;
}

Variate variate_from(unsigned kind) {
  if (kind >= random::kVariates) throw std::invalid_argument("unknown kind of variate");
  return static_cast<Variate>(kind);
}

noise::Decisions decisions(bool exact) {
  return exact ? noise::Decisions::exact : noise::Decisions::fast;
}

// out_i = function(x_i).
template <class Function>
Array map(Reals x, Function function) {
  Array out(static_cast<py::ssize_t>(x.size()));
  std::ranges::transform(x, writable(out).begin(), function);
  return out;
}

void probe_random(py::module_& m) {
  m.def("select_instruction_set", &simd::select);
  // The variate of a word and further ones (of a Gaussian: its radius), and the distances of such a
  // uniform variate from 0 and from 1.
  m.def("variate", [](unsigned kind, std::uint64_t word, const Further& further) {
    return random::to_variate(variate_from(kind), word, further);
  });
  m.def("uniform", [](std::uint64_t word, unsigned bits, const Further& further) {
    const random::Uniform u = random::to_uniform(word, bits, further);
    return std::make_pair(u.value, u.complement);
  });
  // Mends a superblock of values in place; returns whether any looked open.
  m.def("mend_variates", [](unsigned kind, const std::vector<std::uint64_t>& raw, RealsOut values,
                            const std::vector<Further>& further) {
    constexpr std::size_t kSize = simd::kSuperblock;
    if (raw.size() != kSize || further.size() != kSize || values.size() != kSize) {
      throw std::invalid_argument("a superblock is wanted");
    }
    const bool open = random::may_be_open(variate_from(kind), values);
    random::mend(variate_from(kind), std::span(raw).first<kSize>(), values.first<kSize>(),
                 [&](std::size_t i) { return digits_from(raw[i], further[i]); });
    return open;
  });
  m.def("complement", &Source::complement);
  m.def("position",
        [](const Source& source, unsigned kind) { return source.position(variate_from(kind)); });
  m.def("digits_at", [](const Source& source, unsigned kind, std::uint64_t place) {
    const random::Digits digits = source.digits_at(variate_from(kind), place);
    return std::make_pair(digits.word, digits.further);
  });
}

void probe_noise(py::module_& m) {
  m.def(
      "fill_rounded_gaussian",
      [](Source& source, double scale, RealsOut out) {
        noise::RoundedGaussian(scale).fill(source, out);
      },
      py::call_guard<py::gil_scoped_release>());
  // The words behind the pair of the Gaussian variate at a position, and further digits of that
  // pair, in turns for radius and angle.
  m.def("gaussian_words", [](const Source& source, std::uint64_t position) {
    const random::PairWords pair = source.words_behind_gaussian(position);
    return std::make_pair(pair.radius, pair.angle);
  });
  m.def("gaussian_digits", [](const Source& source, std::uint64_t position) {
    Plain<std::uint64_t> out(static_cast<py::ssize_t>(Source::kPairDigits));
    source.further_digits(Variate::gaussian, position, writable(out).first<Source::kPairDigits>());
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
    return noise::is_below_exp(digits_from(word, further), log_p, decisions(exact));
  });
  // Decisions on given words. Returns how many were used.
  m.def("decide_discrete", [](Words words, const std::string& law, double numerator,
                              double denominator, bool exact, std::span<std::int64_t> out) {
    noise::WordTape tape(words);
    const noise::Ratio scale{numerator, denominator};
    if (law == "laplace") {
      noise::fill(noise::DiscreteLaplace(scale, decisions(exact)), tape, out);
    } else {
      noise::fill(noise::DiscreteGaussian(scale, decisions(exact)), tape, out);
    }
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

void probe_samplers(py::module_& m) {
  m.def("fill_truncated_gamma", [](Source& source, double shape, double limit, RealsOut out) {
    for (double& each : out) each = samplers::truncated_gamma(source, shape, limit);
  });
  m.def("log_normal_interval", [](double half_width, double mean) {
    return samplers::log_normal_box({&half_width, 1}, {&mean, 1}, 1.0);
  });
  m.def("log_gamma", &samplers::log_gamma);
  m.def("log_gamma_p", [](double a, Reals x) {
    const samplers::IncompleteGamma gamma(a);
    return map(x, [&](double each) { return gamma(each).log_p; });
  });
  m.def("gamma_elasticity", [](double a, Reals x) {
    const samplers::IncompleteGamma gamma(a);
    return map(x, [&](double each) { return gamma(each).elasticity; });
  });
  m.def("gibbs_mode", &GibbsSampler::mode);
  m.def("gibbs_report", &GibbsSampler::report);
}

// One release of a vector; of scale 0, the vector itself.
Array release_vector(Source& source, const std::string& law, double scale, Reals x, double grid) {
  using mechanisms::AdditiveLaw;
  const auto dimension = static_cast<Index>(x.size());
  const AdditiveLaw added = scale == 0.0        ? AdditiveLaw::none
                            : law == "knorm"    ? AdditiveLaw::cube_exponential
                            : law == "gaussian" ? AdditiveLaw::gaussian
                                                : AdditiveLaw::laplace;
  const auto release = mechanisms::make_additive_noise(added, scale, dimension, grid);
  Array out(dimension);
  release->release(x, source, writable(out));
  return out;
}

Array project_floored_simplex(Reals log_v, double floor) {
  const std::size_t n = log_v.size();
  std::vector<double> scratch(n);
  return read_only(static_cast<py::ssize_t>(n), [&](RealsOut out) {
    domains::project_floored_simplex(log_v, floor, scratch, out);
  });
}

void probe_experts(py::module_& m) {
  m.def("project_floored_simplex", &project_floored_simplex);
  m.def("release_vector", &release_vector, "source"_a, "law"_a, "scale"_a, "x"_a, "grid"_a = 0.0);

  using experts::ShiftStatistic;
  py::class_<ShiftStatistic>(m, "ShiftStatistic")
      .def(py::init([](const py::object& settings) {
        return ShiftStatistic(read_shift_statistic({settings, "a statistic of shifts"}));
      }))
      .def("update",
           [](ShiftStatistic& self, std::uint64_t own, Reals losses, double allowance) {
             expect_size(losses, self.experts(), "losses");
             return self.update(own, losses, allowance);
           })
      .def("reset", &ShiftStatistic::reset);

  // Shapes (levels, N) and (levels,).
  py::class_<SwitchingPaths>(m, "SwitchingPaths")
      .def_static("of_share", &samplers::make_share_paths)
      .def_static("of_at_most", &samplers::make_at_most_paths)
      .def("learn",
           [](SwitchingPaths& self, Reals losses) {
             expect_size(losses, self.experts(), "losses");
             self.learn(losses);
           })
      .def("skip", &SwitchingPaths::skip)
      .def("law",
           [](const SwitchingPaths& self) {
             Array out({static_cast<py::ssize_t>(self.levels()),
                        static_cast<py::ssize_t>(self.experts())});
             self.nonprivate_law(writable(out));
             return out;
           })
      .def("move_chances", [](const SwitchingPaths& self) {
        std::vector<double> out(self.levels());
        for (std::size_t level = 0; level < out.size(); ++level) {
          out[level] = self.move_chance(level);
        }
        return make_array(out);
      });
  m.def("set_path",
        [](experts::ObliviousTracker& tracker, std::uint64_t level, std::uint64_t expert) {
          tracker.nonprivate_set_state({.level = level, .expert = expert});
        });
}

void probe_learners(py::module_& m) {
  using mechanisms::VertexSelection;
  py::class_<VertexSelection>(m, "VertexSelection")
      .def(py::init([](std::shared_ptr<const domains::Domain> domain, bool gumbel) {
        return mechanisms::make_vertex_selection(
            std::move(domain),
            gumbel ? mechanisms::SelectionNoise::gumbel : mechanisms::SelectionNoise::laplace);
      }))
      .def("select", [](VertexSelection& self, Reals direction, double rate, Source& source) {
        expect_size(direction, static_cast<std::size_t>(self.dimension()), "direction");
        return read_only(self.dimension(),
                         [&](RealsOut out) { self.select(direction, rate, source, out); });
      });

  using Leader = oco::CoupledRegularizedLeader;
  const auto coordinates = [](const Leader& leader, Reals u) {
    expect_size(u, static_cast<std::size_t>(leader.intrinsic_dimension()), "u");
    return u;
  };
  m.def("clip_width", &Leader::clip_width);
  m.def("grid", &Leader::grid);
  m.def("residual", &Leader::nonprivate_residual);
  m.def("log_density", [=](Leader& leader, Reals u) {
    return leader.nonprivate_log_density(coordinates(leader, u));
  });
  m.def("log_ratio_at", [=](Leader& leader, Reals u) {
    return leader.nonprivate_log_ratio_at(coordinates(leader, u));
  });
  m.def("log_change", &oco::ContinuousMultiplicativeWeights::nonprivate_log_change);

  m.def("diameter", &domains::Domain::diameter);
  m.def("max_norm", &domains::Domain::max_norm);
  m.def("hedge_losses", [](const local::Hedge& hedge) { return make_array(hedge.losses()); });
  m.def("curvatures", [](const losses::GlmLoss& loss, Reals margins, Reals labels) {
    expect_size(labels, margins.size(), "labels");
    std::vector<double> out(margins.size());
    std::ranges::transform(margins, labels, out.begin(), [&](double margin, double label) {
      return loss.curvature(margin, label);
    });
    return make_array(out);
  });
  m.def("public_draws", [](std::size_t dimension) {
    return make_array(view(*bandits::ResidualPhases::public_draws(dimension)));
  });
  m.def("frozen", [](const bandits::HighDimensionalBandit& bandit) {
    return read_only(static_cast<py::ssize_t>(bandit.sources() * bandit.dimension()),
                     [&](RealsOut out) { bandit.frozen(out); });
  });
}

}  // namespace
}  // namespace dpoco::bindings

PYBIND11_MODULE(dpoco_probes, m, pybind11::mod_gil_not_used()) {
  using namespace dpoco::bindings;
  py::module_::import("dpoco._core");
  dpoco::random::fork_generation();  // from here on, forks are counted as in dpoco._core
  probe_random(m);
  probe_noise(m);
  probe_samplers(m);
  probe_experts(m);
  probe_learners(m);
}
