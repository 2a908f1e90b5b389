#include "gibbs_line.hpp"

#include <algorithm>
#include <cmath>

#include "dpoco/simd/elementary.hpp"

namespace dpoco::samplers {

using losses::LossSum;

namespace {

constexpr double kNearOne = 1.0 - 0x1p-40;
// Enough for any interval of doubles.
constexpr int kBisections = 1200;

// 1 - exp(-y) for y >= 0, without cancellation.
double one_minus_exp(double y) {
  if (y > 0.5) return 1.0 - elementary::exp(-y);
  double series = 1.0;
  for (int k = 15; k >= 2; --k) series = 1.0 - y / k * series;
  return y * series;
}

// -log(1 - x) for 0 <= x < 1.
double minus_log_complement(double x) {
  return x < 0.25 ? -elementary::log_reduced(-x, 0.0) : -elementary::log(1.0 - x);
}

}  // namespace

double cut_exponential(double share, double rest, double fall) {
  if (share < kNearOne || fall < 1.0) return minus_log_complement(share * one_minus_exp(fall));
  return -elementary::log(rest + share * elementary::exp(-fall));
}

std::size_t piece_at(std::span<const double> masses, double total, double share, double rest) {
  std::size_t piece = 0;
  if (share < kNearOne) {
    double left = share * total;
    while (piece + 1 < masses.size() && left > masses[piece]) left -= masses[piece++];
    return piece;
  }
  double left = rest * total;
  piece = masses.size() - 1;
  while (piece > 0 && left > masses[piece]) left -= masses[piece--];
  return piece;
}

double LineSampler::value(LossSum& sum, double t) const {
  return -beta_ * (sum.line_value(t) + lam_ * t * (cross_ + 0.5 * t * square_));
}

double LineSampler::slope(LossSum& sum, double t) const {
  return -beta_ * (sum.line_slope(t) + lam_ * (cross_ + t * square_));
}

bool LineSampler::insert(LossSum& sum, double t, double value) {
  if (count_ == kMost) return false;
  std::size_t place = 0;
  while (place < count_ && tangents_[place].at < t) ++place;
  if (place < count_ && tangents_[place].at == t) return false;
  for (std::size_t i = count_; i > place; --i) tangents_[i] = tangents_[i - 1];
  tangents_[place] = {t, value, slope(sum, t)};
  ++count_;
  return true;
}

// Places the first tangents: at one width on both sides of the guess, and on an infinite line so
// far out that the density falls outwards at the outer two.
void LineSampler::touch(LossSum& sum, double guess, double width) {
  const double middle = std::clamp(guess, low_, high_);
  count_ = 0;
  for (const double t : {std::max(low_, middle - width), std::min(high_, middle + width)}) {
    insert(sum, t, value(sum, t));
  }
  if (std::isfinite(low_)) return;
  double reach = width;
  while (count_ < kMost / 2 && !(tangents_[0].slope > 0.0)) {
    reach *= 4.0;
    const double t = tangents_[0].at - reach;
    insert(sum, t, value(sum, t));
  }
  reach = width;
  while (count_ < kMost - 2 && !(tangents_[count_ - 1].slope < 0.0)) {
    reach *= 4.0;
    const double t = tangents_[count_ - 1].at + reach;
    insert(sum, t, value(sum, t));
  }
}

// Returns a point between `from`, near the mode, and `end` where the log density is .5 to 2 below
// `top`; `end` itself if the density falls by at most 2 there.
double LineSampler::fall(LossSum& sum, double from, double end, double top) {
  if (top - value(sum, end) <= 2.0) return end;
  double near = from;
  double far = end;
  for (int k = 0; k < kBisections; ++k) {
    const double t = near + 0.5 * (far - near);
    if (t == near || t == far) break;
    const double below = top - value(sum, t);
    if (below >= 0.5 && below <= 2.0) return t;
    (below < 0.5 ? near : far) = t;
  }
  return far;
}

// Replaces the tangents by four: two at both sides of the mode, which bound the density by e^.05
// times its maximum, and one on either side where the density has fallen.
void LineSampler::refine(LossSum& sum) {
  double low = low_;
  double high = high_;
  double slope_low = 0.0;
  double slope_high = 0.0;
  for (std::size_t i = 0; i < count_; ++i) {
    const Tangent& each = tangents_[i];
    if (each.slope >= 0.0 && each.at >= low) {
      low = each.at;
      slope_low = each.slope;
    } else if (each.slope < 0.0 && each.at <= high) {
      high = each.at;
      slope_high = each.slope;
    }
  }
  if (!std::isfinite(low) || !std::isfinite(high)) return;
  // An end of the line may be the mode.
  if (slope_low == 0.0) slope_low = slope(sum, low);
  if (slope_high == 0.0) slope_high = slope(sum, high);
  if (slope_high > 0.0) low = high;
  if (slope_low <= 0.0) high = low;
  for (int k = 0; k < kBisections; ++k) {
    if (std::min(slope_low, -slope_high) * (high - low) <= 0.05) break;
    const double t = low + 0.5 * (high - low);
    if (!(low < t && t < high)) break;
    const double here = slope(sum, t);
    (here >= 0.0 ? low : high) = t;
    (here >= 0.0 ? slope_low : slope_high) = here;
  }
  const double at_low = value(sum, low);
  const double at_high = value(sum, high);
  const double top = std::max(at_low, at_high);
  const double left = fall(sum, low, std::isfinite(low_) ? low_ : tangents_[0].at, top);
  const double right =
      fall(sum, high, std::isfinite(high_) ? high_ : tangents_[count_ - 1].at, top);
  count_ = 0;
  insert(sum, low, at_low);
  insert(sum, high, at_high);
  insert(sum, left, value(sum, left));
  insert(sum, right, value(sum, right));
}

// Computes the ends of the pieces and their masses. Any division into pieces is valid, because a
// tangent is above the density everywhere. So rounding errors of an intersection cost acceptance,
// not exactness.
void LineSampler::measure() {
  ends_[0] = low_;
  ends_[count_] = high_;
  for (std::size_t i = 0; i + 1 < count_; ++i) {
    const Tangent& left = tangents_[i];
    const Tangent& right = tangents_[i + 1];
    const double gap = right.at - left.at;
    const double bend = left.slope - right.slope;
    const double rise = right.value - left.value - right.slope * gap;
    const double t = bend > 0.0 ? left.at + rise / bend : left.at + 0.5 * gap;
    ends_[i + 1] = std::clamp(t, left.at, right.at);
  }
  std::array<double, kMost> peaks;
  double top = 0.0;
  for (std::size_t i = 0; i < count_; ++i) {
    const Tangent& each = tangents_[i];
    const double peak = each.slope > 0.0 ? ends_[i + 1] : ends_[i];
    peaks[i] = each.slope == 0.0 ? each.value : each.value + each.slope * (peak - each.at);
    if (i == 0 || peaks[i] > top) top = peaks[i];
  }
  total_ = 0.0;
  for (std::size_t i = 0; i < count_; ++i) {
    const double steepness = std::fabs(tangents_[i].slope);
    const double width = ends_[i + 1] - ends_[i];
    const double fall = steepness * width;
    const double length = fall < 1e-15 ? width : one_minus_exp(fall) / steepness;
    masses_[i] = elementary::exp(peaks[i] - top) * length;
    total_ += masses_[i];
  }
}

double LineSampler::propose(random::Source& source, std::size_t& piece) {
  // Near 1, the distance from 1 has more digits than the uniform variate.
  const auto rest_of = [&source](double share) {
    return share < kNearOne ? 1.0 - share : source.complement();
  };
  const double place = source.uniform();
  piece = piece_at({masses_.data(), count_}, total_, place, rest_of(place));
  const double share = source.uniform();
  const double low = ends_[piece];
  const double high = ends_[piece + 1];
  const double width = high - low;
  const double steepness = std::fabs(tangents_[piece].slope);
  const double fall = steepness * width;
  // The distance from the higher end is exponential, cut at the width.
  double distance = share * width;
  if (!(fall < 1e-15)) {
    distance = std::min(cut_exponential(share, rest_of(share), fall) / steepness, width);
  }
  return tangents_[piece].slope > 0.0 ? high - distance : low + distance;
}

double LineSampler::sample(random::Source& source, LossSum& sum, const Vector& u,
                           const Vector& step, double low, double high, double guess,
                           double width) {
  if (!(low < high)) return low;
  sum.prepare_line(view(u), view(step));
  cross_ = u.dot(step);
  square_ = step.squaredNorm();
  low_ = low;
  high_ = high;
  touch(sum, guess, width);
  measure();
  bool refined = false;
  for (std::uint64_t k = 1;; ++k) {
    std::size_t piece = 0;
    const double t = propose(source, piece);
    ++proposals_;
    const Tangent& above = tangents_[piece];
    const double here = value(sum, t);
    const double excess = above.value + above.slope * (t - above.at) - here;
    // P(exponential >= x) = exp(-x). A value that is not a number ends the loop.
    if (!(source.exponential() < excess) || k == kMostProposals) return t;
    const bool full = count_ == kMost;
    if (full && !refined) refine(sum);
    refined = refined || full;
    if (insert(sum, t, here) || full) measure();
  }
}

}  // namespace dpoco::samplers
