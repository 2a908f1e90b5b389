#include "dpoco/core/archive.hpp"

#include <bit>
#include <cstring>

#include "dpoco/core/errors.hpp"

namespace dpoco {

static_assert(std::endian::native == std::endian::little, "state files are little-endian");

void Archive::word(std::uint64_t value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  bytes_.append(raw, sizeof raw);
}

void Archive::real(double value) { word(std::bit_cast<std::uint64_t>(value)); }

void Archive::append(std::span<const double> values) {
  word(values.size());
  if (values.empty()) return;
  bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

const char* ArchiveReader::claim(std::size_t bytes) {
  if (bytes > bytes_.size() - at_) throw StateError("state ends early");
  const char* from = bytes_.data() + at_;
  at_ += bytes;
  return from;
}

std::uint64_t ArchiveReader::word() {
  std::uint64_t value;
  std::memcpy(&value, claim(sizeof value), sizeof value);
  return value;
}

std::uint64_t ArchiveReader::word_below(std::uint64_t limit) {
  const std::uint64_t value = word();
  if (value >= limit) throw StateError("state holds a number out of range");
  return value;
}

double ArchiveReader::real() { return std::bit_cast<double>(word()); }

void ArchiveReader::fill(std::span<double> values) {
  if (word() != values.size()) throw StateError("state holds an array of another length");
  if (!values.empty()) std::memcpy(values.data(), claim(values.size_bytes()), values.size_bytes());
}

void ArchiveReader::finish() const {
  if (at_ != bytes_.size()) throw StateError("state has trailing data");
}

}  // namespace dpoco
