#include <memory>
#include <optional>
#include <vector>

#include "common.hpp"
#include "dpoco/simd/kernels.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

void register_digests(py::module_& m) {
  m.def(
      "keyed_digests",
      [](const py::bytes& key, std::uint64_t first, const Array& rows,
         const std::optional<Array>& more) {
        const std::string raw = key;
        std::uint64_t words[4];
        if (raw.size() != sizeof words) throw std::invalid_argument("key must have 32 bytes");
        if (rows.ndim() != 2 || (more && more->ndim() != 2)) {
          throw std::invalid_argument("rows must be a matrix");
        }
        if (more && more->shape(0) != rows.shape(0)) {
          throw std::invalid_argument("the matrices differ in their number of rows");
        }
        std::memcpy(words, raw.data(), sizeof words);
        const auto count = static_cast<std::size_t>(rows.shape(0));
        const auto left = static_cast<std::size_t>(rows.shape(1));
        const auto right = more ? static_cast<std::size_t>(more->shape(1)) : 0;
        const std::size_t width = left + right;
        // The digest of a double is that of the word it is stored in.
        const auto* from = reinterpret_cast<const std::uint64_t*>(rows.data());
        const double* beside = more ? more->data() : nullptr;
        std::vector<std::uint64_t> digests(2 * count);
        {
          const py::gil_scoped_release nogil;
          std::unique_ptr<std::uint64_t[]> joined;
          if (more) {
            joined.reset(new std::uint64_t[count * width]);
            for (std::size_t i = 0; i < count; ++i) {
              if (left > 0) std::memcpy(&joined[i * width], from + i * left, 8 * left);
              if (right > 0) std::memcpy(&joined[i * width + left], beside + i * right, 8 * right);
            }
            from = joined.get();
          }
          simd::kernels().keyed_digests(words, first, from, count, width, digests.data());
        }
        return py::bytes(reinterpret_cast<const char*>(digests.data()), 16 * count);
      },
      "key"_a, "first"_a, "rows"_a, "more"_a = py::none());

  m.def("row_sums", [](const Array& rows) {
    if (rows.ndim() != 2) throw std::invalid_argument("rows must be a matrix");
    const auto count = static_cast<std::size_t>(rows.shape(0));
    const auto width = static_cast<std::size_t>(rows.shape(1));
    const auto* from = reinterpret_cast<const unsigned char*>(rows.data());
    py::array_t<std::uint16_t> sums(rows.shape(0));
    std::uint16_t* out = sums.mutable_data();
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t sum = 0;
      for (std::size_t j = 0; j < width; ++j) {
        std::uint64_t word;
        std::memcpy(&word, from + 8 * (i * width + j), sizeof word);
        sum += word;
      }
      out[i] = static_cast<std::uint16_t>(sum);
    }
    return sums;
  });
}

}  // namespace dpoco::bindings
