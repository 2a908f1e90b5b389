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
  m.def("select_instruction_set", &simd::select, "name"_a);
  m.def("instruction_set", [] { return std::string(simd::kernels().name); });
  m.def("fork_generation", &random::fork_generation);

  py::class_<Source>(m, "Source")
      .def(py::init(&make_source), "key"_a, "stream"_a)
      .def(
          "fill",
          [](Source& self, unsigned kind, Array& out) {
            const Variate variate = variate_from(kind);
            double* to = out.mutable_data();
            const auto n = static_cast<std::size_t>(out.size());
            const py::gil_scoped_release nogil;  // dpoco.random.Source holds a lock of its own
            self.fill(variate, to, n);
          },
          "kind"_a, "out"_a.noconvert())
      .def(
          "words",
          [](Source& self, py::ssize_t n) {
            py::array_t<std::uint64_t> out(n);
            self.fill_words(out.mutable_data(), static_cast<std::size_t>(n));
            return out;
          },
          "n"_a)
      .def(
          "position",
          [](const Source& self, unsigned kind) { return self.position(variate_from(kind)); },
          "kind"_a)
      .def("adopt", &Source::adopt)
      .def("state", &state_of<Source>)
      .def("restore", &restore<Source>, "state"_a);
}

}  // namespace dpoco::bindings
