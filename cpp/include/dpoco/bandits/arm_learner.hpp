#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::bandits {

// The model of one arm: it learns to predict the arm's rewards from contexts, on a clock of its
// own. Pointers are to dimension() doubles.
class ArmLearner {
 public:
  virtual ~ArmLearner() = default;

  virtual std::size_t dimension() const noexcept = 0;
  virtual std::uint64_t round() const noexcept = 0;    // of the arm's clock
  virtual std::uint64_t horizon() const noexcept = 0;  // rounds that clock can count
  virtual random::Source& source() noexcept = 0;

  // Each ends a round of the arm's clock: with a record, or with one that adds exactly nothing.
  virtual void observe(const double* context, double reward) = 0;
  virtual void skip() = 0;
  // The current coefficients: a released value.
  virtual void estimate(double* out) const = 0;

  // What a record adds to the sums in the current round, and those sums: private data, for audits.
  virtual void leaf(const double* context, double reward, double* out) const = 0;
  virtual std::vector<double> nonprivate_sum() const = 0;

  virtual void write(Archive& archive) const = 0;
  virtual void read(ArchiveReader& archive) = 0;
};

// An online Frank-Wolfe learner of a generalised linear loss as the model of an arm.
template <class Engine>
class FrankWolfeArm final : public ArmLearner {
 public:
  explicit FrankWolfeArm(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  std::size_t dimension() const noexcept override {
    return static_cast<std::size_t>(engine_->dimension());
  }
  std::uint64_t round() const noexcept override { return engine_->round(); }
  std::uint64_t horizon() const noexcept override { return engine_->horizon(); }
  random::Source& source() noexcept override {
    if constexpr (requires(Engine& engine) { engine.source(); }) {
      return engine_->source();
    } else {
      return engine_->sum().source();
    }
  }

  void observe(const double* context, double reward) override {
    engine_->observe(engine_->round(), context, reward);
  }
  void skip() override { engine_->skip(engine_->round()); }
  void estimate(double* out) const override { engine_->decision(out); }

  void leaf(const double* context, double reward, double* out) const override {
    std::vector<double> at(dimension());
    std::vector<double> previous(dimension());
    engine_->decision(at.data());
    engine_->previous_decision(previous.data());
    engine_->leaf(at.data(), previous.data(), context, reward, out);
  }
  std::vector<double> nonprivate_sum() const override {
    if constexpr (requires(const Engine& engine) { engine.nonprivate_sum(); }) {
      return engine_->nonprivate_sum();
    } else {
      return engine_->sum().nonprivate_sum();
    }
  }

  void write(Archive& archive) const override { engine_->write(archive); }
  void read(ArchiveReader& archive) override { engine_->read(archive); }

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace dpoco::bandits
