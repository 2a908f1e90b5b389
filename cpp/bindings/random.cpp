#include "dpoco/random/source.hpp"

#include "dpoco/simd/kernels.hpp"
#include "registrars.hpp"

namespace dpoco::bindings {

using random::Key;
using random::Source;
using random::Variate;

namespace {

Variate variate_from(unsigned kind) {
  if (kind >= random::kVariates) throw std::invalid_argument("unknown kind of variate");
  return static_cast<Variate>(kind);
}

}  // namespace

Key key_from(const py::bytes& bytes) {
  const std::string raw = bytes;
  Key key;
  if (raw.size() != sizeof key) throw std::invalid_argument("key must have 32 bytes");
  std::memcpy(key.data(), raw.data(), sizeof key);
  return key;
}

std::unique_ptr<Source> make_source(const py::bytes& key, std::uint64_t stream) {
  return std::make_unique<Source>(key_from(key), stream);
}

void register_random(py::module_& m) {
  m.def("select_instruction_set", &simd::select);
  m.def("instruction_set", [] { return std::string(simd::kernels().name); });
  m.def("fork_generation", &random::fork_generation);

  // For tests: the variate of a word and further ones (of a Gaussian: its radius), and the
  // distances of such a uniform variate from 0 and from 1.
  using Further = std::vector<std::uint64_t>;
  m.def("variate_of", [](unsigned kind, std::uint64_t word, const Further& further) {
    return random::variate_of(variate_from(kind), word, further);
  });
  m.def("uniform_of", [](std::uint64_t word, unsigned bits, const Further& further) {
    const random::Uniform u = random::uniform_of(word, bits, further);
    return std::make_pair(u.value, u.complement);
  });
  // For tests: mends a superblock of values in place; returns whether any looked open.
  m.def("mend_variates", [](unsigned kind, const std::vector<std::uint64_t>& raw, RealsOut values,
                            const std::vector<Further>& further) {
    constexpr std::size_t kSize = simd::kSuperblock;
    if (raw.size() != kSize || further.size() != kSize || values.size() != kSize) {
      throw std::invalid_argument("a superblock is wanted");
    }
    const bool open = random::may_be_open(variate_from(kind), values);
    random::mend(variate_from(kind), std::span(raw).first<kSize>(), values.first<kSize>(),
                 [&](std::size_t i) {
                   random::Digits digits{raw[i], {}};
                   std::copy_n(further[i].begin(),
                               std::min(further[i].size(), digits.further.size()),
                               digits.further.begin());
                   return digits;
                 });
    return open;
  });

  py::class_<Source>(m, "Source")
      .def(py::init(&make_source), "key"_a, "stream"_a)
      .def("fill",
           [](Source& self, unsigned kind, RealsOut out) {
             const Variate variate = variate_from(kind);
             const py::gil_scoped_release nogil;  // dpoco.random.Source holds a lock of its own
             self.fill(variate, out);
           })
      .def("draw",
           [](Source& self, unsigned kind) {
             double value = 0.0;
             self.fill(variate_from(kind), {&value, 1});
             return value;
           })
      .def("words",
           [](Source& self, py::ssize_t n) {
             Plain<std::uint64_t> out(n);
             self.fill_words(writable(out));
             return out;
           })
      .def("position",
           [](const Source& self, unsigned kind) { return self.position(variate_from(kind)); })
      .def("complement", &Source::complement)
      .def("digits_at",
           [](const Source& self, unsigned kind, std::uint64_t place) {
             const random::Digits digits = self.digits_at(variate_from(kind), place);
             return std::make_pair(digits.word, digits.further);
           })
      .def("adopt", &Source::adopt)
      .def("state", &state_of<Source>)
      .def("restore", &restore<Source>);
}

}  // namespace dpoco::bindings
