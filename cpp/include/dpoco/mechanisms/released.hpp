#pragma once

#include <cstdint>
#include <span>

namespace dpoco::oco {
class CoupledLearner;
}

namespace dpoco::mechanisms {

class ContinualSum;

// A release: numbers with noise, or drawn. Only a mechanism makes one, so code that is given these
// and public settings alone is post-processing: no guarantee rests on it.
class Released {
 public:
  std::span<const double> values() const noexcept { return values_; }
  // The number of this release, from 1.
  std::uint64_t number() const noexcept { return number_; }

 private:
  friend class ContinualSum;
  friend class oco::CoupledLearner;
  Released(std::span<const double> values, std::uint64_t number) noexcept
      : values_(values), number_(number) {}

  std::span<const double> values_;
  std::uint64_t number_;
};

// Base of code that is given releases and public settings alone.
struct PostProcessing {};

}  // namespace dpoco::mechanisms
