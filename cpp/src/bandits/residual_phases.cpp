#include "dpoco/bandits/residual_phases.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "dpoco/core/compensated.hpp"
#include "dpoco/core/eigen_solvers.hpp"
#include "dpoco/core/errors.hpp"
#include "dpoco/core/packed.hpp"
#include "dpoco/local/public_coins.hpp"
#include "dpoco/simd/elementary.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::bandits {
namespace {

constexpr double kRenewal = 0.25;        // share of the last step's square added to the covariance
constexpr double kLeastVariance = 1e-6;  // variance of a sum without noise: has an inverse
constexpr std::size_t kScales = 120;
constexpr std::size_t kEdges = ResidualPhases::kBins - 1;
constexpr double kTwoOverRootPi = 1.12837916709551257390;
// The key of the public coins and draws. The guarantee does not need them to be secret.
constexpr std::uint64_t kCoinSeed = 0;
constexpr std::uint64_t kDrawStream = 0;

// The ends of the bins of residuals, in clipping bounds.
constexpr std::array<double, kEdges> kBinEnds = {
    0.125, 0.17677669529663687, 0.25, 0.35355339059327373, 0.5, 0.70710678118654752,
    1.0,   1.41421356237309505, 2.0};

// The probability that a standard normal variate is within x, x >= 0, from a series of positive
// terms.
double chance_within(double x) {
  const double z = x * kSqrtHalf;
  if (z > 6.0) return 1.0;
  double term = z;
  double sum = z;
  for (int n = 1; term > 1e-17 * sum; ++n) {
    term *= 2.0 * z * z / (2.0 * n + 1.0);
    sum += term;
  }
  return kTwoOverRootPi * elementary::exp(-z * z) * sum;
}

struct ScaleTable {
  std::array<double, kScales> scales;
  std::array<std::array<double, kEdges>, kScales> shares;  // within each edge

  ScaleTable() {
    for (std::size_t i = 0; i < kScales; ++i) {
      const double log2 = -4.0 + 7.0 * static_cast<double>(i) / (kScales - 1);
      scales[i] = elementary::exp(log2 * (elementary::kLn2Hi + elementary::kLn2Lo));
      for (std::size_t j = 0; j < kEdges; ++j) {
        shares[i][j] = chance_within(kBinEnds[j] / scales[i]);
      }
    }
  }
};

// The scale, in clipping bounds, of the normal law whose histogram is nearest to a noisy histogram;
// 0 if no count of it is positive.
double fitted_scale(std::span<const double> noisy) {
  static const ScaleTable table;
  std::array<double, kEdges> shares;
  double total = 0.0;
  for (std::size_t j = 0; j < noisy.size(); ++j) {
    total += std::max(noisy[j], 0.0);
    if (j < kEdges) shares[j] = total;
  }
  if (!(total > 0.0)) return 0.0;
  double best = 0.0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < kScales; ++i) {
    double misfit = 0.0;
    for (std::size_t j = 0; j < kEdges; ++j) {
      const double gap = table.shares[i][j] - shares[j] / total;
      misfit += gap * gap;
    }
    if (misfit < least) {
      least = misfit;
      best = table.scales[i];
    }
  }
  return best;
}

// Shrinks the eigenvalues of a matrix of second moments, except the trace, by the part that noise
// explains. `square` bounds the trace.
RowMatrix shrunk(const RowMatrix& moments, double deviation, double square) {
  const Index d = moments.rows();
  const double mean = moments.trace() / static_cast<double>(d);
  const double most = square / static_cast<double>(d);
  const double level = std::clamp(mean, 0.05 * most, most);
  const double edge = deviation * std::sqrt(2.0 * static_cast<double>(d));
  RowMatrix found = moments;
  found.diagonal().array() -= mean;
  EigenvaluesOfRows spectrum(d);
  RowMatrix out = RowMatrix::Zero(d, d);
  if (spectrum.compute(found).info() != Eigen::Success) {
    out.diagonal().setConstant(level);
    return out;
  }
  for (Index i = 0; i < d; ++i) {
    const double own = spectrum.eigenvalues()[i];
    const double kept = std::copysign(std::max(std::fabs(own) - edge, 0.0), own);
    const auto axis = spectrum.eigenvectors().col(i);
    out += (std::max(level + kept, 0.02 * level) * axis) * axis.transpose();
  }
  return out;
}

// Row k of C, applied to the last and all earlier summands. Adds the last one to `kept`.
template <class T, class Row>
T mix(T& kept, const T& last, const Row& row) {
  const T fresh = row.fresh * last;
  const T out = fresh + row.past * kept;
  kept = row.keep * kept + fresh;
  return out;
}

}  // namespace

std::size_t ResidualPhases::sum_dimension(std::uint64_t arms, std::size_t dimension,
                                          bool any) noexcept {
  const auto vectors = static_cast<std::size_t>(arms) * dimension;
  if (!any) return vectors + packed_size(dimension) + kBins;
  return vectors + static_cast<std::size_t>(arms) * packed_size(dimension) + dimension + kBins;
}

std::shared_ptr<const RowMatrix> ResidualPhases::public_draws(std::size_t dimension) {
  static std::mutex guard;
  static std::map<std::size_t, std::weak_ptr<const RowMatrix>> held;
  const std::lock_guard lock(guard);
  std::shared_ptr<const RowMatrix> known = held[dimension].lock();
  if (!known) {
    RowMatrix draws(kDraws, static_cast<Index>(dimension));
    random::Source source(random::Key{}, kDrawStream);
    source.fill(random::Variate::gaussian, view(draws));
    known = std::make_shared<const RowMatrix>(std::move(draws));
    held[dimension] = known;
  }
  return known;
}

ResidualPhases::ResidualPhases(BanditSettings settings, losses::RecordClipper clipper,
                               ResidualPhasesSettings own, mechanisms::ContinualSum sum)
    : BanditLearner(settings, std::move(clipper)),
      own_(std::move(own)),
      sum_(std::move(sum)),
      batch_(sum_dimension(arms(), dimension(), own_.mean.has_value()), own_.phases),
      reach_(own_.parameter_bound * this->clipper().bound()),
      prior_(reach_ * reach_ / static_cast<double>(dimension())),
      reward_bound_(largest_reward()),
      constants_(choose_constants()),
      clip_(std::max(constants_.first * reward_bound_, own_.reward_noise.value_or(0.0))),
      released_(sum_dimension(arms(), dimension(), own_.mean.has_value()), 0.0),
      units_(dimension(), 0.0),
      draws_(public_draws(dimension())) {
  const auto d = static_cast<Index>(dimension());
  const double bound = this->clipper().bound();
  if (own_.factor.decay.size() != 1 || own_.factor.omega.size() != 1 || own_.factor.ends.empty()) {
    throw std::invalid_argument("phases need a normalised factorisation of one buffer");
  }
  if (!(own_.weight > 0.0 && own_.mark > 0.0 && reach_ > 0.0 && std::isfinite(reach_))) {
    throw std::invalid_argument("weight, mark and parameter_bound must be positive");
  }
  if (own_.intercept && !(std::fabs(*own_.intercept) < bound && *own_.intercept != 0.0 && d > 1)) {
    throw std::invalid_argument("intercept must be an entry of a context of two or more");
  }
  if (own_.mean && (!(*own_.mean > 0.0) || own_.intercept || own_.one_hot > 0)) {
    throw std::invalid_argument("contexts of any law have a weight, and no entries that are told");
  }
  if (own_.half_life && !(*own_.half_life > 0.0)) {
    throw std::invalid_argument("half_life must be positive");
  }
  if (own_.one_hot == 1 || own_.one_hot + (own_.intercept ? 1 : 0) > dimension()) {
    throw std::invalid_argument("one_hot must be 0, or entries of a context from 2 on");
  }
  if (static_cast<std::size_t>(sum_.dimension()) != released_.size()) {
    throw std::invalid_argument("the sum must have the dimension of the statistics");
  }
  std::uint64_t end = 0;
  for (;;) {
    end += own_.phases.length(end);
    if (end >= horizon()) break;
    ++pushes_;
  }
  if (sum_.horizon() < pushes_)
    throw std::invalid_argument("the sum must have room for all phases");
  const Arm fresh{Vector::Zero(d),       RowMatrix::Identity(d, d) * prior_,
                  RowMatrix::Zero(d, d), RowMatrix::Zero(d, d),
                  Vector::Zero(d),       Vector::Zero(d)};
  arms_.assign(static_cast<std::size_t>(arms()), fresh);
  const std::size_t more = own_.mean ? dimension() : 0;
  kept_moments_ = pooled_moments_ =
      Vector::Zero(static_cast<Index>(packed_size(dimension()) + more));
}

// With category features only, the errors have no normal law: clipping leaves most of them
// unchanged.
ResidualPhases::Constants ResidualPhases::choose_constants() const {
  const double width = own_.one_hot > 0 ? 1.0 : 2.0;
  if (own_.one_hot + (own_.intercept ? 1U : 0U) == dimension()) return {width, 1.0, 2.0};
  if (own_.reward_noise) return {width, 0.2, 0.7};
  return {width, 0.3, 1.0};
}

// Calls add(entry, value) for every entry that a record changes.
template <class Add>
void ResidualPhases::add_record(std::uint64_t arm, std::span<const double> context, double reward,
                                Add add) const {
  const std::size_t d = dimension();
  const double unit = clipper().bound();
  const Arm& own = arms_[static_cast<std::size_t>(arm)];
  double margin = 0.0;
  for (std::size_t i = 0; i < d; ++i) {
    margin += own.coefficients[static_cast<Index>(i)] * (context[i] / unit);
  }
  const double residual = (reward - margin) / clip_;
  const double slope = std::clamp(residual, -1.0, 1.0);
  std::size_t at = static_cast<std::size_t>(arm) * d;
  for (std::size_t i = 0; i < d; ++i) add(at + i, slope * (context[i] / unit));
  at = static_cast<std::size_t>(arms()) * d;
  if (own_.mean) at += static_cast<std::size_t>(arm) * packed_size(d);
  for (std::size_t i = 0; i < d; ++i) {
    const double x = own_.weight * (context[i] / unit);
    add(at++, x * (context[i] / unit));
    for (std::size_t j = i + 1; j < d; ++j) add(at++, kSqrtTwo * x * (context[j] / unit));
  }
  at = released_.size() - kBins;
  if (own_.mean) {
    for (std::size_t i = 0; i < d; ++i) add(at - d + i, *own_.mean * (context[i] / unit));
  }
  std::size_t bin = 0;
  for (const double end : kBinEnds) bin += std::fabs(residual) > end ? 1U : 0U;
  add(at + bin, own_.mark);
}

void ResidualPhases::leaf(std::uint64_t arm, std::span<const double> context, double reward,
                          std::span<double> out) const {
  std::fill(out.begin(), out.end(), 0.0);
  add_record(arm, context, reward, [out](std::size_t i, double value) { out[i] = value; });
}

std::uint64_t ResidualPhases::coin(std::uint64_t round) const {
  return local::PublicCoins(kCoinSeed, round, 0).below(arms());
}

std::uint64_t ResidualPhases::best(std::span<const double> units) const {
  const simd::Kernels& k = simd::kernels();
  const std::size_t d = units.size();
  std::uint64_t found = 0;
  double highest = -std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < arms_.size(); ++a) {
    const Arm& arm = arms_[a];
    double variance = 0.0;
    for (std::size_t i = 0; i < d; ++i) {
      variance += units[i] * k.dot(arm.covariance.data() + i * d, units.data(), d);
    }
    const double score = k.dot(arm.coefficients.data(), units.data(), d) +
                         constants_.width * std::sqrt(std::max(variance, 0.0));
    if (score > highest) {
      highest = score;
      found = a;
    }
  }
  return found;
}

std::uint64_t ResidualPhases::choose(Context context) {
  return sum_.round() == 0 ? coin(round()) : advise(context);
}

std::uint64_t ResidualPhases::advise(Context context) {
  for (std::size_t i = 0; i < units_.size(); ++i) units_[i] = context[i] / clipper().bound();
  return best(units_);
}

std::int64_t ResidualPhases::due_arm(std::span<const double> promised) const {
  double ahead = static_cast<double>(round());
  for (std::uint64_t arm = 0; arm < arms(); ++arm) ahead += promised[arm];
  if (sum_.round() > 0) return -1;
  return static_cast<std::int64_t>(coin(static_cast<std::uint64_t>(ahead)));
}

void ResidualPhases::learn(std::uint64_t arm, Context context, double reward) {
  if (!context.empty()) {
    const std::span<double> sum = batch_.sum(), rest = batch_.rest();
    add_record(arm, context, reward, [sum, rest](std::size_t i, double value) {
      rest.empty() ? void(sum[i] += value) : add_compensated(value, sum[i], rest[i]);
    });
  }
  const std::uint64_t length = batch_.length();
  if (!batch_.close_round()) return;
  if (batch_.ended() <= pushes_) close_phase(length);  // what the last phase adds decides nothing
  batch_.clear();
}

// From here on, all values are released or public.
void ResidualPhases::close_phase(std::uint64_t length) {
  const std::size_t d = dimension();
  const auto ended = static_cast<double>(round() + 1);
  const auto n = static_cast<double>(length);
  std::vector<double> last = released_;
  sum_.push(std::span(batch_.values()).first(released_.size()), released_);
  for (std::size_t i = 0; i < last.size(); ++i) last[i] = released_[i] - last[i];
  const auto& ends = own_.factor.ends;
  const auto block = std::lower_bound(ends.begin(), ends.end(), sum_.round()) - ends.begin();
  const Row row{1.0 / own_.factor.levels[static_cast<std::size_t>(block)], own_.factor.omega[0],
                1.0 - own_.factor.decay[0]};
  const std::span<const double> sums(last);
  const auto matrices =
      sums.subspan(arms_.size() * d).first(sums.size() - kBins - arms_.size() * d);
  pool_moments(matrices, n, row);
  std::vector<RowMatrix> moments = design(n);
  for (std::size_t a = 0; own_.mean && a < arms_.size(); ++a) {
    correct(moments[a], matrices.subspan(a * packed_size(d), packed_size(d)), row);
  }
  const double fitted = fitted_scale(sums.last(kBins));
  const double scale = fitted > 0.0 ? fitted * clip_ : clip_ / constants_.clips;
  const double noise =  // the square of the rewards' own
      sum_.round() == 1 ? 0.0 : std::max(scale * scale - mean_spread(moments, n), 0.0);
  for (std::size_t a = 0; a < arms_.size(); ++a) {
    update(arms_[a], moments[a], sums.subspan(a * d, d), scale, row);
  }
  if (own_.half_life) forget(n);
  const auto first = static_cast<double>(own_.phases.first);
  const double wide = std::min(3.0, constants_.clips * std::sqrt(ended / first));
  const double wanted = std::max(
      {wide * std::sqrt(mean_spread(moments, n) + noise), 0.5 * clip_, 1e-3 * reward_bound_});
  clip_ = std::max(std::min({reward_bound_ + reach_, 2.0 * clip_, wanted}),
                   own_.reward_noise.value_or(0.0));
}

// `sums` has one triangle, or the triangles of all arms followed by the weighted contexts.
void ResidualPhases::pool_moments(std::span<const double> sums, double length, const Row& row) {
  const auto size = static_cast<Index>(packed_size(dimension()));
  Vector last(kept_moments_.size());
  last.head(size).setZero();
  for (std::size_t a = 0; a < (own_.mean ? arms_.size() : 1); ++a) {
    last.head(size) += Eigen::Map<const Vector>(sums.data() + a * packed_size(dimension()), size);
  }
  const Index rest = last.size() - size;
  last.tail(rest) = Eigen::Map<const Vector>(sums.data() + sums.size() - rest, rest);
  const Vector mixed = mix(kept_moments_, last, row);
  const double rounds = mix(kept_length_, length, row);
  pooled_moments_ += rounds * mixed;
  pooled_length_ += rounds * rounds;
}

// The mean of the contexts, shrunk by the part that noise explains, within the unit ball.
Vector ResidualPhases::pooled_mean() const {
  const auto d = static_cast<Index>(dimension());
  Vector mean = pooled_moments_.tail(d) / (pooled_length_ * *own_.mean);
  const double deviation = sum_.noise_scale() / (*own_.mean * std::sqrt(pooled_length_));
  const double square = mean.squaredNorm();
  const double noise = static_cast<double>(d) * deviation * deviation;
  if (!(square > noise)) return Vector::Zero(d);
  mean *= 1.0 - noise / square;
  const double norm = std::sqrt(mean.squaredNorm());
  if (norm > 1.0) mean /= norm;
  return mean;
}

// Draws kDraws contexts, one per row, from the law that the released moments describe. Each row has
// a category, by the categories' shares; the entries that are neither one-hot nor constant vary
// around the mean of the category. Replaces `moments` by the moments of this law.
RowMatrix ResidualPhases::draw_contexts(RowMatrix& moments) const {
  const auto d = static_cast<Index>(dimension());
  const auto first = static_cast<Index>(own_.one_hot);
  const Index free = d - first - (own_.intercept ? 1 : 0);
  const double constant = own_.intercept.value_or(0.0) / clipper().bound();
  const double sums = own_.mean ? static_cast<double>(arms_.size()) : 1.0;  // each with noise
  const double deviation =
      sum_.noise_scale() * std::sqrt(sums) / (own_.weight * std::sqrt(pooled_length_));
  moments.resize(d, d);
  unpack(view(pooled_moments_), moments);
  moments /= pooled_length_ * own_.weight;
  // Without one-hot entries there is one category. `length` is the value of the entry that marks a
  // category: the one-hot entry or the constant.
  Vector shares = Vector::Ones(std::max<Index>(first, 1));
  double length = constant;
  if (first > 0) {
    shares = moments.diagonal().head(first).cwiseMax(0.0);
    length = std::sqrt(std::min(shares.sum(), 1.0));
    if (length > 0.0) shares /= shares.sum();
  }
  RowMatrix about = moments.block(first, first, free, free);
  RowMatrix means = RowMatrix::Zero(shares.size(), free);
  for (Index c = 0; c < shares.size() && length > 0.0; ++c) {
    const Vector joint = moments.col(first > 0 ? c : d - 1).segment(first, free);
    const double size = std::sqrt(joint.squaredNorm());
    const double noise = deviation * std::sqrt(0.5 * static_cast<double>(free));
    if (size > noise && shares[c] > 0.0) {
      const double kept = (1.0 - (noise / size) * (noise / size)) / (length * shares[c]);
      means.row(c) = kept * joint.transpose();
      about -= shares[c] * means.row(c).transpose() * means.row(c);
    }
  }
  double least = 1e-6;
  double taken = constant * constant;
  if (first > 0) taken += length * length;
  if (own_.mean) {
    means.row(0) = pooled_mean().transpose();
    about -= means.row(0).transpose() * means.row(0);
    taken = means.row(0).squaredNorm();
    least = 1e-3;
  }
  RowMatrix law(free, free);
  RowMatrix lower(free, free);
  if (free > 0) {
    law = shrunk(about, deviation, std::max(1.0 - taken, least));
    RowMatrix raised = law;
    raised.diagonal().array() += 1e-12;
    Cholesky root;
    root.compute(Eigen::MatrixXd(raised));
    lower = root.matrixL();
  }
  // The mean context of every category.
  RowMatrix centres = RowMatrix::Zero(shares.size(), d);
  centres.block(0, first, shares.size(), free) = means;
  if (own_.intercept) centres.col(d - 1).setConstant(constant);
  for (Index c = 0; c < first; ++c) centres(c, c) = length;
  moments = centres.transpose() * shares.asDiagonal() * centres;
  moments.block(first, first, free, free) += law;
  RowMatrix out = RowMatrix::Zero(static_cast<Index>(kDraws), d);
  Index category = 0;
  double end = shares[0];
  for (Index i = 0; i < out.rows(); ++i) {
    const double place = (static_cast<double>(i) + 0.5) / static_cast<double>(kDraws);
    while (place > end && category + 1 < shares.size()) end += shares[++category];
    out.row(i) = centres.row(category);
    for (Index j = 0; j < free; ++j) {
      out(i, first + j) += lower.row(j).head(j + 1).dot(draws_->row(i).head(j + 1));
    }
    const double norm = std::sqrt(out.row(i).squaredNorm());
    if (norm > 1.0) out.row(i) /= norm;
  }
  return out;
}

// Approximates the sum of x x' over the contexts of each arm in a phase of `length` rounds.
std::vector<RowMatrix> ResidualPhases::design(double length) const {
  const auto d = static_cast<Index>(dimension());
  RowMatrix moments;
  const RowMatrix contexts = draw_contexts(moments);
  if (sum_.round() == 1) {  // fair coins chose the arms
    return std::vector<RowMatrix>(arms_.size(),
                                  moments * (length / static_cast<double>(arms_.size())));
  }
  std::vector<RowMatrix> out(arms_.size(), RowMatrix::Zero(d, d));
  for (Index i = 0; i < contexts.rows(); ++i) {
    const std::uint64_t arm = best({contexts.row(i).data(), dimension()});
    out[static_cast<std::size_t>(arm)] += contexts.row(i).transpose() * contexts.row(i);
  }
  for (RowMatrix& own : out) own *= length / static_cast<double>(kDraws);
  return out;
}

// Moves the predicted moments of an arm towards the released ones, by the share of their difference
// that noise does not explain (James and Stein).
void ResidualPhases::correct(RowMatrix& moments, std::span<const double> packed,
                             const Row& row) const {
  const Index d = moments.rows();
  RowMatrix gap(d, d);
  unpack(packed, gap);
  gap = gap / own_.weight - moments;
  const double past = sum_.round() > 1 ? row.past * row.past : 0.0;
  const double deviation = sum_.noise_scale() / (row.fresh * own_.weight);
  const double noise = static_cast<double>(packed.size()) * (1.0 + past) * deviation * deviation;
  const double square = gap.squaredNorm();
  if (!(square > noise)) return;
  const RowMatrix moved = moments + (1.0 - noise / square) * gap;
  EigenvaluesOfRows spectrum(d);
  if (spectrum.compute(moved).info() != Eigen::Success) return;
  moments.setZero();
  for (Index i = 0; i < d; ++i) {
    const auto axis = spectrum.eigenvectors().col(i);
    moments += (std::max(spectrum.eigenvalues()[i], 0.0) * axis) * axis.transpose();
  }
}

// The mean square of the error of the predicted mean rewards, from the covariances of the
// coefficients.
double ResidualPhases::mean_spread(const std::vector<RowMatrix>& design, double length) const {
  double total = 0.0;
  for (std::size_t a = 0; a < arms_.size(); ++a) {
    total += arms_[a].covariance.cwiseProduct(design[a]).sum();
  }
  return total / length;
}

// A Kalman step on row k of C times the sums so far, whose noise is white.
void ResidualPhases::update(Arm& arm, const RowMatrix& moments, std::span<const double> sums,
                            double scale, const Row& row) {
  const Index d = arm.coefficients.size();
  const Vector own = Eigen::Map<const Vector>(sums.data(), d);
  const double within = chance_within(clip_ / scale);
  const double size = std::min(scale / clip_, 1.0);
  const RowMatrix slopes = moments * (within / clip_);
  const RowMatrix spreads = moments * (size * size);
  const Vector targets = own + slopes * arm.coefficients;
  const Row squares{row.fresh * row.fresh, row.past * row.past, row.keep * row.keep};
  const RowMatrix slope = mix(arm.kept_slopes, slopes, row);
  const Vector gap = mix(arm.kept_targets, targets, row) - slope * arm.mean;
  RowMatrix variance = mix(arm.kept_spreads, spreads, squares);
  variance.diagonal().array() += std::max(sum_.noise_scale() * sum_.noise_scale(), kLeastVariance);
  const RowMatrix known = slope * arm.covariance;
  variance += known * slope.transpose();
  Cholesky factor;
  factor.compute(Eigen::MatrixXd(variance));
  if (factor.info() != Eigen::Success) return;
  const Eigen::MatrixXd gain = factor.solve(Eigen::MatrixXd(known));  // transposed
  Vector moved = arm.mean + gain.transpose() * gap;
  if (!moved.allFinite()) return;
  const double length = std::sqrt(moved.squaredNorm());
  const double kept = length > reach_ ? reach_ / length : 1.0;
  // With own_.mean, only the coefficients are projected. If the projection moved the mean of a
  // belief, its covariance would be too small, and the belief would stay wrong.
  if (!own_.mean) moved *= kept;
  const Vector step = moved - arm.mean;
  const RowMatrix left = arm.covariance - gain.transpose() * known;
  arm.covariance = 0.5 * (left + left.transpose()) + kRenewal * (step * step.transpose());
  arm.mean = moved;
  arm.coefficients = own_.mean ? Vector(kept * moved) : moved;
}

// Arms may have changed during the phase, so every covariance moves back towards the prior.
void ResidualPhases::forget(double length) {
  const double ln2 = elementary::kLn2Hi + elementary::kLn2Lo;
  const double kept = elementary::exp(-length / *own_.half_life * ln2);
  for (Arm& arm : arms_) {
    arm.covariance *= kept;
    arm.covariance.diagonal().array() += (1.0 - kept) * prior_;
  }
}

void ResidualPhases::coefficients(std::span<double> out) const {
  const auto entry = enter();
  const std::size_t d = dimension();
  for (std::size_t a = 0; a < arms_.size(); ++a) {
    for (std::size_t i = 0; i < d; ++i) {
      out[a * d + i] = arms_[a].coefficients[static_cast<Index>(i)] / clipper().bound();
    }
  }
}

void ResidualPhases::last_sums(std::span<double> out) const {
  const auto entry = enter();
  std::copy(released_.begin(), released_.end(), out.begin());
}

double ResidualPhases::clip() const {
  const auto entry = enter();
  return clip_;
}

// Calls visit(values) for all values that follow from releases.
template <class Visit>
void ResidualPhases::visit_state(Visit visit) {
  const auto all = [](auto& held) {
    return std::span<double>(held.data(), static_cast<std::size_t>(held.size()));
  };
  visit(all(released_));
  visit(std::span<double>(&clip_, 1));
  visit(all(kept_moments_));
  visit(all(pooled_moments_));
  visit(std::span<double>(&kept_length_, 1));
  visit(std::span<double>(&pooled_length_, 1));
  for (Arm& arm : arms_) {
    visit(all(arm.coefficients));
    visit(all(arm.covariance));
    visit(all(arm.kept_slopes));
    visit(all(arm.kept_spreads));
    visit(all(arm.kept_targets));
    if (own_.mean) visit(all(arm.mean));
  }
}

void ResidualPhases::write_own(Archive& archive) const {
  batch_.write_sum(archive);
  batch_.write_rest(archive);
  sum_.write(archive);
  const_cast<ResidualPhases*>(this)->visit_state(
      [&](std::span<double> values) { archive.reals(values); });
}

void ResidualPhases::read_own(ArchiveReader& archive) {
  batch_.read_sum(archive);
  batch_.read_rest(archive, round());
  sum_.read(archive);
  if (sum_.round() != std::min(batch_.ended(), pushes_)) {
    throw StateError("state holds an impossible round");
  }
  visit_state([&](std::span<double> values) {
    archive.reals(values);
    for (const double value : values) {
      if (!std::isfinite(value)) throw StateError("state holds impossible statistics");
    }
  });
  if (!(clip_ > 0.0)) throw StateError("state holds an impossible clip");
  for (Arm& arm : arms_) {
    if (!own_.mean) arm.mean = arm.coefficients;
  }
}

}  // namespace dpoco::bandits
