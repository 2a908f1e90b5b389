#include "dpoco/mechanisms/vertex_selection.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "dpoco/domains/vertex_set.hpp"
#include "dpoco/noise/exponential.hpp"
#include "dpoco/samplers/categorical.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::mechanisms {
namespace {

using domains::Box;
using domains::Domain;
using domains::LpBall;
using domains::Simplex;
using domains::VertexSet;
using random::Source;

constexpr std::size_t kBlock = 64;
// Added to every weight. Exponentials below e^-708 are 0, and a probability must not vanish for
// only one of two neighbouring streams. log(e^-u + c) changes by less than u does, so the range of
// its changes is no longer than that of the scores.
constexpr double kFloor = 0x1p-1000;

double with_floors(double sum, std::size_t count) {
  return sum + static_cast<double>(count) * kFloor;
}

std::size_t count_blocks(std::size_t n) { return (n + kBlock - 1) / kBlock; }

// Draws i < n with probability proportional to weight_i + kFloor in two races, first among blocks
// and then within the block. Every probability keeps its relative precision, however small. Races
// over blocks save time, because the exponential variates of a race cost more than the weights.
class BlockRace {
 public:
  explicit BlockRace(std::size_t blocks) : sums_(blocks), scratch_(std::max(blocks, kBlock)) {}

  static std::uint64_t draws(std::size_t blocks) { return kBlock + (blocks > 1 ? blocks : 0); }

  // The blocks form kRuns runs of equal length; blocks at the same place of the runs read the same
  // scores. fill(b, out) writes the weights of block b, at most kBlock, and returns their sum with
  // the floors. Entries that it does not write are never drawn. Returns the block and the place in
  // it.
  template <std::size_t kRuns = 1, class Fill>
  std::pair<std::size_t, std::size_t> draw(Source& source, Fill fill) {
    double weights[kBlock];
    std::size_t block = 0;
    if (sums_.size() > 1) {
      const std::size_t length = sums_.size() / kRuns;
      for (std::size_t b = 0; b < length; ++b) {
        for (std::size_t at = b; at < sums_.size(); at += length) sums_[at] = fill(at, weights);
      }
      block = samplers::draw_by_race(source, sums_, scratch_);
    }
    std::fill(weights, weights + kBlock, -kFloor);  // weight zero, once the floor is added
    fill(block, weights);
    for (double& weight : weights) weight += kFloor;
    return {block, samplers::draw_by_race(source, weights, scratch_)};
  }

 private:
  std::vector<double> sums_;
  std::vector<double> scratch_;
};

// The smallest of the scores with Laplace noise of scale 1 added to each. Scores may be added in
// any number of pieces. Blocks stay in the cache, and every pass over them is vectorised: a running
// comparison of single scores would cost more than the noise.
class NoisyLeast {
 public:
  explicit NoisyLeast(Source& source) : source_(source) {}

  // Candidates index(), index() + 1, ... with scores rate * x_i.
  void add(std::span<const double> x, double rate) {
    const simd::Kernels& k = simd::kernels();
    double heights[kPiece];
    for (std::size_t first = 0; first < x.size(); first += kPiece) {
      const std::size_t count = std::min(kPiece, x.size() - first);
      source_.fill(random::Variate::laplace, std::span(heights).first(count));
      mend(std::span(heights).first(count));
      k.axpy(rate, x.data() + first, count, heights);
      const double least = k.smallest(heights, count);
      if (least < best_) {
        best_ = least;
        chosen_ =
            index_ + static_cast<std::size_t>(std::find(heights, heights + count, least) - heights);
      }
      index_ += count;
    }
  }

  std::size_t chosen() const noexcept { return chosen_; }

 private:
  static constexpr std::size_t kPiece = 512;

  // Adds the full tails of noise::laplaces. In nearly all cases there is nothing to do.
  void mend(std::span<double> x) {
    constexpr double kFar = 22.0;      // below the upper end, beyond which variates are replaced
    constexpr double kNear = 0x1p-31;  // above the lower end
    unsigned outer = 0;
    for (const double each : x) {
      const double magnitude = std::fabs(each);
      outer |= static_cast<unsigned>(magnitude > kFar) | static_cast<unsigned>(magnitude < kNear);
    }
    if (outer == 0) return;
    for (double& each : x) {
      const double mended = noise::mend(source_, std::fabs(each));
      each = each < 0.0 ? -mended : mended;
    }
  }

  Source& source_;
  std::size_t index_ = 0;
  std::size_t chosen_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
};

// A choice among the 2 d vertices +-radius e_j (`kSigns` = 2) or the d vertices scale e_j (1).
template <std::size_t kSigns>
class AxisSelection final : public VertexSelection {
 public:
  AxisSelection(std::size_t d, double length, SelectionNoise noise)
      : VertexSelection(static_cast<Index>(d), noise, draws(d, noise)),
        d_(d),
        length_(length),
        race_(noise == SelectionNoise::gumbel ? kSigns * count_blocks(d) : 0) {}

  void select(std::span<const double> direction, double rate, Source& source,
              std::span<double> vertex) override {
    assert(std::ssize(direction) == dimension() && vertex.size() == direction.size());
    const bool gumbel = noise() == SelectionNoise::gumbel;
    const double own = rate * length_;
    const auto [place, negative] =
        gumbel ? draw(direction, own, source) : least(direction, own, source);
    std::ranges::fill(vertex, 0.0);
    vertex[place] = negative ? -length_ : length_;
  }

 private:
  static std::uint64_t draws(std::size_t d, SelectionNoise noise) {
    const std::size_t vertices = kSigns * d;
    if (vertices == 1) return 0;
    return noise == SelectionNoise::gumbel ? BlockRace::draws(kSigns * count_blocks(d)) : vertices;
  }

  std::pair<std::size_t, bool> draw(std::span<const double> direction, double rate,
                                    Source& source) {
    if (kSigns * d_ == 1) return {0, false};
    const simd::Kernels& k = simd::kernels();
    const double base =
        kSigns == 2 ? -k.max_abs(direction.data(), d_) : k.smallest(direction.data(), d_);
    const std::size_t half = count_blocks(d_);
    const auto [block,
                place] = race_.draw<kSigns>(source, [&](std::size_t b, std::span<double> out) {
      const bool mirrored = b >= half;
      const std::size_t first = (mirrored ? b - half : b) * kBlock;
      const std::size_t count = std::min(kBlock, d_ - first);
      const double sign = mirrored ? -1.0 : 1.0;
      return with_floors(
          k.tilt(nullptr, direction.data() + first, sign * base, sign * rate, count, out.data()),
          count);
    });
    const bool mirrored = block >= half;
    return {(mirrored ? block - half : block) * kBlock + place, mirrored};
  }

  std::pair<std::size_t, bool> least(std::span<const double> direction, double rate,
                                     Source& source) {
    if (kSigns * d_ == 1) return {0, false};
    NoisyLeast race(source);
    race.add(direction, rate);
    if constexpr (kSigns == 2) race.add(direction, -rate);
    const bool mirrored = race.chosen() >= d_;
    return {mirrored ? race.chosen() - d_ : race.chosen(), mirrored};
  }

  std::size_t d_;
  double length_;
  BlockRace race_;
};

class ListSelection final : public VertexSelection {
 public:
  ListSelection(std::shared_ptr<const VertexSet> set, SelectionNoise noise)
      : VertexSelection(set->dimension(), noise,
                        draws(static_cast<std::size_t>(set->count()), noise)),
        set_(std::move(set)),
        scores_(static_cast<std::size_t>(set_->count())),
        race_(noise == SelectionNoise::gumbel ? count_blocks(scores_.size()) : 0) {}

  void select(std::span<const double> direction, double rate, Source& source,
              std::span<double> vertex) override {
    assert(std::ssize(direction) == dimension() && vertex.size() == direction.size());
    set_->scores(direction, scores_);
    const std::size_t chosen =
        noise() == SelectionNoise::gumbel ? draw(rate, source) : least(rate, source);
    std::ranges::copy(set_->vertex(static_cast<Index>(chosen)), vertex.begin());
  }

 private:
  static std::uint64_t draws(std::size_t n, SelectionNoise noise) {
    if (n == 1) return 0;
    return noise == SelectionNoise::gumbel ? BlockRace::draws(count_blocks(n)) : n;
  }

  std::size_t draw(double rate, Source& source) {
    const std::size_t n = scores_.size();
    if (n == 1) return 0;
    const simd::Kernels& k = simd::kernels();
    const double base = k.smallest(scores_.data(), n);
    const auto [block, place] = race_.draw(source, [&](std::size_t b, std::span<double> out) {
      const std::size_t first = b * kBlock;
      const std::size_t count = std::min(kBlock, n - first);
      return with_floors(k.tilt(nullptr, scores_.data() + first, base, rate, count, out.data()),
                         count);
    });
    return block * kBlock + place;
  }

  std::size_t least(double rate, Source& source) const {
    if (scores_.size() == 1) return 0;
    NoisyLeast race(source);
    race.add(scores_, rate);
    return race.chosen();
  }

  std::shared_ptr<const VertexSet> set_;
  std::vector<double> scores_;
  BlockRace race_;
};

// Each coordinate goes to its upper end with its own probability. u_j is the excess of the upper
// end's score times the rate. It is cut off at +-kFar, which only reduces the effect of a record.
class BoxSelection final : public VertexSelection {
 public:
  BoxSelection(std::shared_ptr<const Box> box, SelectionNoise noise)
      : VertexSelection(box->dimension(), noise, 2 * static_cast<std::uint64_t>(box->dimension())),
        box_(std::move(box)),
        odds_(static_cast<std::size_t>(box_->dimension())),
        noise_values_(2 * odds_.size()) {}

  void select(std::span<const double> direction, double rate, Source& source,
              std::span<double> vertex) override {
    assert(std::ssize(direction) == dimension() && vertex.size() == direction.size());
    const std::size_t d = odds_.size();
    const double* low = box_->lower().data();
    const double* high = box_->upper().data();
    const double* first = noise_values_.data();
    const double* second = first + d;
    if (noise() == SelectionNoise::laplace) {
      noise::laplaces(source, noise_values_);
      for (std::size_t j = 0; j < d; ++j) {
        const double excess = rate * direction[j] * (high[j] - low[j]);
        vertex[j] = excess + first[j] < second[j] ? high[j] : low[j];
      }
      return;
    }
    constexpr double kFar = 600.0;
    for (std::size_t j = 0; j < d; ++j) {
      const double far = std::fabs(rate * direction[j] * (high[j] - low[j]));
      odds_[j] = far < kFar ? -far : -kFar;
    }
    simd::kernels().exp(odds_.data(), d, odds_.data());
    noise::exponentials(source, noise_values_);
    for (std::size_t j = 0; j < d; ++j) {
      // A race between the better end, of weight 1, and the other end, of weight odds_j <= 1.
      const bool upset = first[j] < odds_[j] * second[j];
      const bool upper_is_better = direction[j] < 0.0;
      vertex[j] = upset != upper_is_better ? high[j] : low[j];
    }
  }

 private:
  std::shared_ptr<const Box> box_;
  std::vector<double> odds_;
  std::vector<double> noise_values_;
};

}  // namespace

bool VertexSelection::accounts_for(const Source& source, std::uint64_t selections) const noexcept {
  using random::Variate;
  const bool gumbel = noise_ == SelectionNoise::gumbel;
  const std::uint64_t spent = draws_ * selections;
  return source.position(Variate::exponential) == (gumbel ? spent : 0) &&
         source.position(Variate::laplace) == (gumbel ? 0 : spent) &&
         source.position(Variate::uniform) == 0 && source.position(Variate::gaussian) == 0 &&
         source.position(Variate::gumbel) == 0;
}

std::unique_ptr<VertexSelection> make_vertex_selection(std::shared_ptr<const Domain> domain,
                                                       SelectionNoise noise) {
  if (noise == SelectionNoise::exponential) {
    throw std::invalid_argument("the noise must be gumbel or laplace");
  }
  const auto d = static_cast<std::size_t>(domain->dimension());
  if (auto ball = std::dynamic_pointer_cast<const LpBall>(domain); ball && ball->p() == 1.0) {
    return std::make_unique<AxisSelection<2>>(d, ball->radius(), noise);
  }
  if (auto simplex = std::dynamic_pointer_cast<const Simplex>(domain)) {
    return std::make_unique<AxisSelection<1>>(d, simplex->scale(), noise);
  }
  if (auto box = std::dynamic_pointer_cast<const Box>(domain)) {
    return std::make_unique<BoxSelection>(std::move(box), noise);
  }
  if (auto set = std::dynamic_pointer_cast<const VertexSet>(domain)) {
    return std::make_unique<ListSelection>(std::move(set), noise);
  }
  throw std::invalid_argument("the domain must be an l_1 ball, a simplex, a box or vertices");
}

}  // namespace dpoco::mechanisms
