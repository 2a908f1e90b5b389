#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dpoco/core/types.hpp"
#include "dpoco/losses/loss_sum.hpp"
#include "dpoco/random/source.hpp"

namespace dpoco::samplers {

// -log(1 - share (1 - exp(-fall))): an exponential variate, cut at `fall`, from a uniform share.
// `rest` is the distance of the share from 1, so that the far end of a law also has all digits.
double cut_exponential(double share, double rest, double fall);

// Returns the piece of a law that contains the place share * (sum of masses).
std::size_t piece_at(std::span<const double> masses, double total, double share, double rest);

// Exact draws from a Gibbs law restricted to a line u + t step, low <= t <= high. The log density
// h(t) = -beta (F(u + t step) + lam ||u + t step||^2 / 2) is concave, so no tangent is below it.
// Adaptive rejection sampling (Gilks and Wild, 1992): proposes from the piecewise exponential of
// the tangents, and adds a tangent at every rejected point. This is exact for any tangents. When
// all tangents are used up, they are placed again around the mode, where a proposal is accepted
// with probability .35. After kMostProposals proposals, which no concave density needs, the last
// one counts.
class LineSampler {
 public:
  LineSampler(double inverse_temperature, double regularization)
      : beta_(inverse_temperature), lam_(regularization) {}

  // `guess` and `width` > 0 say roughly where the law is and how wide it is. Both ends are finite
  // or both are infinite.
  double sample(random::Source& source, losses::LossSum& sum, const Vector& u, const Vector& step,
                double low, double high, double guess, double width);

  std::uint64_t proposals() const noexcept { return proposals_; }
  void reset() noexcept { proposals_ = 0; }

 private:
  static constexpr std::size_t kMost = 32;  // tangents; more would cost more than they save
  static constexpr std::uint64_t kMostProposals = 1 << 14;

  struct Tangent {
    double at;
    double value;
    double slope;
  };

  double value(losses::LossSum& sum, double t) const;
  double slope(losses::LossSum& sum, double t) const;
  bool insert(losses::LossSum& sum, double t, double value);
  void touch(losses::LossSum& sum, double guess, double width);
  void refine(losses::LossSum& sum);
  double fall(losses::LossSum& sum, double from, double end, double top);
  void measure();
  double propose(random::Source& source, std::size_t& piece);

  double beta_;
  double lam_;
  double cross_ = 0.0;   // <u, step>
  double square_ = 0.0;  // ||step||^2
  double low_ = 0.0;
  double high_ = 0.0;
  std::size_t count_ = 0;
  std::array<Tangent, kMost> tangents_;
  std::array<double, kMost + 1> ends_;  // of the pieces
  std::array<double, kMost> masses_;    // of the pieces, up to a common factor
  double total_ = 0.0;
  std::uint64_t proposals_ = 0;
};

}  // namespace dpoco::samplers
