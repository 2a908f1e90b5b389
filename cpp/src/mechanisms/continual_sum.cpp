#include "dpoco/mechanisms/continual_sum.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::mechanisms {
namespace {

// Fine enough to add less than 1e-8 of the variance, coarse enough that a cell holds about 2^40
// doubles, so that the cells' probabilities no longer depend on where the noise's doubles lie.
constexpr int kGridBits = 12;

}  // namespace

ContinualSum::ContinualSum(Index dimension, std::uint64_t horizon,
                           std::unique_ptr<NoiseProcess> process, double noise_scale,
                           std::unique_ptr<random::Source> source,
                           std::optional<losses::RecordClipper> clipper)
    : dimension_(dimension),
      horizon_(horizon),
      grid_(noise_scale > 0.0 ? std::ldexp(1.0, std::ilogb(noise_scale) - kGridBits) : 0.0),
      process_(std::move(process)),
      source_(std::move(source)),
      clipper_(std::move(clipper)),
      sum_(dimension < 1 ? 0 : static_cast<std::size_t>(dimension), 0.0),
      row_(sum_) {
  if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
  if (!process_ || !source_) throw std::invalid_argument("process and source are required");
}

void ContinualSum::require(std::uint64_t rounds) const {
  if (rounds > horizon_ - round_) throw HorizonExceeded("the declared horizon is used up");
  source_->check_process();
}

void ContinualSum::push(const double* g, double* out) { run(enter(), g, 1, out); }

void ContinualSum::run(const Exclusive::Entry&, const double* values, std::uint64_t rounds,
                       double* out) {
  require(rounds);
  for (std::uint64_t t = 0; t < rounds; ++t, values += sum_.size(), out += sum_.size()) {
    add(values, out);
  }
}

void ContinualSum::add(const double* g, double* out) {
  // Were the summand to change between the reading of its norm and its addition, the bound would
  // not hold.
  std::copy(g, g + row_.size(), row_.data());
  round_ = round_ + 1;
  const double* noise = process_->advance(round_, *source_);
  const double multiplier = clipper_ ? clipper_->multiplier(row_.data()) : 1.0;
  if (multiplier > 0.0) simd::kernels().axpy(multiplier, row_.data(), sum_.size(), sum_.data());
  for (std::size_t i = 0; i < sum_.size(); ++i) out[i] = sum_[i] + noise[i];
  if (grid_ > 0.0) simd::kernels().round_to(grid_, sum_.size(), out);
}

void ContinualSum::write(Archive& archive) const {
  const auto entry = exclusive_.enter();
  archive.word(round_);
  archive.reals(sum_.data(), sum_.size());
  process_->write(archive);
  source_->write(archive);
}

void ContinualSum::read(ArchiveReader& archive) {
  const std::uint64_t round = archive.word_below(horizon_ + 1);
  archive.reals(sum_.data(), sum_.size());
  process_->read(archive, round);
  source_->read(archive);
  const auto finite = [](double value) { return std::isfinite(value); };
  if (!std::all_of(sum_.begin(), sum_.end(), finite)) throw StateError("state holds no sum");
  // A generator behind its round would draw noise again that was already used.
  if (!process_->matches(round, *source_)) {
    throw StateError("state holds a generator at another round");
  }
  round_ = round;
}

}  // namespace dpoco::mechanisms
