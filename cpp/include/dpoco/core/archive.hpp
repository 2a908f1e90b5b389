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
  // Writes of each array of doubles its length, then its entries.
  template <class... Arrays>
  void reals(const Arrays&... arrays) {
    (append({arrays.data(), static_cast<std::size_t>(arrays.size())}), ...);
  }

  std::string take() { return std::move(bytes_); }

 private:
  void append(std::span<const double> values);

  std::string bytes_;
};

class ArchiveReader {
 public:
  explicit ArchiveReader(std::string_view bytes) : bytes_(bytes) {}

  // Each throws StateError at the end of the data or on an unexpected length.
  std::uint64_t word();
  std::uint64_t word_below(std::uint64_t limit);
  double real();
  template <class... Arrays>
  void reals(Arrays&&... arrays) {
    (fill({arrays.data(), static_cast<std::size_t>(arrays.size())}), ...);
  }
  void finish() const;  // throws StateError if anything is left

 private:
  void fill(std::span<double> values);
  const char* claim(std::size_t bytes);

  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace dpoco
