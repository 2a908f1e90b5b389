#include "repeated_runs.hpp"

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

using Keys = py::array_t<std::uint64_t, py::array::c_style>;
using Integers = py::array_t<std::int64_t, py::array::c_style>;
using NoisyMaxAnswers = mechanisms::Answers<mechanisms::NoisyMax>;
using AboveThresholdAnswers = mechanisms::Answers<mechanisms::AboveThreshold>;

// Rows of `width` entries, one a run, in an array of the caller's.
template <class T>
class Outcomes {
 public:
  explicit Outcomes(py::array_t<T, py::array::c_style>& out, std::size_t runs)
      : data_(out.mutable_data()),
        width_(runs == 0 ? 0 : static_cast<std::size_t>(out.size()) / runs) {
    if (static_cast<std::size_t>(out.size()) != runs * width_) {
      throw std::invalid_argument("out must have one row a run");
    }
  }
  std::size_t width() const noexcept { return width_; }
  T* row(std::size_t run) const noexcept { return data_ + run * width_; }
  std::string bytes(std::size_t run) const {
    std::string copy(width_ * sizeof(T), '\0');
    std::memcpy(copy.data(), row(run), copy.size());
    return copy;
  }

 private:
  T* data_;
  std::size_t width_;
};

// ---- decisions that are integers ----------------------------------------------------------------

class PlayExperts {
 public:
  PlayExperts(const Array& losses, Outcomes<std::int64_t> out)
      : losses_(entries(losses)), out_(out) {
    own_.resize(out_.width());
  }
  void operator()(experts::ExpertLearner& self, std::size_t run) {
    if (losses_.size() != self.experts() * own_.size()) {
      throw std::invalid_argument("losses: wrong size");
    }
    self.run(self.enter(), losses_, own_, {out_.row(run), own_.size()});
  }
  std::string outcome(std::size_t run) const { return out_.bytes(run); }

 private:
  std::span<const double> losses_;
  Outcomes<std::int64_t> out_;
  std::vector<double> own_;
};

class PlayBandit {
 public:
  PlayBandit(const Array& contexts, const Array& rewards, Outcomes<std::int64_t> out)
      : contexts_(contexts), rewards_(rewards), out_(out) {
    own_.resize(out_.width());
    context_data_ = data(contexts_);
    reward_data_ = data(rewards_);
  }
  void operator()(bandits::BanditLearner& self, std::size_t run) {
    expect_size(contexts_, out_.width() * self.dimension(), "contexts");
    expect_size(rewards_, out_.width() * self.arms(), "rewards");
    self.run(self.enter(), context_data_, reward_data_, out_.width(), out_.row(run), own_.data());
  }
  std::string outcome(std::size_t run) const { return out_.bytes(run); }

 private:
  const Array& contexts_;
  const Array& rewards_;
  const double* context_data_;
  const double* reward_data_;
  Outcomes<std::int64_t> out_;
  std::vector<double> own_;
};

class PlaySelections {
 public:
  PlaySelections(const Array& scores, Outcomes<std::int64_t> out)
      : scores_(entries(scores)), out_(out) {}
  void operator()(NoisyMaxAnswers& self, std::size_t run) {
    const std::uint64_t n = self.settings().candidates;
    if (scores_.size() != n * out_.width()) throw std::invalid_argument("scores: wrong size");
    std::int64_t* to = out_.row(run);
    for (std::size_t t = 0; t < out_.width(); ++t) {
      const std::span<const double> row = scores_.subspan(t * n, n);
      to[t] = self.answer([row](mechanisms::NoisyMax& law, random::Source& source, bool) {
        return static_cast<std::int64_t>(law.select(row, source));
      });
    }
  }
  std::string outcome(std::size_t run) const { return out_.bytes(run); }

 private:
  std::span<const double> scores_;
  Outcomes<std::int64_t> out_;
};

// 1 for an alarm, 0 for none, -1 for queries after the last alarm, which are not answered.
class PlayTests {
 public:
  PlayTests(const Array& excesses, Outcomes<std::int64_t> out)
      : excesses_(data(excesses)), out_(out) {
    expect_size(excesses, out_.width(), "excesses");
  }
  void operator()(AboveThresholdAnswers& self, std::size_t run) {
    std::int64_t* to = out_.row(run);
    std::uint64_t alarms = 0;
    for (std::size_t t = 0; t < out_.width(); ++t) {
      if (alarms == self.settings().alarms) {
        to[t] = -1;
        continue;
      }
      const double excess = excesses_[t];
      to[t] = self.answer(
          [excess](mechanisms::AboveThreshold& law, random::Source& source, bool first) {
            return law.test_armed_once(excess, source, first) ? 1 : 0;
          });
      alarms += static_cast<std::uint64_t>(to[t]);
    }
  }
  std::string outcome(std::size_t run) const { return out_.bytes(run); }

 private:
  const double* excesses_;
  Outcomes<std::int64_t> out_;
};

// ---- decisions that are vectors -----------------------------------------------------------------

// What is kept of T decisions of dimension d: all of them; or their inner products with
// `directions`, of T d entries each; or the one after the last round. Then, if `marks`, one entry a
// round: whether it changed the decision.
class VectorOutcome {
 public:
  VectorOutcome(std::size_t rounds, const py::object& directions, bool last, bool marks,
                Outcomes<double> out)
      : rounds_(rounds), last_(last), marks_(marks), out_(out), changed_(rounds, 0) {
    if (!directions.is_none()) directions_ = directions.cast<Array>();
    kept_ = out_.width() - (marks_ ? rounds_ : 0);
    direction_data_ = directions_.size() > 0 ? data(directions_) : nullptr;
  }

  std::size_t rounds() const noexcept { return rounds_; }
  bool last() const noexcept { return last_; }
  std::uint8_t* changed() noexcept { return changed_.data(); }
  std::string outcome(std::size_t run) const { return out_.bytes(run); }

  // Where T decisions of dimension d are written first.
  double* decisions(std::size_t run, std::size_t d) {
    const std::size_t entries = rounds_ * d;
    const bool direct = direction_data_ == nullptr && !last_;
    const bool fits = direct  ? kept_ == entries
                      : last_ ? kept_ == d
                              : static_cast<std::size_t>(directions_.size()) == kept_ * entries;
    if (!fits) throw std::invalid_argument("out has the wrong number of entries");
    if (direct) return out_.row(run);
    all_.resize(entries);
    return all_.data();
  }

  // After the rounds; `latest` has the decision after them.
  void finish(std::size_t run, const double* latest) {
    double* to = out_.row(run);
    if (last_) {
      std::copy(latest, latest + kept_, to);
    } else if (direction_data_ != nullptr) {
      const double* direction = direction_data_;
      for (std::size_t k = 0; k < kept_; ++k) {
        double sum = 0.0;
        for (const double each : all_) sum += each * *direction++;
        to[k] = sum;
      }
    }
    if (!marks_) return;
    for (std::size_t t = 0; t < rounds_; ++t) to[kept_ + t] = static_cast<double>(changed_[t]);
  }

 private:
  std::size_t rounds_;
  bool last_;
  bool marks_;
  Outcomes<double> out_;
  Array directions_;
  const double* direction_data_ = nullptr;
  std::size_t kept_ = 0;
  std::vector<std::uint8_t> changed_;
  std::vector<double> all_;
};

// Learners of records, on features and labels or on gradients; coupled ones also on matrices and
// vectors.
class PlayRecords {
 public:
  PlayRecords(const Array& features, const py::object& labels, VectorOutcome out)
      : features_(features), out_(std::move(out)) {
    if (!labels.is_none()) {
      labels_ = labels.cast<Array>();
      label_data_ = entries(labels_);
      labelled_ = true;
    }
    feature_data_ = entries(features_);
    losses_.resize(out_.rounds());
  }

  void operator()(oco::RecordLearner& self, std::size_t run) {
    const auto d = static_cast<std::size_t>(self.dimension());
    const std::size_t rounds = out_.rounds();
    double* decisions = out_.decisions(run, d);
    auto* coupled = dynamic_cast<oco::CoupledLearner*>(&self);
    if (coupled != nullptr && static_cast<std::size_t>(features_.size()) == rounds * d * d &&
        d > 1) {
      play_matrices(*coupled, decisions);
      finish(self, run, d);
      return;
    }
    expect_size(features_, rounds * d, "features");
    if (labelled_) expect_size(labels_, rounds, "labels");
    {
      const auto entered = self.enter();
      self.run(entered, feature_data_, label_data_, losses_, {decisions, rounds * d},
               {out_.changed(), rounds});
    }
    finish(self, run, d);
  }
  std::string outcome(std::size_t run) const { return out_.outcome(run); }

 private:
  void finish(const oco::RecordLearner& self, std::size_t run, std::size_t d) {
    if (out_.last()) {
      latest_.resize(d);
      self.decision(latest_);
    }
    out_.finish(run, latest_.data());
  }

  void play_matrices(oco::CoupledLearner& self, double* decisions) {
    const auto d = static_cast<std::size_t>(self.dimension());
    if (!labelled_) throw std::invalid_argument("matrices come with vectors");
    expect_size(labels_, out_.rounds() * d, "vectors");
    for (std::size_t t = 0; t < out_.rounds(); ++t) {
      self.decision({decisions + t * d, d});
      const std::uint64_t before = self.switches();
      self.observe_quadratic(t, feature_data_.subspan(t * d * d, d * d),
                             label_data_.subspan(t * d, d));
      out_.changed()[t] = self.switches() != before;
    }
  }

  const Array& features_;
  Array labels_;
  std::span<const double> feature_data_;
  std::span<const double> label_data_;
  bool labelled_ = false;
  VectorOutcome out_;
  std::vector<double> losses_;
  std::vector<double> latest_;
};

class PlaySums {
 public:
  PlaySums(const Array& values, VectorOutcome out)
      : values_(values), from_(entries(values)), out_(std::move(out)) {}
  void operator()(mechanisms::ContinualSum& self, std::size_t run) {
    const auto d = static_cast<std::size_t>(self.dimension());
    expect_size(values_, out_.rounds() * d, "values");
    double* sums = out_.decisions(run, d);
    self.run(self.enter(), from_, {sums, from_.size()});
    out_.finish(run, sums + (out_.rounds() - 1) * d);
  }
  std::string outcome(std::size_t run) const { return out_.outcome(run); }

 private:
  const Array& values_;
  std::span<const double> from_;
  VectorOutcome out_;
};

// ---- which is which -----------------------------------------------------------------------------

template <class Engine, class Play>
std::size_t repeat(const py::function& build, const Keys& keys, Play play) {
  return RepeatedRuns<Engine, Play>(build, keys, play).run();
}

std::size_t repeat_decisions(const std::string& kind, const py::function& build, const Keys& keys,
                             const Array& stream, const py::object& rewards, Integers& out) {
  const Outcomes<std::int64_t> rows(out, static_cast<std::size_t>(keys.size()) / 4);
  if (kind == "experts") {
    return repeat<experts::ExpertLearner>(build, keys, PlayExperts(stream, rows));
  }
  if (kind == "selections") {
    return repeat<NoisyMaxAnswers>(build, keys, PlaySelections(stream, rows));
  }
  if (kind == "tests") return repeat<AboveThresholdAnswers>(build, keys, PlayTests(stream, rows));
  if (kind == "bandit") {
    const auto table = rewards.cast<Array>();
    return repeat<bandits::BanditLearner>(build, keys, PlayBandit(stream, table, rows));
  }
  throw std::invalid_argument("unknown kind of decisions");
}

std::size_t repeat_vectors(const std::string& kind, const py::function& build, const Keys& keys,
                           const Array& features, const py::object& labels, std::uint64_t rounds,
                           const py::object& directions, bool last, bool marks, Array& out) {
  const Outcomes<double> rows(out, static_cast<std::size_t>(keys.size()) / 4);
  if (rounds < 1) throw std::invalid_argument("a stream must have at least one round");
  VectorOutcome outcome(rounds, directions, last, marks, rows);
  if (kind == "ContinualSum") {
    return repeat<mechanisms::ContinualSum>(build, keys, PlaySums(features, std::move(outcome)));
  }
  return repeat<oco::RecordLearner>(build, keys, PlayRecords(features, labels, std::move(outcome)));
}

}  // namespace

// For `dpoco.audit`. Both return how many engines they built.
void register_repeated_runs(py::module_& m) {
  m.def("repeat_decisions", &repeat_decisions, "kind"_a, "build"_a, "keys"_a.noconvert(),
        "stream"_a.noconvert(), "rewards"_a, "out"_a.noconvert());
  m.def("repeat_vectors", &repeat_vectors, "kind"_a, "build"_a, "keys"_a.noconvert(),
        "features"_a.noconvert(), "labels"_a, "rounds"_a, "directions"_a, "last"_a, "marks"_a,
        "out"_a.noconvert());
}

}  // namespace dpoco::bindings
