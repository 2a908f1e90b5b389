#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dpoco {

// Binary state: little-endian 64-bit words in a fixed order. The Python layer adds framing,
// versions and checksum. The reader still checks every length, so that a bad frame cannot make it
// read out of bounds.
class Archive {
 public:
  void word(std::uint64_t value);
  void real(double value);
  // Writes the length of each array of doubles, followed by its entries.
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
