#include "dpoco/domains/projections.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dpoco/domains/norms.hpp"
#include "dpoco/simd/elementary.hpp"

namespace dpoco::domains {
namespace {

// The level with sum_i max(level - gap_i, 0) = total, for gaps >= 0 of which at least one is zero.
// Gaps are distances from the largest entry, so nothing cancels, however large the entries are.
double water_level(std::vector<double>& gaps, double total) {
  std::sort(gaps.begin(), gaps.end());
  double sum = 0.0;
  double level = total;
  double count = 0.0;
  for (const double gap : gaps) {
    if (gap >= level) break;
    sum += gap;
    count += 1.0;
    level = (total + sum) / count;
  }
  return level;
}

template <class Gap>
double solve_level(std::size_t n, double total, const Gap& gap) {
  std::vector<double> gaps;
  gaps.reserve(n);
  for (std::size_t i = 0; i < n; ++i)
    if (gap(i) < total) gaps.push_back(gap(i));  // the level never exceeds `total`
  return water_level(gaps, total);
}

// log y for y + exp(log_mu) y^(p-1) = x, by Newton's method on logarithms. The logarithm of the
// left side is convex and increasing with slope between 1 and p - 1, so steps from the right
// decrease to the root. `share` is the second term's share of x.
struct Coordinate {
  double log_y;
  double share;
};

Coordinate solve_coordinate(double log_x, double log_mu, double p) {
  double w = std::min(log_x, (log_x - log_mu) / (p - 1.0));
  double share = 0.0;
  // The number of steps grows like log p.
  for (int step = 0; step < 100; ++step) {
    const double gap = log_mu + (p - 2.0) * w;  // log of second term minus log of first
    share = elementary::sigmoid(gap);
    const double excess = (w - log_x) + elementary::softplus(gap);
    const double change = excess / (1.0 + (p - 2.0) * share);
    w -= change;
    if (change <= 1e-16 * std::max(1.0, std::fabs(w))) break;
  }
  return {w, share};
}

double log_sum_exp(const std::vector<double>& x, double factor) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (const double value : x) sum += elementary::exp(factor * (value - top));
  return top + elementary::log(sum) / factor;
}

// log(exp(x) - 1) or slightly less, x > 0.
double log_excess(double x) {
  return x < 1e-3 ? elementary::log(x) : x + elementary::log(1.0 - elementary::exp(-x));
}

// log mu such that sum y_i^p = 1, given log x_i with ||x||_p > 1; leaves log y in log_y.
// At the solution mu = ||x - y||_q, hence the bracket.
void solve_dual(const std::vector<double>& log_x, double p, double log_norm,
                std::vector<double>& log_y) {
  const double q = p / (p - 1.0);
  const double log_n = elementary::log(static_cast<double>(log_x.size()));
  double low = log_excess(log_norm) + std::min(0.0, 1.0 / q - 1.0 / p) * log_n - 1e-6;
  double high = log_sum_exp(log_x, q) + 1e-6;
  double log_mu = log_norm < 0.1 ? low : high;
  for (int step = 0; step < 200; ++step) {
    double slope = 0.0;
    double total = 0.0;
    double top = -1e300;
    std::vector<double>& w = log_y;
    for (std::size_t i = 0; i < log_x.size(); ++i) {
      const Coordinate c = solve_coordinate(log_x[i], log_mu, p);
      w[i] = c.log_y;
      const double slope_i = c.share / (1.0 + (p - 2.0) * c.share);
      if (c.log_y > top) {
        const double shrink = elementary::exp(p * (top - c.log_y));
        total = total * shrink + 1.0;
        slope = slope * shrink + slope_i;
        top = c.log_y;
      } else {
        const double weight = elementary::exp(p * (c.log_y - top));
        total += weight;
        slope += weight * slope_i;
      }
    }
    const double value = top + elementary::log(total) / p;  // log ||y||_p, decreasing in log mu
    (value > 0.0 ? low : high) = log_mu;
    const double next = log_mu + value * total / slope;
    const double resolution = 2e-16 * std::max(1.0, std::fabs(log_mu));
    if (std::fabs(value) <= 1e-16 || high - low <= resolution) return;
    const double change = std::fabs(next - log_mu);
    log_mu = next > low && next < high ? next : 0.5 * (low + high);
    if (change <= resolution) return;
  }
}

}  // namespace

void project_simplex(std::span<const double> x, double scale, std::span<double> out) {
  const double top = *std::max_element(x.begin(), x.end());
  const double level = solve_level(x.size(), scale, [=](std::size_t i) { return top - x[i]; });
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = std::max(level - (top - x[i]), 0.0);
}

void project_l1_ball(std::span<const double> x, double radius, std::span<double> out) {
  if (norm(x, 1.0) <= radius) {
    std::copy(x.begin(), x.end(), out.begin());
    return;
  }
  double top = 0.0;
  for (const double each : x) top = std::max(top, std::fabs(each));
  const double level =
      solve_level(x.size(), radius, [=](std::size_t i) { return top - std::fabs(x[i]); });
  for (std::size_t i = 0; i < x.size(); ++i)
    out[i] = std::copysign(std::max(level - (top - std::fabs(x[i])), 0.0), x[i]);
}

void project_l2_ball(std::span<const double> x, double radius, std::span<double> out) {
  std::copy(x.begin(), x.end(), out.begin());
  const double length = norm(x, 2.0);
  if (length <= radius) return;
  double top = 0.0;
  for (const double each : x) top = std::max(top, std::fabs(each));
  // Scales the entries first, because radius / length may be subnormal, or the length infinite.
  const PowerOfTwoScale scale = power_of_two_scale(top);
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = scale.apply(x[i]);
  const double factor = radius / norm(out, 2.0);
  for (double& each : out) each *= factor;
}

void project_lp_ball(std::span<const double> x, double p, double radius, std::span<double> out) {
  const double length = norm(x, p);
  std::copy(x.begin(), x.end(), out.begin());
  if (length <= radius) return;
  const double log_radius = elementary::log(radius);
  std::vector<double> log_x;
  std::vector<std::size_t> where;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double magnitude = std::fabs(x[i]);
    out[i] = 0.0;  // also for subnormal entries, which have no logarithm here
    if (magnitude < 2.2250738585072014e-308) continue;
    log_x.push_back(elementary::log(magnitude) - log_radius);
    where.push_back(i);
  }
  std::vector<double> log_y(log_x);
  const double log_norm = log_sum_exp(log_x, p);
  if (log_norm > 1e-15) solve_dual(log_x, p, log_norm, log_y);
  for (std::size_t i = 0; i < where.size(); ++i)
    out[where[i]] = std::copysign(elementary::exp(log_y[i]), x[where[i]]);
  const double factor = radius / norm(out, p);
  for (double& each : out) each *= factor;
}

}  // namespace dpoco::domains
