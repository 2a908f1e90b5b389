#include "dpoco/frank_wolfe/vertex_rule.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/core/statements.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::frank_wolfe {
namespace {

using DomainPointer = std::shared_ptr<const domains::Domain>;

class SumRule final : public VertexRule {
 public:
  SumRule(DomainPointer domain, mechanisms::ContinualSum sum)
      : domain_(std::move(domain)), sum_(std::move(sum)), direction_(sum_.width(), 0.0) {
    if (sum_.dimension() != domain_->dimension()) {
      throw std::invalid_argument("the sum must have the domain's dimension");
    }
  }

  // The minimiser is the same for any positive multiple of the direction, so `terms` has no effect.
  void next(std::uint64_t, double, double factor, std::span<const double> row,
            std::span<double> vertex) override {
    sum_.add_one(factor, row, direction_);
    domain_->minimize_padded(direction_, vertex);
  }

  void expect(std::uint64_t updates) noexcept override { sum_.expect(updates); }
  Index dimension() const noexcept override { return sum_.dimension(); }
  const mechanisms::ContinualSum* sum() const noexcept override { return &sum_; }
  const random::Source& source() const noexcept override { return sum_.source(); }
  std::vector<double> nonprivate_sum() const override { return sum_.nonprivate_sum(); }

  void write(Archive& archive) const override { sum_.write(archive); }
  void read(ArchiveReader& archive, std::uint64_t updates) override {
    sum_.read(archive);
    if (sum_.round() != updates) throw StateError("state holds an impossible round");
  }

 private:
  DomainPointer domain_;
  mechanisms::ContinualSum sum_;
  std::vector<double> direction_;
};

class SelectionRule final : public VertexRule {
 public:
  SelectionRule(DomainPointer domain, SelectionRuleSettings settings,
                std::unique_ptr<random::Source> source)
      : domain_(std::move(domain)),
        settings_(settings),
        selection_(mechanisms::make_vertex_selection(domain_, settings.noise)),
        source_(std::move(source)),
        sum_(static_cast<std::size_t>(domain_->dimension()), 0.0),
        rest_(sum_) {
    if (!(settings.scale >= 0.0) || !std::isfinite(settings.scale) ||
        !(settings.exponent >= 0.0 && settings.exponent <= 1.0)) {
      throw std::invalid_argument("scale must be at least 0, the exponent in [0, 1]");
    }
    const Diameters& stated = settings.diameters;
    for (const auto& [diameter, order] :
         {std::pair(stated.l1, 1.0), std::pair(stated.l2, 2.0),
          std::pair(stated.linf, std::numeric_limits<double>::infinity())}) {
      // An infinite diameter states no bound.
      if (diameter < std::numeric_limits<double>::infinity()) {
        refuse_smaller(diameter, domain_->diameter(order), "a diameter of the domain");
      }
    }
  }

  void next(std::uint64_t k, double terms, double factor, std::span<const double> row,
            std::span<double> vertex) override {
    assert(row.size() >= sum_.size() && vertex.size() == row.size());
    simd::kernels().accumulate(factor, row.data(), sum_.size(), sum_.data(), rest_.data());
    vertex = vertex.first(sum_.size());
    if (settings_.scale == 0.0) return domain_->minimize_linear(sum_, vertex);
    // 1 / (batch w_k b_k)
    const double growth = elementary::power(static_cast<double>(k), settings_.exponent);
    const double rate = growth / (terms * settings_.scale);
    selection_->select(sum_, rate, *source_, vertex);
  }

  Index dimension() const noexcept override { return domain_->dimension(); }
  const SelectionRuleSettings* selection() const noexcept override { return &settings_; }
  const random::Source& source() const noexcept override { return *source_; }
  std::vector<double> nonprivate_sum() const override { return sum_; }

  void write_sum(Archive& archive) const override { archive.reals(sum_, rest_); }
  void write(Archive& archive) const override {
    archive.real(settings_.scale);
    source_->write(archive);
  }
  void read_sum(ArchiveReader& archive) override { archive.reals(sum_, rest_); }
  void read(ArchiveReader& archive, std::uint64_t updates) override {
    if (archive.real() != settings_.scale) throw StateError("state has noise of another scale");
    source_->read(archive);
    // Before the first update the sum is zero.
    const bool zero = std::all_of(sum_.begin(), sum_.end(), [](double x) { return x == 0.0; });
    if (!are_rests(sum_, rest_) || (updates == 0 && !zero)) {
      throw StateError("state holds no sum");
    }
    // A generator that is behind its round would draw noise that was already used.
    if (!selection_->accounts_for(*source_, settings_.scale > 0.0 ? updates : 0)) {
      throw StateError("state holds a generator at another round");
    }
  }

 private:
  DomainPointer domain_;
  SelectionRuleSettings settings_;
  std::unique_ptr<mechanisms::VertexSelection> selection_;
  std::unique_ptr<random::Source> source_;
  std::vector<double> sum_;
  std::vector<double> rest_;  // compensation of the sum's rounding errors
};

}  // namespace

std::unique_ptr<VertexRule> make_sum_rule(DomainPointer domain, mechanisms::ContinualSum sum) {
  return std::make_unique<SumRule>(std::move(domain), std::move(sum));
}

std::unique_ptr<VertexRule> make_selection_rule(DomainPointer domain,
                                                SelectionRuleSettings settings,
                                                std::unique_ptr<random::Source> source) {
  return std::make_unique<SelectionRule>(std::move(domain), settings, std::move(source));
}

}  // namespace dpoco::frank_wolfe
