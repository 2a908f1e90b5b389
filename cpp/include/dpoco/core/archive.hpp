#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dpoco {

// Binary state: little-endian 64-bit words in a fixed order. Framing, versions and checksum are
// added by the Python layer; the reader still checks every length, so that a bad frame cannot
// read out of bounds.
class Archive {
 public:
  void word(std::uint64_t value);
  void real(double value);
  void reals(const double* values, std::size_t n);  // writes n, then the values

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ArchiveReader {
 public:
  explicit ArchiveReader(std::string_view bytes) : bytes_(bytes) {}

  // Each throws StateError at the end of the data or on an unexpected length.
  std::uint64_t word();
  std::uint64_t word_below(std::uint64_t limit);
  double real();
  void reals(double* values, std::size_t n);
  void finish() const;  // throws StateError if anything is left

 private:
  const char* claim(std::size_t bytes);

  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace dpoco
