#include "dpoco/mechanisms/noise_process.hpp"

#include <bit>
#include <stdexcept>
#include <utility>

#include "dpoco/core/errors.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::mechanisms {
namespace {

using random::Source;

std::size_t checked(Index dimension, std::uint64_t horizon) {
  if (dimension < 1) throw std::invalid_argument("dimension must be at least 1");
  if (horizon < 1) throw std::invalid_argument("horizon must be at least 1");
  return static_cast<std::size_t>(dimension);
}

// Fresh vectors of one law, drawn into a scratch row.
class Draws {
 public:
  Draws(Index dimension, NoiseLaw law)
      : sampler_(dimension, law.order, law.scale), fresh_(static_cast<std::size_t>(dimension)) {}

  const double* next(Source& source) {
    sampler_.sample(source, fresh_.data());
    return fresh_.data();
  }

  // Every vector takes a fixed number of Gaussians, or of sign words for other orders.
  bool account_for(std::uint64_t vectors, const Source& source) const {
    const std::uint64_t d = fresh_.size();
    return sampler_.order() == 2.0
               ? source.position(random::Variate::gaussian) == vectors * d
               : source.position(random::Variate::word) == vectors * ((d + 63) / 64);
  }

 private:
  noise::GeneralizedGaussian sampler_;
  std::vector<double> fresh_;
};

// Rows of length d, one per level of the dyadic tree.
class Levels {
 public:
  Levels(std::size_t d, std::uint64_t horizon)
      : d_(d), data_(d * static_cast<std::size_t>(std::bit_width(horizon)), 0.0) {}

  double* operator[](int level) { return data_.data() + static_cast<std::size_t>(level) * d_; }
  void write(Archive& archive) const { archive.reals(data_.data(), data_.size()); }
  void read(ArchiveReader& archive) { archive.reals(data_.data(), data_.size()); }

 private:
  std::size_t d_;
  std::vector<double> data_;
};

// prefix[level of t's lowest bit] = prefix[lowest bit of t without it] + node: the noise of the
// prefix 1..t is one vector addition away from that of the prefix before the completed node.
const double* extend_prefix(Levels& prefix, std::uint64_t t, int level, const double* node,
                            std::size_t d) {
  double* out = prefix[level];
  const std::uint64_t before = t & (t - 1);
  if (before == 0) {
    for (std::size_t i = 0; i < d; ++i) out[i] = node[i];
  } else {
    const double* base = prefix[std::countr_zero(before)];
    for (std::size_t i = 0; i < d; ++i) out[i] = base[i] + node[i];
  }
  return out;
}

class Tree final : public NoiseProcess {
 public:
  Tree(Index dimension, std::uint64_t horizon, NoiseLaw law)
      : d_(checked(dimension, horizon)), draws_(dimension, law), prefix_(d_, horizon) {}

  const double* advance(std::uint64_t t, Source& source) override {
    return extend_prefix(prefix_, t, std::countr_zero(t), draws_.next(source), d_);
  }
  void write(Archive& archive) const override { prefix_.write(archive); }
  void read(ArchiveReader& archive, std::uint64_t) override { prefix_.read(archive); }
  bool matches(std::uint64_t round, const Source& source) const override {
    return draws_.account_for(round, source);
  }

 private:
  std::size_t d_;
  Draws draws_;
  Levels prefix_;
};

class Honaker final : public NoiseProcess {
 public:
  Honaker(Index dimension, std::uint64_t horizon, NoiseLaw law)
      : d_(checked(dimension, horizon)),
        draws_(dimension, law),
        error_(d_, horizon),
        prefix_(d_, horizon),
        current_(d_) {}

  const double* advance(std::uint64_t t, Source& source) override {
    const int top = std::countr_zero(t);
    const double* leaf = draws_.next(source);
    for (std::size_t i = 0; i < d_; ++i) current_[i] = leaf[i];
    double variance = 1.0;  // of a level-0 estimate, in units of one draw
    for (int level = 0; level < top; ++level) {
      // The node's own draw (variance 1) against the sum of its children's estimates.
      const double own_weight = 1.0 / (1.0 + 1.0 / (2.0 * variance));
      const double* own = draws_.next(source);
      const double* left = error_[level];
      for (std::size_t i = 0; i < d_; ++i) {
        current_[i] = own_weight * own[i] + (1.0 - own_weight) * (left[i] + current_[i]);
      }
      variance = own_weight;
    }
    double* kept = error_[top];
    for (std::size_t i = 0; i < d_; ++i) kept[i] = current_[i];
    return extend_prefix(prefix_, t, top, kept, d_);
  }
  void write(Archive& archive) const override {
    error_.write(archive);
    prefix_.write(archive);
  }
  void read(ArchiveReader& archive, std::uint64_t) override {
    error_.read(archive);
    prefix_.read(archive);
  }
  bool matches(std::uint64_t round, const Source& source) const override {
    // One draw per completed node: 2 t - popcount(t).
    return draws_.account_for(2 * round - static_cast<std::uint64_t>(std::popcount(round)), source);
  }

 private:
  std::size_t d_;
  Draws draws_;
  Levels error_;
  Levels prefix_;
  std::vector<double> current_;
};

class Toeplitz final : public NoiseProcess {
 public:
  Toeplitz(Index dimension, std::uint64_t horizon, NoiseLaw law)
      : d_(checked(dimension, horizon)),
        draws_(dimension, law),
        coefficients_(horizon),
        total_(d_) {
    coefficients_[0] = 1.0;
    for (std::size_t k = 1; k < coefficients_.size(); ++k) {
      coefficients_[k] = coefficients_[k - 1] * (1.0 - 1.0 / (2.0 * static_cast<double>(k)));
    }
    history_.reserve(d_ * coefficients_.size());
  }

  const double* advance(std::uint64_t t, Source& source) override {
    const double* fresh = draws_.next(source);
    history_.insert(history_.end(), fresh, fresh + d_);
    std::fill(total_.begin(), total_.end(), 0.0);
    for (std::size_t j = 0; j < t; ++j) {
      simd::kernels().axpy(coefficients_[t - 1 - j], history_.data() + j * d_, d_, total_.data());
    }
    return total_.data();
  }
  void write(Archive& archive) const override {
    archive.word(history_.size() / d_);
    archive.reals(history_.data(), history_.size());
  }
  void read(ArchiveReader& archive, std::uint64_t round) override {
    if (archive.word() != round) throw StateError("state holds another number of draws");
    std::vector<double> history(d_ * round);
    archive.reals(history.data(), history.size());
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
  std::vector<double> total_;
};

// C is Toeplitz with c_0 = 1, c_i = sum_j omega_j (1 - s_j)^(i-1); the buffers solve C w = z.
class BufferedToeplitz final : public NoiseProcess {
 public:
  BufferedToeplitz(Index dimension, NoiseLaw law, BltParameters parameters)
      : d_(checked(dimension, 1)),
        draws_(dimension, law),
        parameters_(std::move(parameters)),
        buffers_(d_ * parameters_.keep.size(), 0.0),
        total_(d_, 0.0) {
    if (parameters_.keep.empty() || parameters_.keep.size() != parameters_.omega.size()) {
      throw std::invalid_argument("keep and omega must be of one positive length");
    }
  }

  const double* advance(std::uint64_t, Source& source) override {
    simd::kernels().blt_step(draws_.next(source), d_, parameters_.keep.size(),
                             parameters_.keep.data(), parameters_.omega.data(), buffers_.data(),
                             total_.data());
    return total_.data();
  }
  void write(Archive& archive) const override {
    archive.reals(buffers_.data(), buffers_.size());
    archive.reals(total_.data(), total_.size());
  }
  void read(ArchiveReader& archive, std::uint64_t) override {
    archive.reals(buffers_.data(), buffers_.size());
    archive.reals(total_.data(), total_.size());
  }
  bool matches(std::uint64_t round, const Source& source) const override {
    return draws_.account_for(round, source);
  }

 private:
  std::size_t d_;
  Draws draws_;
  BltParameters parameters_;
  std::vector<double> buffers_;
  std::vector<double> total_;
};

class Silence final : public NoiseProcess {
 public:
  explicit Silence(Index dimension) : zero_(checked(dimension, 1), 0.0) {}

  const double* advance(std::uint64_t, Source&) override { return zero_.data(); }
  void write(Archive&) const override {}
  void read(ArchiveReader&, std::uint64_t) override {}
  bool matches(std::uint64_t, const Source&) const override { return true; }

 private:
  std::vector<double> zero_;
};

}  // namespace

std::unique_ptr<NoiseProcess> make_tree(Index dimension, std::uint64_t horizon, NoiseLaw law) {
  return std::make_unique<Tree>(dimension, horizon, law);
}

std::unique_ptr<NoiseProcess> make_honaker(Index dimension, std::uint64_t horizon, NoiseLaw law) {
  return std::make_unique<Honaker>(dimension, horizon, law);
}

std::unique_ptr<NoiseProcess> make_toeplitz(Index dimension, std::uint64_t horizon, NoiseLaw law) {
  return std::make_unique<Toeplitz>(dimension, horizon, law);
}

std::unique_ptr<NoiseProcess> make_blt(Index dimension, NoiseLaw law, BltParameters parameters) {
  return std::make_unique<BufferedToeplitz>(dimension, law, std::move(parameters));
}

std::unique_ptr<NoiseProcess> make_silence(Index dimension) {
  return std::make_unique<Silence>(dimension);
}

}  // namespace dpoco::mechanisms
