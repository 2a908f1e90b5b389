#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dpoco/core/archive.hpp"
#include "dpoco/losses/loss_sum.hpp"

namespace dpoco::oco {

// ln(Z_{t+1}/Z_t) of successive Gibbs laws, where Z_t is the integral of exp(-beta (F_{t-1} + lam
// ||u||^2 / 2)), and ln(mu_{t+1}(u)/mu_t(u)). Constants in losses cancel.
class LogNormalizer {
 public:
  virtual ~LogNormalizer() = default;

  // Advances by the sum's staged loss, which has just been committed.
  virtual void advance(losses::LossSum& sum) = 0;

  // ln(mu_{t+1}(u)/mu_t(u)), given the staged loss's value at u.
  double log_ratio(double loss_at_u) const noexcept {
    return -beta_ * (loss_at_u - reference_) - excess_;
  }
  double log_change() const noexcept { return excess_ - beta_ * reference_; }

  virtual void write(Archive& archive) const = 0;
  // `sum` must be restored before. Throws StateError.
  virtual void read(ArchiveReader& archive, losses::LossSum& sum) = 0;

 protected:
  explicit LogNormalizer(double beta) : beta_(beta) {}

  double beta_;
  double reference_ = 0.0;  // the loss at the old mode over R^d
  double excess_ = 0.0;     // ln(Z_{t+1}/Z_t) + beta reference
};

// Works for linear losses on R^d, a ball or a box, with O(d) per round and one normal probability
// of the body, and for quadratic losses on R^d, with O(d^2) per round for rank 1 and O(d^3)
// otherwise. Throws std::invalid_argument for all others.
std::unique_ptr<LogNormalizer> make_log_normalizer(losses::LossSum& sum, double beta, double lam);

// The solution x of (g / x) exp(-x^2 / 2) = error. Above it, a normal tail times g is below error.
double tail_quantile(double g, double error);

struct AnchorSettings {
  std::uint64_t count = 0;
  double noise_to_signal = 0.0;  // g = G sqrt(beta / lam)
  double error = 0.0;            // clipping error per round
  std::uint64_t horizon = 1;
  double most = 0.0;  // largest width
};

// The last points released before the current one. The mean of a loss over them approximates its
// mean under the Gibbs law. At first the points are draws from the law without losses.
class Anchors {
 public:
  Anchors(Index dimension, AnchorSettings settings, bool linear);

  // Replaces the oldest point. `drawn` is the number of completed rounds when u was drawn.
  void add(std::span<const double> u, std::uint64_t drawn);

  double mean_loss(losses::LossSum& sum) const;
  // Half the width of the window of log factors in a round (from 1): the spread of beta l under the
  // law, the error of the mean, and the drift of the law since the anchors were drawn. It depends
  // only on the times of the switches, which are released.
  double width(std::uint64_t round) const noexcept;
  double most() const noexcept { return settings_.most; }
  const std::vector<double>& mean() const noexcept { return mean_; }

  void write(Archive& archive) const;
  // Throws StateError unless the points lie in the body and were drawn before `round`.
  void read(ArchiveReader& archive, const domains::Body& body, std::uint64_t round);

 private:
  void refresh();

  AnchorSettings settings_;
  bool linear_;
  std::size_t dimension_;
  std::size_t oldest_ = 0;
  double fixed_width_;  // the part of the width that does not grow with age
  double drawn_mean_ = 0.0;
  std::vector<std::uint64_t> drawn_;
  std::vector<double> points_;  // count x dimension
  std::vector<double> mean_;
};

}  // namespace dpoco::oco
