#include "dpoco/mechanisms/continual_sum.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/core/grid.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::mechanisms {
namespace {

// Fine enough to add less than 1e-8 of the variance, and coarse enough that a cell contains about
// 2^40 doubles, so that the cells' probabilities do not depend on the spacing of the noise's
// doubles.
constexpr int kGridBits = 12;

// Sums stay below this many multiples, and sums with noise below twice as many.
constexpr double kFarthest = 0x1p61;
constexpr double kLargestLimit = 0x1p50;

// Short rounds are processed in blocks of as many as stay in the cache.
constexpr std::uint64_t kBlockEntries = 2048;

std::unique_ptr<NoiseProcess> make_process(const SumSettings& settings) {
  const NoiseLaw law{settings.order, settings.scale, settings.lattice.grid};
  if (law.scale == 0.0) return make_silence(settings.dimension);
  switch (settings.factorisation) {
    case Factorisation::tree:
      return make_tree(settings.dimension, settings.horizon, law);
    case Factorisation::toeplitz:
      return make_toeplitz(settings.dimension, settings.horizon, law);
    case Factorisation::blt:
      break;
    case Factorisation::blt_normalised:
      if (settings.blt.ends.empty() || settings.blt.ends.back() != settings.horizon) {
        throw std::invalid_argument("the last block must end with the horizon");
      }
      break;
    case Factorisation::banded:
      if (settings.band.levels.size() != settings.horizon) {
        throw std::invalid_argument("a band has a level for every round of the horizon");
      }
      return make_banded(settings.dimension, law, settings.band);
  }
  return make_blt(settings.dimension, law, settings.blt);
}

}  // namespace

ContinualSum make_sum(const SumSettings& settings, std::unique_ptr<random::Source> source,
                      std::optional<losses::RecordClipper> clipper) {
  return {settings.dimension, settings.horizon,   make_process(settings), settings.scale,
          std::move(source),  std::move(clipper), settings.lattice};
}

ContinualSum::ContinualSum(Index dimension, std::uint64_t horizon,
                           std::unique_ptr<NoiseProcess> process, double noise_scale,
                           std::unique_ptr<random::Source> source,
                           std::optional<losses::RecordClipper> clipper, Lattice lattice)
    : dimension_(dimension),
      horizon_(horizon),
      noise_scale_(noise_scale),
      grid_(noise_scale > 0.0 ? grid_below(noise_scale, kGridBits) : 0.0),
      process_(std::move(process)),
      source_(std::move(source)),
      clipper_(std::move(clipper)),
      lattice_(lattice),
      sum_(dimension < 1 ? 0 : simd::padded(static_cast<std::size_t>(dimension)), 0.0),
      rest_(sum_),
      noise_(sum_) {
  if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
  if (!process_ || !source_) throw std::invalid_argument("process and source are required");
  if (!on_lattice()) return;
  exact_.assign(sum_.size(), 0);
  rest_ = std::vector<double>();
  const int bits = noise_scale > 0.0 ? std::ilogb(noise_scale) - std::ilogb(lattice_.grid) : 0;
  if (bits < kGridBits || bits > kGridBits + 30 ||
      std::ldexp(1.0, std::ilogb(lattice_.grid)) != lattice_.grid) {
    throw std::invalid_argument("the lattice must be a power of two far below the noise");
  }
  shift_ = static_cast<unsigned>(bits - kGridBits);
  if (!(lattice_.limit >= 0.0 && lattice_.limit <= kLargestLimit &&
        lattice_.limit * static_cast<double>(horizon) <= kFarthest)) {
    throw std::invalid_argument("sums on this lattice could overflow");
  }
}

void ContinualSum::require(std::uint64_t rounds) const {
  if (rounds > horizon_ - round_) throw HorizonExceeded("the declared horizon is used up");
  source_->check_process();
}

void ContinualSum::push(std::span<const double> g, std::span<double> out) {
  assert(std::ssize(g) == dimension_);
  run(enter(), g, out);
}

void ContinualSum::run(const Exclusive::Entry&, std::span<const double> values,
                       std::span<double> out) {
  const auto d = static_cast<std::size_t>(dimension_);
  assert(values.size() % d == 0 && out.size() == values.size());
  require(values.size() / d);
  const std::uint64_t most = std::max<std::uint64_t>(1, kBlockEntries / d);
  while (!values.empty()) {
    const std::size_t entries = std::min(ahead_ > 0 ? d : most * d, values.size());
    add(values.first(entries), out.first(entries));
    values = values.subspan(entries);
    out = out.subspan(entries);
  }
}

void ContinualSum::add(std::span<const double> rows, std::span<double> out) {
  const auto d = static_cast<std::size_t>(dimension_);
  const std::uint64_t rounds = rows.size() / d;
  // On a lattice the sum does not use sum_, so a single summand is copied there.
  std::vector<double>& copies = on_lattice() && rounds == 1 ? sum_ : rows_;
  if (copies.size() < rows.size()) copies.resize(rows.size());
  if (factors_.size() < rounds) factors_.resize(rounds);
  // Copies the summands. If one changed between the reading of its norm and its addition, the bound
  // would not hold.
  std::ranges::copy(rows, copies.begin());
  const std::span<const double> noise = rounds == 1 ? next_noise().first(d) : draw(rounds);
  round_ = round_ + rounds;
  for (std::uint64_t r = 0; r < rounds; ++r) {
    const std::span<double> row = std::span(copies).subspan(r * d, d);
    factors_[r] = clipper_ ? clipper_->multiplier(row) : 1.0;
    if (factors_[r] == 0.0) std::ranges::fill(row, 0.0);  // it may hold a NaN
  }
  release(std::span(factors_).first(rounds), std::span(copies).first(rows.size()), noise, out);
}

Released ContinualSum::add_one(double factor, std::span<const double> row, std::span<double> out) {
  assert(row.size() == width() && out.size() == width());
  require(1);
  const std::span<const double> noise = next_noise();
  round_ = round_ + 1;
  release({&factor, 1}, row, noise, out);
  return {out, round_};
}

std::span<const double> ContinualSum::draw(std::uint64_t rounds) {
  if (noise_.size() < rounds * width()) noise_.resize(rounds * width());
  const auto entries = static_cast<std::size_t>(dimension_) * rounds;
  const std::span<double> drawn = std::span(noise_).first(entries);
  process_->advance(round_ + 1, *source_, drawn);
  return drawn;
}

std::span<const double> ContinualSum::next_noise() {
  if (ahead_ == 0) {
    const std::uint64_t most = std::min(horizon_ - round_, kBlockEntries / width());
    const std::uint64_t rows = std::max<std::uint64_t>(1, std::min(expected_, most));
    const std::span<const double> drawn = draw(rows);
    const auto d = static_cast<std::size_t>(dimension_);
    for (std::size_t r = rows; r-- > 0;) {  // backwards, because rows become longer
      const std::span<double> row = std::span(noise_).subspan(r * width(), width());
      std::ranges::copy_backward(drawn.subspan(r * d, d), row.begin() + dimension_);
      std::ranges::fill(row.subspan(d), 0.0);
    }
    next_ = 0;
    ahead_ = rows;
    expected_ -= std::min(expected_, rows);
  }
  --ahead_;
  return std::span(noise_).subspan(std::exchange(next_, next_ + width()), width());
}

void ContinualSum::release(std::span<const double> factors, std::span<const double> rows,
                           std::span<const double> noise, std::span<double> out) {
  assert(rows.size() == out.size() && noise.size() == out.size());
  const simd::Kernels& k = simd::kernels();
  const std::size_t rounds = factors.size(), width = out.size() / rounds;
  if (on_lattice()) {
    k.lattice_release(rounds, factors.data(), rows.data(), noise.data(), lattice_.grid,
                      lattice_.limit, shift_, width, exact_.data(), out.data());
  } else {
    k.release(rounds, factors.data(), rows.data(), noise.data(), grid_, width, sum_.data(),
              rest_.data(), out.data());
  }
}

// Splits an integer below 2^61 into two doubles, so that both kinds of sums have the same state
// format.
void ContinualSum::split(std::vector<double>& sum, std::vector<double>& rest) const {
  for (std::size_t i = 0; i < exact_.size(); ++i) {
    const auto nearest = static_cast<double>(exact_[i]);
    sum[i] = nearest * lattice_.grid;
    rest[i] = static_cast<double>(exact_[i] - static_cast<std::int64_t>(nearest)) * lattice_.grid;
  }
}

std::vector<double> ContinualSum::nonprivate_sum() const {
  std::vector<double> sum = sum_;
  std::vector<double> rest(sum_.size());
  split(sum, rest);
  sum.resize(static_cast<std::size_t>(dimension_));
  return sum;
}

void ContinualSum::write(Archive& archive) const {
  const auto entry = exclusive_.enter();
  std::vector<double> sum = sum_;
  std::vector<double> rest = on_lattice() ? std::vector<double>(sum.size()) : rest_;
  split(sum, rest);
  if (ahead_ > 0) throw StateError("noise of rounds to come has been drawn");
  archive.word(round_);
  const auto d = static_cast<std::size_t>(dimension_);
  archive.reals(std::span(sum).first(d), std::span(rest).first(d));
  archive.real(noise_scale_);
  process_->write(archive);
  source_->write(archive);
}

void ContinualSum::read(ArchiveReader& archive) {
  const std::uint64_t round = archive.word_below(horizon_ + 1);
  std::vector<double> sum(sum_.size());
  std::vector<double> rest(sum_.size());
  const auto d = static_cast<std::size_t>(dimension_);
  archive.reals(std::span(sum).first(d), std::span(rest).first(d));
  if (archive.real() != noise_scale_) throw StateError("state has noise of another scale");
  process_->read(archive, round);
  source_->read(archive);
  if (!are_rests(sum, rest)) throw StateError("state holds no sum");
  const double most = static_cast<double>(round) * lattice_.limit;
  for (std::size_t i = 0; i < exact_.size(); ++i) {
    const double whole = sum[i] / lattice_.grid;
    const double lost = rest[i] / lattice_.grid;
    if (!(std::fabs(whole) <= most) || whole != std::floor(whole) || lost != std::floor(lost)) {
      throw StateError("state holds a sum beside the lattice");
    }
    exact_[i] = static_cast<std::int64_t>(whole) + static_cast<std::int64_t>(lost);
  }
  if (!on_lattice()) {
    sum_ = std::move(sum);
    rest_ = std::move(rest);
  }
  // A generator that is behind its round would draw noise that was already used.
  if (!process_->matches(round, *source_)) {
    throw StateError("state holds a generator at another round");
  }
  round_ = round;
}

}  // namespace dpoco::mechanisms
