#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "dpoco/core/errors.hpp"
#include "dpoco/core/participants.hpp"

using dpoco::Archive;
using dpoco::ArchiveReader;
using dpoco::Participants;
using dpoco::Person;

namespace {

Person named(std::uint64_t name) {
  return dpoco::hash_person({7, 9}, {reinterpret_cast<const char*>(&name), sizeof name});
}

// The rule, said with a map from names to all rounds that passed.
struct Reference {
  std::uint64_t rounds, separation;
  std::map<std::uint64_t, std::vector<std::uint64_t>> passed;

  bool admit(std::uint64_t round, std::uint64_t name) {
    auto& own = passed[name];
    const bool left = rounds == 0 || own.size() < rounds;
    const bool apart = own.empty() || round - own.back() >= separation;
    if (left && apart) own.push_back(round);
    return left && apart;
  }
};

std::string state(const Participants& people) {
  Archive archive;
  people.write(archive);
  return archive.take();
}

}  // namespace

TEST_CASE("digests are SipHash-2-4 with 128 bits") {
  // Published vectors of the keyed function: key 00 01 .. 0f, messages 00 01 .. of each length.
  const std::array<std::uint64_t, 2> key{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  const Person empty = dpoco::hash_person(key, "");
  CHECK(empty.low == 0xe6a825ba047f81a3);
  CHECK(empty.high == 0x930255c71472f66d);
  const Person one = dpoco::hash_person(key, std::string_view("\0", 1));
  CHECK(one.low == 0x44af996bd8c187da);
  CHECK(one.high == 0x45fc229b11597634);
}

TEST_CASE("records pass as the rule says, whatever the tables do") {
  std::mt19937_64 draw(1);
  for (const std::uint64_t rounds : {0, 1, 3, 50}) {
    for (const std::uint64_t separation : {1, 2, 7, 100}) {
      for (const std::uint64_t names : {1, 5, 300, 5000}) {
        Participants people({rounds, separation, 100000});
        Reference reference{rounds, separation, {}};
        std::uint64_t round = 0;
        for (int i = 0; i < 6000; ++i) {
          const std::uint64_t name = draw() % names;
          REQUIRE(people.admit(round, named(name)) == reference.admit(round, name));
          round += draw() % 10 == 0 ? 1 + draw() % (2 * separation + 2) : 1;  // rounds left out
          if (i % 1999 == 0) {  // goes on from its state
            const std::string saved = state(people);
            Participants other({rounds, separation, 100000});
            ArchiveReader reader(saved);
            other.read(reader);
            reader.finish();
            people = std::move(other);
          }
        }
        if (rounds == 0) {
          CHECK(people.people() < separation);  // forgotten in time
        } else {
          CHECK(people.people() == reference.passed.size());
        }
      }
    }
  }
}

TEST_CASE("many at once are admitted as one by one") {
  Participants one({2, 3, 1000});
  Participants many({2, 3, 1000});
  std::vector<Person> people;
  for (std::uint64_t i = 0; i < 500; ++i) people.push_back(named(i * i % 37));
  std::vector<std::uint8_t> passed(people.size());
  many.admit(10, people, passed);
  for (std::size_t i = 0; i < people.size(); ++i) {
    CHECK(one.admit(10 + i, people[i]) == (passed[i] == 1));
  }
}

TEST_CASE("a full map is refused before anything is played") {
  Participants people({1, 1, 3});
  const std::vector<Person> three{named(1), named(2), named(1), named(3)};
  people.require_room(three);
  std::vector<std::uint8_t> passed(three.size());
  people.admit(0, three, passed);
  people.require_room(three);
  const std::string before = state(people);
  const std::vector<Person> more{named(3), named(4)};
  CHECK_THROWS_AS(people.require_room(more), dpoco::RoundOrderError);
  CHECK(state(people) == before);
}

TEST_CASE("rules and states out of range are refused") {
  CHECK_THROWS_AS(Participants({1, 0, 1}), std::invalid_argument);
  CHECK_THROWS_AS(Participants({1, 1, 0}), std::invalid_argument);
  CHECK_THROWS_AS(Participants({std::uint64_t{1} << 24, 1, 1}), std::invalid_argument);
  CHECK_THROWS_AS(Participants({1, std::uint64_t{1} << 40, 1}), std::invalid_argument);
  CHECK_THROWS_AS(Participants({0, 12, 10}), std::invalid_argument);

  Participants people({2, 1, 5});
  people.admit(0, named(1));
  std::string saved = state(people);
  saved[8 * 5 + 5] = 3;  // came three times
  Participants other({2, 1, 5});
  ArchiveReader reader(saved);
  CHECK_THROWS_AS(other.read(reader), dpoco::StateError);

  Participants wider({2, 2, 5});
  saved = state(people);
  ArchiveReader again(saved);
  CHECK_THROWS_AS(wider.read(again), dpoco::StateError);
}
