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

  py::class_<Source>(m, "Source")
      .def(py::init(&make_source), "key"_a, "stream"_a)
      .def("fill",
           [](Source& self, unsigned kind, RealsOut out) {
             const Variate variate = variate_from(kind);
             const py::gil_scoped_release nogil;  // dpoco.random.Source is locked itself
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
      .def("adopt", &Source::adopt)
      .def("state", &state_of<Source>)
      .def("restore", &restore<Source>);
}

}  // namespace dpoco::bindings
