#include "dpoco/core/participants.hpp"

#include <array>
#include <cstring>
#include <vector>

#include "registrars.hpp"

namespace dpoco::bindings {

namespace {

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

// Methods shared by participants of rounds and of intervals.
template <class People>
void bind_people(py::class_<People>& people) {
  people
      .def("require_room", [](const People& self,
                              const py::bytes& digests) { self.require_room(unpacked(digests)); })
      .def("admit",
           [](People& self, std::uint64_t when, const py::bytes& digests) {
             const std::vector<Person> given = unpacked(digests);
             py::array_t<bool> answers(static_cast<py::ssize_t>(given.size()));
             self.admit(when, given,
                        {reinterpret_cast<std::uint8_t*>(answers.mutable_data()), given.size()});
             return answers;
           })
      .def_property_readonly("people", &People::people)
      .def("state", &state_of<People>)
      .def("restore", &restore<People>);
}

}  // namespace

void register_participants(py::module_& m) {
  m.def("digests_of_integers", [](const py::bytes& key, const Integers& names) {
    const auto words = words_of(key);
    const auto count = static_cast<std::size_t>(names.size());
    const auto* from = reinterpret_cast<const char*>(names.data());
    std::vector<Person> people(count);
    for (std::size_t i = 0; i < count; ++i) people[i] = hash_person(words, {from + 8 * i, 8});
    return packed(people);
  });
  m.def("digests_of_texts", [](const py::bytes& key, const std::vector<py::bytes>& names) {
    const auto words = words_of(key);
    std::vector<Person> people;
    people.reserve(names.size());
    for (const py::bytes& name : names) {
      people.push_back(hash_person(words, static_cast<std::string_view>(name)));
    }
    return packed(people);
  });
  py::class_<Participants> in_rounds(m, "Participants");
  in_rounds.def(py::init([](std::uint64_t rounds, std::uint64_t separation, std::uint64_t largest) {
    return Participants({rounds, separation, largest});
  }));
  bind_people(in_rounds);
  py::class_<IntervalParticipants> in_intervals(m, "IntervalParticipants");
  in_intervals.def(py::init([](std::uint64_t rounds, std::uint64_t separation,
                               std::uint64_t largest, std::uint64_t records) {
    return IntervalParticipants({rounds, separation, largest}, records);
  }));
  bind_people(in_intervals);
}

}  // namespace dpoco::bindings
