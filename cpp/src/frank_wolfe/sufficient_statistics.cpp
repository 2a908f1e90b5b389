#include "dpoco/frank_wolfe/sufficient_statistics.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/packed.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::frank_wolfe {

using mechanisms::AdditiveLaw;

SufficientStatistics::SufficientStatistics(const losses::RecordClipper& clipper,
                                           losses::GlmLoss loss, StatisticsSettings settings,
                                           std::unique_ptr<random::Source> source)
    : clipper_(clipper),
      loss_(loss),
      settings_(settings),
      source_(std::move(source)),
      row_(static_cast<std::size_t>(clipper.dimension())),
      products_(packed_size(row_.size()) + row_.size()),
      sum_(products_.size(), 0.0),
      rest_(products_.size(), 0.0) {
  if (!(settings.weight > 0.0)) throw std::invalid_argument("weight must be positive");
  if (settings.records < 1) throw std::invalid_argument("there must be at least one record");
  if (settings.size != size()) throw std::invalid_argument("the sum has another size");
  const auto law = settings.noise_scale == 0.0 ? AdditiveLaw::none : AdditiveLaw::gaussian;
  noise_ =
      mechanisms::make_additive_noise(law, settings.noise_scale, static_cast<Index>(size()), 0.0);
}

void SufficientStatistics::add(std::span<const double> features, std::span<const double> labels) {
  source_->check_process();
  const std::size_t d = dimension();
  if (features.size() != labels.size() * d) {
    throw std::invalid_argument("records have the wrong number of features");
  }
  if (labels.size() > settings_.records - added_) {
    throw RoundOrderError("there are more records than were declared");
  }
  for (std::size_t i = 0; i < labels.size(); ++i, ++added_) {
    const auto row = features.subspan(i * d, d);
    std::copy(row.begin(), row.end(), row_.begin());  // the caller's memory is read once
    const double label = labels[i];
    const double multiplier = losses::GlmLoss::label_multiplier(label) * clipper_.multiplier(row_);
    if (multiplier == 0.0) {
      std::fill(row_.begin(), row_.end(), 0.0);  // entries may be NaN
    } else {
      for (double& entry : row_) entry *= multiplier;
    }
    auto next = products_.begin();
    add_quadratic(row_, loss_.clip_label(label), settings_.weight,
                  [&](double entry) { *next++ = entry; });
    simd::kernels().accumulate(1.0, products_.data(), size(), sum_.data(), rest_.data());
  }
}

void SufficientStatistics::release(std::span<double> out) {
  source_->check_process();
  if (added_ != settings_.records || released_) {
    throw RoundOrderError(released_ ? "the sum has been released" : "records are missing");
  }
  if (out.size() != size()) throw std::invalid_argument("the sum has another size");
  released_ = true;
  noise_->release(sum_, *source_, out);
}

void SufficientStatistics::nonprivate_sum(std::span<double> out) const {
  if (out.size() != size()) throw std::invalid_argument("the sum has another size");
  std::copy(sum_.begin(), sum_.end(), out.begin());
}

}  // namespace dpoco::frank_wolfe
