#include "dpoco/local/randomizers.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "dpoco/local/public_coins.hpp"
#include "dpoco/simd/elementary.hpp"

namespace dpoco::local {
namespace {

using random::Source;

constexpr double kHalf = 4503599627370496.0;  // 2^52
// Units subtracted from the larger probability: more than exp and the following steps can round up.
constexpr std::uint64_t kMargin = 4;
// Up to this many members, a sorted list is faster than a bit for every label.
constexpr std::uint64_t kFew = 32;

void check_epsilon(double epsilon) {
  if (!(epsilon > 0.0 && epsilon <= kLargestEpsilon)) {
    throw std::invalid_argument("epsilon must be in (0, 30]");
  }
}

// The integer nearest to x in [0, 2^53], half to even. Does not depend on how library functions
// round.
double round_half(double x) {
  return x >= kHalf ? x : (x + kHalf) - kHalf;  // doubles from 2^52 on are integers
}

std::uint64_t uniform_below(std::uint64_t n, Source& source) {
  return below(n, [&source] { return source.word(); });
}

}  // namespace

BitLaw::BitLaw(double epsilon) {
  check_epsilon(epsilon);
  const double units = static_cast<double>(kUnits) / (1.0 + elementary::exp(-epsilon));
  high_ = std::max(static_cast<std::uint64_t>(units) - kMargin, kUnits / 2);
}

double BitLaw::contrast() const noexcept {
  return static_cast<double>(2 * high_ - kUnits) / static_cast<double>(kUnits);
}

std::uint64_t BitLaw::threshold(double phi) const noexcept {
  if (!std::isfinite(phi)) phi = 0.0;
  const double clamped = std::min(std::max(phi, -1.0), 1.0);
  const double k = round_half(kHalf + clamped * static_cast<double>(high_ - kUnits / 2));
  return std::min(std::max(static_cast<std::uint64_t>(k), low()), high());
}

SubsetLaw::SubsetLaw(std::uint64_t labels, std::uint64_t size, double epsilon)
    : labels_(labels), size_(size), inside_(0) {
  check_epsilon(epsilon);
  if (!(1 <= size && size < labels && labels < (1ULL << 31))) {
    throw std::invalid_argument("a subset must be smaller than the set of labels, and not empty");
  }
  const auto d = static_cast<double>(size);
  const double rest = static_cast<double>(labels - size) * elementary::exp(-epsilon);
  const double p = d / (d + rest);
  const auto units = static_cast<std::uint64_t>(static_cast<double>(kUnits) * p);
  // The second term lowers the log-ratio by 2^-52 epsilon, by which a device's ledger may exceed
  // its budget. For bits, kMargin alone does so.
  const std::uint64_t margin =
      kMargin + static_cast<std::uint64_t>(2.0 * epsilon * (p * (1.0 - p)));
  if (units > margin) {
    // Below the share of a uniform subset, the margin has used up epsilon: other labels would be
    // likelier than the own label, by any factor.
    const Wide share = multiply(units - margin, labels);
    const Wide uniform = multiply(kUnits, size);
    const bool more =
        share.high != uniform.high ? share.high > uniform.high : share.low > uniform.low;
    if (more) inside_ = units - margin;
  }
  if (size > kFew) marks_.resize((labels + 63) / 64);
  chosen_.reserve(size);
}

void SubsetLaw::draw(std::int64_t own, Source& source, std::span<std::int64_t> report) {
  assert(report.size() == size_);
  const std::uint64_t kept = source.word() >> 11;
  const bool known = own >= 0 && static_cast<std::uint64_t>(own) < labels_;
  if (!known || inside_ == 0) {
    choose(labels_, size_, source);
    std::transform(chosen_.begin(), chosen_.end(), report.begin(),
                   [](std::uint64_t label) { return static_cast<std::int64_t>(label); });
    return;
  }
  const bool included = kept < inside_;
  choose(labels_ - 1, size_ - (included ? 1 : 0), source);
  if (included) (void)source.word();  // as many words as otherwise
  bool pending = included;
  auto to = report.begin();
  for (const std::uint64_t other : chosen_) {
    const auto index = static_cast<std::int64_t>(other);
    const std::int64_t label = index >= own ? index + 1 : index;
    if (pending && label > own) {
      *to++ = own;
      pending = false;
    }
    *to++ = label;
  }
  if (pending) *to = own;
}

// A uniform subset of 0..n-1 by Floyd's algorithm (Bentley and Floyd, 1987): `count` draws.
void SubsetLaw::choose(std::uint64_t n, std::uint64_t count, Source& source) {
  chosen_.clear();
  if (marks_.empty()) {
    choose_few(n, count, source);
    return;
  }
  for (std::uint64_t top = n - count; top < n; ++top) {
    const std::uint64_t candidate = uniform_below(top + 1, source);
    const std::uint64_t bit = 1ULL << (candidate & 63);
    const bool taken = (marks_[candidate >> 6] & bit) != 0;
    const std::uint64_t member = taken ? top : candidate;
    marks_[member >> 6] |= 1ULL << (member & 63);
  }
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    for (std::uint64_t rest = marks_[i]; rest != 0; rest &= rest - 1) {
      chosen_.push_back(64 * i + static_cast<std::uint64_t>(std::countr_zero(rest)));
    }
    marks_[i] = 0;
  }
}

void SubsetLaw::choose_few(std::uint64_t n, std::uint64_t count, Source& source) {
  for (std::uint64_t top = n - count; top < n; ++top) {
    const std::uint64_t candidate = uniform_below(top + 1, source);
    auto place = std::lower_bound(chosen_.begin(), chosen_.end(), candidate);
    if (place != chosen_.end() && *place == candidate) {
      chosen_.push_back(top);  // larger than all so far
    } else {
      chosen_.insert(place, candidate);
    }
  }
}

}  // namespace dpoco::local
