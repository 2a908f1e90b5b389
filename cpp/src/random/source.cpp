#include "dpoco/random/source.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <stdexcept>

#include "dpoco/core/errors.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace dpoco::random {
namespace {

std::atomic<std::uint64_t> generation{0};

void count_fork() { generation.fetch_add(1, std::memory_order_relaxed); }

// The compiler may remove a plain memset of memory that is freed next.
void wipe(void* memory, std::size_t bytes) {
  volatile char* p = static_cast<volatile char*>(memory);
  for (std::size_t i = 0; i < bytes; ++i) p[i] = 0;
}

simd::FillDoubles filler(Variate kind) {
  const simd::Kernels& k = simd::kernels();
  switch (kind) {
    case Variate::uniform:
      return k.uniform;
    case Variate::gaussian:
      return k.gaussian;
    case Variate::exponential:
      return k.exponential;
    case Variate::laplace:
      return k.laplace;
    case Variate::gumbel:
      return k.gumbel;
    case Variate::word:
      break;
  }
  throw std::invalid_argument("words are integers: use fill_words");
}

constexpr std::size_t kHalf = simd::kSuperblock / 2;

// Nonces after those of the kinds: 6 for Gaussians, up to 11.
unsigned digits_nonce(Variate kind) noexcept { return 6 + (static_cast<unsigned>(kind) + 4) % 6; }

}  // namespace

std::uint64_t fork_generation() noexcept {
#if defined(__unix__) || defined(__APPLE__)
  static const int registered = pthread_atfork(nullptr, nullptr, count_fork);
  (void)registered;
#endif
  return generation.load(std::memory_order_relaxed);
}

Source::Source(const Key& key, std::uint64_t stream)
    : key_(key), stream_(stream), generation_(fork_generation()) {
  if (stream > kMaxStream) throw std::invalid_argument("stream must be below 2^60");
}

Source::~Source() {
  wipe(key_.data(), sizeof key_);
  for (Lane& each : lanes_) {
    if (each.buffer) wipe(each.buffer.get(), sizeof *each.buffer);
  }
}

void Source::check_process() const {
  if (generation_ != generation.load(std::memory_order_relaxed)) {
    throw StateError(
        "this generator was inherited through fork: parent and child would share noise");
  }
}

void Source::rekey(const Key& key, std::uint64_t stream) {
  if (stream > kMaxStream) throw std::invalid_argument("stream must be below 2^60");
  check_process();
  key_ = key;
  stream_ = stream;
  for (Lane& each : lanes_) each.loaded = ~0ULL;
}

simd::Position Source::at(Variate kind, std::uint64_t superblock) const noexcept {
  return at(static_cast<unsigned>(kind), superblock);
}

simd::Position Source::at(unsigned nonce, std::uint64_t superblock) const noexcept {
  return {key_.data(), (stream_ << 4) | nonce, superblock};
}

void Source::load(Variate kind, Lane& from) {
  check_process();
  const std::uint64_t superblock = from.position / simd::kSuperblock;
  if (!from.buffer) from.buffer = std::make_unique<Buffer>();
  if (kind == Variate::word) {
    std::uint64_t raw[simd::kSuperblock];
    simd::kernels().words(at(kind, superblock), 1, raw);
    std::memcpy(from.values().data(), raw, sizeof raw);
  } else {
    produce(kind, superblock, from.values());
  }
  from.loaded = superblock;
}

// Fills in variates that the kernels compute from 64 digits, corrected if these do not suffice.
void Source::produce(Variate kind, std::uint64_t superblock, std::span<double> out) const {
  constexpr std::size_t kChunk = 8;  // values of this many blocks fit into the nearest cache
  const simd::FillDoubles make = filler(kind);
  assert(out.size() % simd::kSuperblock == 0);
  while (!out.empty()) {
    const auto values = out.first(std::min(kChunk * simd::kSuperblock, out.size()));
    out = out.subspan(values.size());
    const std::uint64_t first = superblock;
    superblock += values.size() / simd::kSuperblock;
    make(at(kind, first), superblock - first, values.data());
    if (!may_be_open(kind, values)) continue;
    for (std::uint64_t each = first; each < superblock; ++each) {
      std::uint64_t raw[simd::kSuperblock];
      simd::kernels().words(at(kind, each), 1, raw);
      mend(kind, raw, values.subspan((each - first) * simd::kSuperblock).first<simd::kSuperblock>(),
           [&](std::size_t i) { return digits_at(kind, each * simd::kSuperblock + i); });
      wipe(raw, sizeof raw);
    }
  }
}

std::uint64_t Source::word() {
  Lane& from = lane(Variate::word);
  if (from.loaded != from.position / simd::kSuperblock) load(Variate::word, from);
  std::uint64_t value;
  std::memcpy(&value, &from.values()[from.position % simd::kSuperblock], sizeof value);
  ++from.position;
  return value;
}

void Source::fill(Variate kind, std::span<double> out) {
  check_process();
  (void)filler(kind);  // throws for words
  Lane& from = lane(kind);
  while (!out.empty()) {
    const std::size_t index = from.position % simd::kSuperblock;
    const std::uint64_t superblock = from.position / simd::kSuperblock;
    std::size_t count;
    if (index == 0 && out.size() >= simd::kSuperblock) {
      // Whole superblocks are written directly to the caller.
      count = out.size() / simd::kSuperblock * simd::kSuperblock;
      produce(kind, superblock, out.first(count));
    } else {
      if (from.loaded != superblock) load(kind, from);
      count = std::min(out.size(), simd::kSuperblock - index);
      std::ranges::copy(from.values().subspan(index, count), out.begin());
    }
    from.position += count;
    out = out.subspan(count);
  }
}

Source::Gaussians Source::next_gaussians(std::size_t most) {
  check_process();
  // The first half of a superblock has one member of each pair, the second half the other.
  Lane& from = lane(Variate::gaussian);
  if (from.loaded != from.position / simd::kSuperblock) load(Variate::gaussian, from);
  const std::size_t index = from.position % simd::kSuperblock;
  const std::size_t count = std::min(most, kHalf - index % kHalf);
  from.position += count;
  return {from.values().subspan(index, count), from.values().subspan(index ^ kHalf, count)};
}

PairWords Source::words_behind_gaussian(std::uint64_t position) const {
  std::uint64_t raw[simd::kSuperblock];
  simd::kernels().words(at(Variate::gaussian, position / simd::kSuperblock), 1, raw);
  const std::size_t index = position % simd::kSuperblock;
  const PairWords pair{raw[index % kHalf], raw[index % kHalf + kHalf], index >= kHalf};
  wipe(raw, sizeof raw);
  return pair;
}

void Source::further_digits(Variate kind, std::uint64_t place,
                            std::span<std::uint64_t, kPairDigits> out) const {
  const std::uint64_t pair = place / simd::kSuperblock * kHalf + place % kHalf;
  simd::kernels().words(at(digits_nonce(kind), pair), 1, out.data());
}

Digits Source::digits_at(Variate kind, std::uint64_t place) const {
  std::uint64_t raw[simd::kSuperblock];
  simd::kernels().words(at(kind, place / simd::kSuperblock), 1, raw);
  const std::size_t index = place % simd::kSuperblock;
  Digits digits;
  digits.word = raw[index];
  further_digits(kind, place, raw);
  const std::size_t turn = index / kHalf;
  for (std::size_t k = 0; k < Digits::kFurther; ++k) digits.further[k] = raw[2 * k + turn];
  wipe(raw, sizeof raw);
  return digits;
}

double Source::complement() const {
  const Digits digits = digits_at(Variate::uniform, position(Variate::uniform) - 1);
  return to_uniform(digits.word, 64, digits.further).complement;
}

void Source::fill_words(std::span<std::uint64_t> out) {
  check_process();
  for (std::uint64_t& each : out) each = word();
}

std::size_t Source::words_at_hand(std::span<std::uint64_t, simd::kSuperblock> out) {
  check_process();
  Lane& from = lane(Variate::word);
  if (from.loaded != from.position / simd::kSuperblock) load(Variate::word, from);
  const std::size_t index = from.position % simd::kSuperblock;
  const std::span<const double> left = from.values().subspan(index);
  std::memcpy(out.data(), left.data(), left.size_bytes());
  return left.size();
}

void Source::write(Archive& archive) const {
  for (std::size_t i = 0; i < key_.size(); i += 2) {
    archive.word(key_[i] | (static_cast<std::uint64_t>(key_[i + 1]) << 32));
  }
  archive.word(stream_);
  for (const Lane& each : lanes_) archive.word(each.position);
}

void Source::read(ArchiveReader& archive) {
  Key key;
  for (std::size_t i = 0; i < key.size(); i += 2) {
    const std::uint64_t pair = archive.word();
    key[i] = static_cast<std::uint32_t>(pair);
    key[i + 1] = static_cast<std::uint32_t>(pair >> 32);
  }
  const std::uint64_t stream = archive.word_below(kMaxStream + 1);
  std::array<std::uint64_t, kVariates> positions;
  positions[0] = archive.word();  // words have no further digits
  for (std::size_t i = 1; i < kVariates; ++i) positions[i] = archive.word_below(kPositions);
  key_ = key;
  stream_ = stream;
  for (std::size_t i = 0; i < kVariates; ++i) {
    lanes_[i].position = positions[i];
    lanes_[i].loaded = ~0ULL;
  }
}

}  // namespace dpoco::random
