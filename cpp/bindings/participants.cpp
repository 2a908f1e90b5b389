#include "dpoco/core/participants.hpp"

#include <array>
#include <cstring>
#include <vector>

#include "registrars.hpp"

namespace dpoco::bindings {

namespace {

using Integers = py::array_t<std::int64_t, py::array::c_style>;

std::array<std::uint64_t, 2> words_of(const py::bytes& key) {
  const std::string raw = key;
  std::array<std::uint64_t, 2> words{};
  if (raw.size() != sizeof words) throw std::invalid_argument("key must have 16 bytes");
  std::memcpy(words.data(), raw.data(), sizeof words);
  return words;
}

py::bytes packed(const std::vector<Person>& people) {
  return py::bytes(reinterpret_cast<const char*>(people.data()), people.size() * sizeof(Person));
}

std::vector<Person> unpacked(const py::bytes& digests) {
  const auto raw = static_cast<std::string_view>(digests);
  if (raw.size() % sizeof(Person) != 0) throw std::invalid_argument("a digest has 16 bytes");
  std::vector<Person> people(raw.size() / sizeof(Person));
  if (!people.empty()) std::memcpy(people.data(), raw.data(), raw.size());
  return people;
}

}  // namespace

void register_participants(py::module_& m) {
  m.def(
      "digests_of_integers",
      [](const py::bytes& key, const Integers& names) {
        const auto words = words_of(key);
        const auto count = static_cast<std::size_t>(names.size());
        const auto* from = reinterpret_cast<const char*>(names.data());
        std::vector<Person> people(count);
        for (std::size_t i = 0; i < count; ++i) people[i] = person_of(words, {from + 8 * i, 8});
        return packed(people);
      },
      "key"_a, "names"_a.noconvert());
  m.def(
      "digests_of_texts",
      [](const py::bytes& key, const std::vector<py::bytes>& names) {
        const auto words = words_of(key);
        std::vector<Person> people;
        people.reserve(names.size());
        for (const py::bytes& name : names) {
          people.push_back(person_of(words, static_cast<std::string_view>(name)));
        }
        return packed(people);
      },
      "key"_a, "names"_a);
  py::class_<Participants>(m, "Participants")
      .def(py::init([](std::uint64_t rounds, std::uint64_t separation, std::uint64_t largest) {
             return Participants({rounds, separation, largest});
           }),
           "rounds"_a, "separation"_a, "largest"_a)
      .def("require_room", [](const Participants& self,
                              const py::bytes& digests) { self.require_room(unpacked(digests)); })
      .def("admit",
           [](Participants& self, std::uint64_t round, const py::bytes& digests) {
             const std::vector<Person> people = unpacked(digests);
             py::array_t<bool> passed(static_cast<py::ssize_t>(people.size()));
             self.admit(round, people, reinterpret_cast<std::uint8_t*>(passed.mutable_data()));
             return passed;
           })
      .def_property_readonly("people", &Participants::people)
      .def("state", &state_of<Participants>)
      .def("restore", &restore<Participants>);
  py::class_<IntervalParticipants>(m, "IntervalParticipants")
      .def(py::init([](std::uint64_t rounds, std::uint64_t separation, std::uint64_t largest,
                       std::uint64_t records) {
             return IntervalParticipants({rounds, separation, largest}, records);
           }),
           "rounds"_a, "separation"_a, "largest"_a, "records"_a)
      .def("require_room", [](const IntervalParticipants& self,
                              const py::bytes& digests) { self.require_room(unpacked(digests)); })
      .def("admit",
           [](IntervalParticipants& self, std::uint64_t interval, const py::bytes& digests) {
             const std::vector<Person> people = unpacked(digests);
             py::array_t<bool> passed(static_cast<py::ssize_t>(people.size()));
             self.admit(interval, people, reinterpret_cast<std::uint8_t*>(passed.mutable_data()));
             return passed;
           })
      .def_property_readonly("people", &IntervalParticipants::people)
      .def("state", &state_of<IntervalParticipants>)
      .def("restore", &restore<IntervalParticipants>);
}

}  // namespace dpoco::bindings
