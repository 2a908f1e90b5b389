#include "repeated_runs.hpp"

#include <functional>
#include <optional>

#include "dpoco/bandits/bandit_learner.hpp"
#include "dpoco/experts/expert_learner.hpp"
#include "dpoco/mechanisms/above_threshold.hpp"
#include "dpoco/mechanisms/answers.hpp"
#include "dpoco/mechanisms/continual_sum.hpp"
#include "dpoco/mechanisms/noisy_max.hpp"
#include "dpoco/oco/coupled_learner.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

namespace {

using Keys = Plain<std::uint64_t>;
using NoisyMaxAnswers = mechanisms::Answers<mechanisms::NoisyMax>;
using AboveThresholdAnswers = mechanisms::Answers<mechanisms::AboveThreshold>;

// Rows of `width` entries, one for each run, in an array of the caller.
template <class T>
class Outcomes {
 public:
  Outcomes(std::span<T> out, std::size_t runs)
      : data_(out), width_(runs == 0 ? 0 : out.size() / runs) {
    if (out.size() != runs * width_) throw std::invalid_argument("out must have one row a run");
  }
  std::size_t width() const noexcept { return width_; }
  std::span<T> row(std::size_t run) const { return data_.subspan(run * width_, width_); }
  std::string outcome(std::size_t run) const {
    return {reinterpret_cast<const char*>(row(run).data()), width_ * sizeof(T)};
  }

 private:
  std::span<T> data_;
  std::size_t width_;
};

// ---- decisions that are integers ----------------------------------------------------------------

// `rounds(engine, to)` plays a stream and writes one decision per round.
template <class Engine>
struct PlayDecisions : Outcomes<std::int64_t> {
  using Rounds = std::function<void(Engine&, std::span<std::int64_t> to)>;

  PlayDecisions(Outcomes<std::int64_t> out, Rounds play)
      : Outcomes<std::int64_t>(out), rounds(std::move(play)) {}
  void operator()(Engine& self, std::size_t run) { rounds(self, row(run)); }

  Rounds rounds;
};

// Writes 1 for an alarm, 0 for none, and -1 for queries after the last alarm, which get no answer.
void play_tests(AboveThresholdAnswers& self, Reals excesses, std::span<std::int64_t> to) {
  std::uint64_t alarms = 0;
  for (std::size_t t = 0; t < to.size(); ++t) {
    if (alarms == self.settings().alarms) {
      to[t] = -1;
      continue;
    }
    const double excess = excesses[t];
    to[t] =
        self.answer([excess](mechanisms::AboveThreshold& law, random::Source& source, bool first) {
          return law.test_armed_once(excess, source, first) ? 1 : 0;
        });
    alarms += static_cast<std::uint64_t>(to[t]);
  }
}

void play_selections(NoisyMaxAnswers& self, Reals scores, std::span<std::int64_t> to) {
  const std::uint64_t n = self.settings().candidates;
  expect_size(scores, n * to.size(), "scores");
  for (std::size_t t = 0; t < to.size(); ++t) {
    const Reals row = scores.subspan(t * n, n);
    to[t] = self.answer([row](mechanisms::NoisyMax& law, random::Source& source, bool) {
      return static_cast<std::int64_t>(law.select(row, source));
    });
  }
}

// ---- decisions that are vectors -----------------------------------------------------------------

// The outcome of T decisions of dimension d: all decisions, followed, if `marks`, by one entry per
// round that says whether the decision changed.
class VectorOutcome {
 public:
  VectorOutcome(std::size_t rounds, bool marks, Outcomes<double> out)
      : rounds_(rounds), marks_(marks), out_(out), changed_(rounds, 0) {}

  std::size_t rounds() const noexcept { return rounds_; }
  std::span<std::uint8_t> changed() noexcept { return changed_; }
  std::string outcome(std::size_t run) const { return out_.outcome(run); }

  // The place for T decisions of dimension d.
  RealsOut decisions(std::size_t run, std::size_t d) {
    if (out_.width() != rounds_ * (d + (marks_ ? 1 : 0))) {
      throw std::invalid_argument("out has the wrong number of entries");
    }
    return out_.row(run).first(rounds_ * d);
  }

  // Called after the rounds.
  void finish(std::size_t run) {
    if (marks_) std::ranges::copy(changed_, out_.row(run).last(rounds_).begin());
  }

 private:
  std::size_t rounds_;
  bool marks_;
  Outcomes<double> out_;
  std::vector<std::uint8_t> changed_;
};

// Plays learners of records, on features and labels or on gradients, and coupled learners also on
// matrices and vectors.
class PlayRecords {
 public:
  PlayRecords(Reals features, std::optional<Reals> labels, VectorOutcome out)
      : features_(features), labels_(labels), out_(std::move(out)), losses_(out_.rounds()) {}

  void operator()(oco::RecordLearner& self, std::size_t run) {
    const auto d = static_cast<std::size_t>(self.dimension());
    const std::size_t rounds = out_.rounds();
    const RealsOut decisions = out_.decisions(run, d);
    auto* coupled = dynamic_cast<oco::CoupledLearner*>(&self);
    if (coupled != nullptr && features_.size() == rounds * d * d && d > 1) {
      play_matrices(*coupled, decisions, d);
    } else {
      expect_size(features_, rounds * d, "features");
      if (labels_) expect_size(*labels_, rounds, "labels");
      self.run(self.enter(), features_, labels_.value_or(Reals()), losses_, decisions,
               out_.changed());
    }
    out_.finish(run);
  }
  std::string outcome(std::size_t run) const { return out_.outcome(run); }

 private:
  void play_matrices(oco::CoupledLearner& self, RealsOut decisions, std::size_t d) {
    if (!labels_) throw std::invalid_argument("matrices come with vectors");
    expect_size(*labels_, out_.rounds() * d, "vectors");
    for (std::size_t t = 0; t < out_.rounds(); ++t) {
      self.decision(decisions.subspan(t * d, d));
      const std::uint64_t before = self.switches();
      self.observe_quadratic(t, features_.subspan(t * d * d, d * d), labels_->subspan(t * d, d));
      out_.changed()[t] = self.switches() != before;
    }
  }

  Reals features_;
  std::optional<Reals> labels_;
  VectorOutcome out_;
  std::vector<double> losses_;
};

class PlaySums {
 public:
  PlaySums(Reals values, VectorOutcome out) : values_(values), out_(std::move(out)) {}
  void operator()(mechanisms::ContinualSum& self, std::size_t run) {
    const auto d = static_cast<std::size_t>(self.dimension());
    expect_size(values_, out_.rounds() * d, "values");
    self.run(self.enter(), values_, out_.decisions(run, d));
    out_.finish(run);
  }
  std::string outcome(std::size_t run) const { return out_.outcome(run); }

 private:
  Reals values_;
  VectorOutcome out_;
};

// ---- the engine decides how it is played --------------------------------------------------------

template <class Engine, class Play>
std::size_t repeat(const py::function& build, const Keys& keys, Play play) {
  return RepeatedRuns<Engine, Play>(build, keys, play).run();
}

std::size_t repeat_decisions(const std::string& kind, const py::function& build, const Keys& keys,
                             Reals stream, std::optional<Reals> rewards,
                             std::span<std::int64_t> out) {
  using Chosen = std::span<std::int64_t>;
  const Outcomes<std::int64_t> rows(out, static_cast<std::size_t>(keys.size()) / 4);
  const auto play = [&]<class Engine>(typename PlayDecisions<Engine>::Rounds rounds) {
    return repeat<Engine>(build, keys, PlayDecisions<Engine>(rows, std::move(rounds)));
  };
  std::vector<double> own(rows.width());  // losses or rewards, unused here
  if (kind == "experts") {
    return play.operator()<experts::ExpertLearner>([&](auto& self, Chosen to) {
      expect_size(stream, self.experts() * to.size(), "losses");
      self.run(self.enter(), stream, own, to);
    });
  }
  if (kind == "selections") {
    return play.operator()<NoisyMaxAnswers>(
        [&](auto& self, Chosen to) { play_selections(self, stream, to); });
  }
  if (kind == "tests") {
    expect_size(stream, rows.width(), "excesses");
    return play.operator()<AboveThresholdAnswers>(
        [&](auto& self, Chosen to) { play_tests(self, stream, to); });
  }
  if (kind == "bandit" && rewards) {
    return play.operator()<bandits::BanditLearner>([&](auto& self, Chosen to) {
      expect_size(stream, to.size() * self.dimension(), "contexts");
      expect_size(*rewards, to.size() * self.arms(), "rewards");
      self.run(self.enter(), stream, *rewards, to, own);
    });
  }
  throw std::invalid_argument("unknown kind of decisions");
}

std::size_t repeat_vectors(const std::string& kind, const py::function& build, const Keys& keys,
                           Reals features, std::optional<Reals> labels, std::uint64_t rounds,
                           bool marks, RealsOut out) {
  const Outcomes<double> rows(out, static_cast<std::size_t>(keys.size()) / 4);
  if (rounds < 1) throw std::invalid_argument("a stream must have at least one round");
  VectorOutcome outcome(rounds, marks, rows);
  if (kind == "ContinualSum") {
    return repeat<mechanisms::ContinualSum>(build, keys, PlaySums(features, std::move(outcome)));
  }
  return repeat<oco::RecordLearner>(build, keys, PlayRecords(features, labels, std::move(outcome)));
}

}  // namespace

// Used by `dpoco.audit`. Both functions return how many engines they built.
void register_repeated_runs(py::module_& m) {
  m.def("repeat_decisions", &repeat_decisions);
  m.def("repeat_vectors", &repeat_vectors);
}

}  // namespace dpoco::bindings
