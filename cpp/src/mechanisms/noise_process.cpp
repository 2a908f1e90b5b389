#include "dpoco/mechanisms/noise_process.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/grid.hpp"
#include "dpoco/noise/rounded_gaussian.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::mechanisms {
namespace {

using random::Source;

std::size_t require_size(Index dimension, std::uint64_t horizon) {
  if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
  if (horizon < 1) throw std::invalid_argument("horizon must be at least 1");
  return static_cast<std::size_t>(dimension);
}

// Requires multiples of unit, fewer than 2^50 of them, or with unit 0 any finite numbers.
void check_noise(const std::vector<double>& values, double unit) {
  for (double value : values) {
    if (!std::isfinite(value)) throw StateError("state holds noise that is not a number");
    if (unit > 0.0 && !(std::fabs(value) < unit * 0x1p50 && std::fmod(value, unit) == 0.0)) {
      throw StateError("state holds noise beside the lattice");
    }
  }
}

void read_noise(ArchiveReader& archive, std::vector<double>& values, double unit) {
  archive.reals(values);
  check_noise(values, unit);
}

// Precision, in bits of the noise scale, of buffers on the lattice: docs/privacy/lattice.md.
constexpr int kBufferBits = 43;

double nearest_integer(double x) { return nearest_multiple(x, 1.0); }

// Independent vectors of one law. The caller multiplies Gaussian draws by scale(), together with
// other factors; draws on a lattice are already scaled.
class Draws {
 public:
  Draws(Index dimension, NoiseLaw law)
      : d_(static_cast<std::size_t>(dimension)), sampler_(dimension, law.order, law.scale) {
    if (!law.on_lattice()) return;
    if (!gaussian()) throw std::invalid_argument("only Gaussian noise is drawn on a lattice");
    rounded_.emplace(law.scale / law.grid);
    current_ = rounded_;
  }

  bool on_lattice() const noexcept { return rounded_.has_value(); }
  // All noise is a multiple of this; 0 without a lattice.
  double unit() const noexcept { return on_lattice() ? 1.0 : 0.0; }

  double scale() const noexcept { return gaussian() && !rounded_ ? sampler_.scale() : 1.0; }
  // Lowers the scale of later draws to this share of the law's scale, and returns the new scale.
  // Only draws on a lattice change; for others the caller multiplies by the returned scale.
  double lower(double level) {
    if (!rounded_) return level * scale();
    current_.emplace(level * rounded_->scale());
    return current_->scale();
  }
  NoiseLaw law() const noexcept {
    if (rounded_) return {2.0, rounded_->scale(), 1.0};
    return {sampler_.order(), sampler_.scale(), 0.0};
  }

  // Writes consecutive vectors. Each times scale() is one draw.
  void next(Source& source, std::span<double> out) {
    if (current_) return current_->fill(source, out);
    if (gaussian()) return source.fill(random::Variate::gaussian, out);
    for (std::size_t i = 0; i < out.size(); i += d_) sampler_.sample(source, out.subspan(i, d_));
  }

  bool account_for(std::uint64_t vectors, const Source& source) const {
    return sampler_.accounts_for(source, vectors);
  }

 private:
  bool gaussian() const noexcept { return sampler_.order() == 2.0; }

  std::size_t d_;
  noise::GeneralizedGaussian sampler_;
  std::optional<noise::RoundedGaussian> rounded_;
  std::optional<noise::RoundedGaussian> current_;
};

// Rows of length d, one per level of the dyadic tree.
class Levels {
 public:
  Levels(std::size_t d, std::uint64_t horizon)
      : d_(d), data_(d * static_cast<std::size_t>(std::bit_width(horizon)), 0.0) {}

  std::span<double> operator[](int level) {
    return std::span(data_).subspan(static_cast<std::size_t>(level) * d_, d_);
  }
  void write(Archive& archive) const { archive.reals(data_); }
  void read(ArchiveReader& archive, double unit) { read_noise(archive, data_, unit); }

 private:
  std::size_t d_;
  std::vector<double> data_;
};

// prefix[level of t's lowest bit] = prefix[lowest bit of t without it] + scale node. So the noise
// of the prefix 1..t costs one vector addition to the noise of the prefix before the completed
// node. `out` contains the node and receives the prefix.
void extend_prefix(Levels& prefix, std::uint64_t t, double scale, std::span<double> out) {
  const std::uint64_t before = t & (t - 1);
  const double* base = before == 0 ? nullptr : prefix[std::countr_zero(before)].data();
  double* own = prefix[std::countr_zero(t)].data();
  simd::kernels().extend(base, out.data(), scale, out.size(), own, out.data());
}

class Tree final : public NoiseProcess {
 public:
  Tree(Index dimension, std::uint64_t horizon, NoiseLaw law)
      : d_(require_size(dimension, horizon)), draws_(dimension, law), prefix_(d_, horizon) {}

  void advance(std::uint64_t t, Source& source, std::span<double> out) override {
    draws_.next(source, out);
    for (std::size_t i = 0; i < out.size(); i += d_) {
      extend_prefix(prefix_, t++, draws_.scale(), out.subspan(i, d_));
    }
  }
  Correlation correlation() const override { return {Factorisation::tree, draws_.law()}; }
  void write(Archive& archive) const override { prefix_.write(archive); }
  void read(ArchiveReader& archive, std::uint64_t) override {
    prefix_.read(archive, draws_.unit());
  }
  bool matches(std::uint64_t round, const Source& source) const override {
    return draws_.account_for(round, source);
  }

 private:
  std::size_t d_;
  Draws draws_;
  Levels prefix_;
};

class Toeplitz final : public NoiseProcess {
 public:
  Toeplitz(Index dimension, std::uint64_t horizon, NoiseLaw law)
      : d_(require_size(dimension, horizon)), draws_(dimension, law), coefficients_(horizon) {
    coefficients_[0] = 1.0;
    for (std::size_t k = 1; k < coefficients_.size(); ++k) {
      coefficients_[k] = coefficients_[k - 1] * (1.0 - 1.0 / (2.0 * static_cast<double>(k)));
    }
    history_.reserve(d_ * coefficients_.size());
  }

  void advance(std::uint64_t t, Source& source, std::span<double> out) override {
    for (std::size_t past = t - 1; !out.empty(); ++past, out = out.subspan(d_)) {
      const std::span<double> row = out.first(d_);
      draws_.next(source, row);
      for (const double each : row) history_.push_back(draws_.scale() * each);
      std::ranges::fill(row, 0.0);
      for (std::size_t j = 0; j < past; ++j) {
        simd::kernels().axpy(coefficients_[past - j], history_.data() + j * d_, d_, row.data());
      }
      if (draws_.on_lattice()) std::ranges::transform(row, row.begin(), nearest_integer);
      simd::kernels().axpy(1.0, history_.data() + past * d_, d_, row.data());
    }
  }
  Correlation correlation() const override { return {Factorisation::toeplitz, draws_.law()}; }
  void write(Archive& archive) const override {
    archive.word(history_.size() / d_);
    archive.reals(history_);
  }
  void read(ArchiveReader& archive, std::uint64_t round) override {
    if (archive.word() != round) throw StateError("state holds another number of draws");
    const std::uint64_t entries = archive.word();
    if (entries != round * d_) {
      throw StateError("state holds an array of another length");
    }
    std::vector<double> history;  // grows with the numbers read, whatever length is claimed
    for (std::uint64_t i = 0; i < entries; ++i) history.push_back(archive.real());
    check_noise(history, draws_.unit());
    history_.assign(history.begin(), history.end());
  }
  bool matches(std::uint64_t round, const Source& source) const override {
    return draws_.account_for(round, source);
  }

 private:
  std::size_t d_;
  Draws draws_;
  std::vector<double> coefficients_;
  std::vector<double> history_;
};

bool operator==(const BltParameters& one, const BltParameters& other) {
  return one.decay == other.decay && one.omega == other.omega && one.ends == other.ends &&
         one.levels == other.levels;
}

bool operator==(const BandParameters& one, const BandParameters& other) {
  return one.coefficients == other.coefficients && one.levels == other.levels;
}

// Processes with equal parameters, as in the learners of a pool, share one copy: a long horizon has
// some hundred blocks.
template <class Parameters>
std::shared_ptr<const Parameters> share_parameters(Parameters own) {
  static std::mutex guard;
  static std::weak_ptr<const Parameters> last;
  const std::lock_guard lock(guard);
  std::shared_ptr<const Parameters> known = last.lock();
  if (!known || !(*known == own)) {
    known = std::make_shared<const Parameters>(std::move(own));
    last = known;
  }
  return known;
}

// C is Toeplitz with c_0 = 1, c_i = sum_j omega_j (1 - s_j)^(i-1), and the buffers solve C w = z.
// Noise in doubles uses the rounded 1 - s_j, noise on a lattice s_j itself. With blocks the buffers
// are stored times the scale of the draws, so that a round costs no more; they are rescaled between
// blocks.
class BufferedToeplitz final : public NoiseProcess {
 public:
  BufferedToeplitz(Index dimension, NoiseLaw law, BltParameters parameters)
      : d_(require_size(dimension, 1)),
        draws_(dimension, law),
        held_(share_parameters(std::move(parameters))),
        parameters_(*held_),
        buffers_(d_ * parameters_.decay.size(), 0.0),
        total_(d_, 0.0) {
    if (parameters_.decay.empty() || parameters_.decay.size() != parameters_.omega.size()) {
      throw std::invalid_argument("decay and omega must be of one positive length");
    }
    check_blocks(parameters_);
    for (const double s : parameters_.decay) keep_.push_back(1.0 - s);
    if (!law.on_lattice()) return;
    unit_ = grid_below(law.scale, kBufferBits) / law.grid;
  }

  void advance(std::uint64_t t, Source& source, std::span<double> out) override {
    if (parameters_.ends.empty()) return step(draws_.scale(), source, out);
    while (!out.empty()) {
      const auto& ends = parameters_.ends;
      const auto block =
          static_cast<std::size_t>(std::lower_bound(ends.begin(), ends.end(), t) - ends.begin());
      if (block == ends.size()) throw std::logic_error("a round behind the last block");
      const bool opens = block > 0 && t == ends[block - 1] + 1;
      const double before = opens ? draws_.lower(parameters_.levels[block - 1]) : 0.0;
      const double scale = draws_.lower(parameters_.levels[block]);
      if (opens) rescale(scale / before);
      const std::uint64_t count = std::min<std::uint64_t>(out.size() / d_, ends[block] - t + 1);
      step(scale, source, out.first(count * d_));
      t += count;
      out = out.subspan(count * d_);
    }
  }
  Correlation correlation() const override {
    return {parameters_.ends.empty() ? Factorisation::blt : Factorisation::blt_normalised,
            draws_.law(), parameters_};
  }
  void write(Archive& archive) const override { archive.reals(buffers_, total_); }
  void read(ArchiveReader& archive, std::uint64_t) override {
    read_noise(archive, buffers_, unit_);
    read_noise(archive, total_, draws_.unit());
  }
  bool matches(std::uint64_t round, const Source& source) const override {
    return draws_.account_for(round, source);
  }

 private:
  static void check_blocks(const BltParameters& p) {
    bool right = p.ends.size() == p.levels.size() && (p.levels.empty() || p.levels[0] == 1.0);
    std::uint64_t end = 0;
    double level = 1.0;
    for (std::size_t i = 0; right && i < p.ends.size(); ++i) {
      right = p.ends[i] > end && p.levels[i] > 0.0 && p.levels[i] <= level;
      end = p.ends[i];
      level = p.levels[i];
    }
    if (!right) throw std::invalid_argument("blocks must be in order, with levels falling from 1");
  }

  // Plays rounds whose draws have one scale.
  void step(double scale, Source& source, std::span<double> out) {
    const std::uint64_t rounds = out.size() / d_;
    draws_.next(source, out);
    if (draws_.on_lattice()) {
      simd::kernels().lattice_blt(rounds, d_, unit_, parameters_.decay.size(),
                                  parameters_.decay.data(), parameters_.omega.data(),
                                  buffers_.data(), total_.data(), out.data());
      return;
    }
    simd::kernels().blt(rounds, d_, scale, keep_.size(), keep_.data(), parameters_.omega.data(),
                        buffers_.data(), total_.data(), out.data());
  }

  // On a lattice, rounds to multiples of the unit, as lattice_blt does.
  void rescale(double ratio) {
    const double magic = elementary::kRoundMagic * unit_;
    for (double& held : buffers_) {
      held = magic == 0.0 ? held * ratio : (held * ratio + magic) - magic;
    }
  }

  std::size_t d_;
  Draws draws_;
  std::shared_ptr<const BltParameters> held_;
  const BltParameters& parameters_;
  std::vector<double> keep_;  // 1 - decay
  double unit_ = 0.0;         // unit of the buffers on a lattice
  std::vector<double> buffers_;
  std::vector<double> total_;
};

// Increments w of the noise solve C w = z, where the coefficients apply to w divided by its level.
// The process keeps the last increments; each replaces the one that leaves the band.
class Banded final : public NoiseProcess {
 public:
  Banded(Index dimension, NoiseLaw law, BandParameters parameters)
      : d_(require_size(dimension, 1)),
        draws_(dimension, law),
        held_(share_parameters(std::move(parameters))),
        parameters_(*held_),
        kept_(d_ * parameters_.coefficients.size(), 0.0),
        past_(d_, 0.0),
        total_(d_, 0.0) {
    const auto fits = [](double x) { return x > 0.0 && x <= 1.0; };
    const auto& [coefficients, levels] = parameters_;
    if (coefficients.empty() || coefficients[0] != 1.0 || levels.size() < coefficients.size() ||
        !std::ranges::all_of(coefficients, fits) || !std::ranges::all_of(levels, fits)) {
      throw std::invalid_argument("a band has coefficients from 1 on, and levels up to 1");
    }
  }

  void advance(std::uint64_t t, Source& source, std::span<double> out) override {
    for (; !out.empty(); out = out.subspan(d_)) step(t++ - 1, source, out.first(d_));
  }
  Correlation correlation() const override {
    return {Factorisation::banded, draws_.law(), {}, parameters_};
  }
  void write(Archive& archive) const override { archive.reals(kept_, total_); }
  void read(ArchiveReader& archive, std::uint64_t) override {
    read_noise(archive, kept_, draws_.unit());
    read_noise(archive, total_, draws_.unit());
  }
  bool matches(std::uint64_t round, const Source& source) const override {
    return draws_.account_for(round, source);
  }

 private:
  std::span<double> row(std::size_t t) {
    return std::span(kept_).subspan(t % parameters_.coefficients.size() * d_, d_);
  }

  // On a lattice the subtracted part is rounded.
  void step(std::size_t t, Source& source, std::span<double> out) {
    const auto& [coefficients, levels] = parameters_;
    if (t >= levels.size()) throw std::logic_error("a round behind the last level");
    const double lowered = draws_.lower(levels[t]);
    const double scale = draws_.on_lattice() ? 1.0 : lowered;
    draws_.next(source, out);
    std::fill(past_.begin(), past_.end(), 0.0);
    const std::size_t lags = std::min(coefficients.size() - 1, t);
    for (std::size_t lag = 1; lag <= lags; ++lag) {
      const double share = coefficients[lag] * (levels[t] / levels[t - lag]);
      simd::kernels().axpy(share, row(t - lag).data(), d_, past_.data());
    }
    if (draws_.on_lattice()) std::ranges::transform(past_, past_.begin(), nearest_integer);
    const std::span<double> kept = row(t);
    for (std::size_t i = 0; i < d_; ++i) {
      kept[i] = scale * out[i] - past_[i];
      total_[i] += kept[i];
      out[i] = total_[i];
    }
  }

  std::size_t d_;
  Draws draws_;
  std::shared_ptr<const BandParameters> held_;
  const BandParameters& parameters_;
  std::vector<double> kept_;
  std::vector<double> past_;
  std::vector<double> total_;
};

class Silence final : public NoiseProcess {
 public:
  explicit Silence(Index dimension) { require_size(dimension, 1); }

  void advance(std::uint64_t, Source&, std::span<double> out) override {
    std::ranges::fill(out, 0.0);
  }
  Correlation correlation() const override { return {}; }
  void write(Archive&) const override {}
  void read(ArchiveReader&, std::uint64_t) override {}
  bool matches(std::uint64_t, const Source&) const override { return true; }
};

}  // namespace

std::unique_ptr<NoiseProcess> make_tree(Index dimension, std::uint64_t horizon, NoiseLaw law) {
  return std::make_unique<Tree>(dimension, horizon, law);
}

std::unique_ptr<NoiseProcess> make_toeplitz(Index dimension, std::uint64_t horizon, NoiseLaw law) {
  return std::make_unique<Toeplitz>(dimension, horizon, law);
}

std::unique_ptr<NoiseProcess> make_blt(Index dimension, NoiseLaw law, BltParameters parameters) {
  return std::make_unique<BufferedToeplitz>(dimension, law, std::move(parameters));
}

std::unique_ptr<NoiseProcess> make_banded(Index dimension, NoiseLaw law,
                                          BandParameters parameters) {
  return std::make_unique<Banded>(dimension, law, std::move(parameters));
}

std::unique_ptr<NoiseProcess> make_silence(Index dimension) {
  return std::make_unique<Silence>(dimension);
}

}  // namespace dpoco::mechanisms
