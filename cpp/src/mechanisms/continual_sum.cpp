#include "dpoco/mechanisms/continual_sum.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::mechanisms {

ContinualSum::ContinualSum(Index dimension, std::uint64_t horizon,
                           std::unique_ptr<NoiseProcess> process,
                           std::unique_ptr<random::Source> source,
                           std::optional<losses::RecordClipper> clipper)
    : dimension_(dimension),
      horizon_(horizon),
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

void ContinualSum::push(const double* g, double* out) { run(g, 1, out); }

void ContinualSum::run(const double* values, std::uint64_t rounds, double* out) {
  const auto entry = exclusive_.enter();
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
}

void ContinualSum::write(Archive& archive) const {
  const auto entry = exclusive_.enter();
  archive.word(round_);
  archive.reals(sum_.data(), sum_.size());
  process_->write(archive);
  source_->write(archive);
}

void ContinualSum::read(ArchiveReader& archive) {
  round_ = archive.word_below(horizon_ + 1);
  archive.reals(sum_.data(), sum_.size());
  process_->read(archive);
  source_->read(archive);
}

}  // namespace dpoco::mechanisms
