#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dpoco/core/archive.hpp"
#include "dpoco/random/variates.hpp"
#include "dpoco/simd/kernels.hpp"

namespace dpoco::random {

using Key = std::array<std::uint32_t, 8>;

// The words behind one Gaussian variate: its pair's radius and angle, and which of the pair it is.
struct PairWords {
  std::uint64_t radius;
  std::uint64_t angle;
  bool second;
};

// Number of forks between the process that first asked and this one; 0 without fork.
std::uint64_t fork_generation() noexcept;

// A cryptographic stream of variates: ChaCha20 in counter mode under a 256-bit key that the caller
// brings (Python: the operating system's entropy). Position = number of variates drawn of each
// kind. A source refuses to draw in a forked child: parent and child would share noise.
class Source {
 public:
  static constexpr std::uint64_t kMaxStream = (1ULL << 60) - 1;

  // Throws std::invalid_argument for stream > kMaxStream.
  Source(const Key& key, std::uint64_t stream);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  double uniform() { return next(Variate::uniform); }  // (0, 1]
  // 1 - U for the last uniform variate U, to the relative precision of `Uniform`.
  double complement() const;
  double gaussian() { return next(Variate::gaussian); }  // N(0, 1)
  double exponential() { return next(Variate::exponential); }
  std::uint64_t word();

  // Fills `out` with the next variates of a kind other than `word`. They do not depend on how the
  // draws are split into calls.
  void fill(Variate kind, std::span<double> out);
  void fill_words(std::span<std::uint64_t> out);
  // Writes the next words without drawing them and returns their number, at most kSuperblock.
  // `skip_words` then counts the used ones as drawn.
  std::size_t words_at_hand(std::span<std::uint64_t, simd::kSuperblock> out);
  void skip_words(std::size_t n) noexcept { lane(Variate::word).position += n; }

  // The next Gaussian variates, as many as are computed and at most `most`, and the other
  // members of their pairs. Both spans stay valid until the next draw.
  struct Gaussians {
    std::span<const double> values;
    std::span<const double> partners;
  };
  Gaussians next_gaussians(std::size_t most);
  // The words from which the Gaussian variate at a position is computed.
  PairWords words_behind_gaussian(std::uint64_t position) const;
  // The digits of the word of a kind at a place. For Gaussian variates the word at a position is
  // the radius or the angle of a pair; the two are half a superblock apart.
  Digits digits_at(Variate kind, std::uint64_t place) const;
  // The further digits of the word at a place and of the word half a superblock away, alternately.
  static constexpr std::size_t kPairDigits = simd::kSuperblock;
  void further_digits(Variate kind, std::uint64_t place,
                      std::span<std::uint64_t, kPairDigits> out) const;

  std::uint64_t stream() const noexcept { return stream_; }
  std::uint64_t position(Variate kind) const noexcept { return lane(kind).position; }

  // Throws StateError in a forked child; `adopt` makes this process the owner.
  void check_process() const;
  void adopt() noexcept { generation_ = fork_generation(); }

  // Continues at the same positions under another key, so that all further variates are fresh. The
  // caller must make sure that no value still has to be resolved from words of the old key.
  void rekey(const Key& key, std::uint64_t stream);

  // Key, stream and positions: secret. Reading throws StateError if malformed.
  void write(Archive& archive) const;
  void read(ArchiveReader& archive);

 private:
  struct Buffer {
    alignas(64) std::array<double, simd::kSuperblock> values{};
  };
  struct Lane {
    std::uint64_t position = 0;
    std::uint64_t loaded = ~0ULL;    // index of the superblock in `buffer`
    std::unique_ptr<Buffer> buffer;  // from the first draw of the kind on
    std::span<double, simd::kSuperblock> values() noexcept { return buffer->values; }
  };

  Lane& lane(Variate kind) noexcept { return lanes_[static_cast<std::size_t>(kind)]; }
  const Lane& lane(Variate kind) const noexcept { return lanes_[static_cast<std::size_t>(kind)]; }
  simd::Position at(Variate kind, std::uint64_t superblock) const noexcept;
  simd::Position at(unsigned nonce, std::uint64_t superblock) const noexcept;
  void load(Variate kind, Lane& lane);
  void produce(Variate kind, std::uint64_t superblock, std::span<double> out) const;

  double next(Variate kind) {
    Lane& from = lane(kind);
    if (from.loaded != from.position / simd::kSuperblock) load(kind, from);
    return from.values()[from.position++ % simd::kSuperblock];
  }

  Key key_;
  std::uint64_t stream_;
  std::uint64_t generation_;
  std::array<Lane, kVariates> lanes_;
};

}  // namespace dpoco::random
