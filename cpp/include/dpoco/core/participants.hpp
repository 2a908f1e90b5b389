#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dpoco/core/archive.hpp"

namespace dpoco {

// Identifies a person: a keyed digest of the name, never the name.
struct Person {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const Person&, const Person&) = default;
  friend auto operator<=>(const Person&, const Person&) = default;
};

// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012).
Person hash_person(const std::array<std::uint64_t, 2>& key, std::string_view name);

// Admits at most `rounds` records of a person, any two of them at least `separation` rounds apart.
// The learner must play every other record as an empty one.
//
// Whether a record is admitted depends on earlier records of the same person alone: every person
// has an exact counter that no other person shares (docs/privacy/participation.md). A person costs
// 24 bytes plus the free room of the table, at most half as much again. Where only the separation
// binds, a person is forgotten once the separation has passed.
class Participants {
 public:
  struct Rule {
    std::uint64_t rounds = 1;      // 0: as many as the separation allows
    std::uint64_t separation = 1;  // at least 1
    std::uint64_t largest = 1;     // distinct people that there is room for
  };

  // Throws std::invalid_argument for counts that the entries of the table cannot hold.
  explicit Participants(const Rule& rule);

  // Throws RoundOrderError if some of these people might find no room. Changes nothing.
  void require_room(std::span<const Person> people) const;

  // Returns whether the record of this person in this round is admitted. Rounds must increase, and
  // the caller must have made sure that there is room.
  bool admit(std::uint64_t round, const Person& person);
  void admit(std::uint64_t round, std::span<const Person> people, std::span<std::uint8_t> passed);

  [[nodiscard]] std::uint64_t people() const noexcept { return people_; }

  void write(Archive& archive) const;
  void read(ArchiveReader& reader);

  static constexpr std::uint64_t kLastRound = (std::uint64_t{1} << 40) - 1;
  static constexpr std::uint64_t kMostRounds = (std::uint64_t{1} << 24) - 1;

 private:
  struct Entry {
    Person person;
    std::uint64_t word = 0;  // 24 bits of records admitted, 40 of the last one's round; 0: empty
  };
  static_assert(sizeof(Entry) == 24);

  // A hash table with linear probing. There are several, so that only one at a time is resized.
  struct Table {
    std::vector<Entry> entries;
    std::size_t used = 0;
  };
  static constexpr std::size_t kTables = 64;

  static std::size_t home(const Person& person, std::size_t size) noexcept {
    return static_cast<std::size_t>(((person.low >> 32) * size) >> 32);  // size below 2^32
  }
  Table& find_table(const Person& person) noexcept { return tables_[person.high % kTables]; }

  static std::size_t find_place(const std::vector<Entry>& entries, const Person& person);
  Entry& find(const Person& person);  // makes an empty entry if there is none
  void forget(std::uint64_t round);
  void erase(const Person& person, std::uint64_t last);

  Rule rule_;
  std::array<Table, kTables> tables_;
  std::uint64_t people_ = 0;
  // The people admitted in the last separation - 1 rounds, by round; used where only the separation
  // binds.
  std::vector<Person> ring_;
  std::uint64_t next_ = 0;  // the first round that the ring has not reached
};

// Admits at most `records` records of a person in one interval of a stream. A rule for rounds, with
// intervals as its rounds, limits the number and the separation of a person's intervals
// (docs/privacy/statistics.md).
class IntervalParticipants {
 public:
  // Throws std::invalid_argument for a rule without a largest number of rounds.
  IntervalParticipants(const Participants::Rule& rule, std::uint64_t records);

  void require_room(std::span<const Person> people) const { intervals_.require_room(people); }
  // Writes whether each of these records, all of one interval, is admitted. Intervals must not
  // decrease.
  void admit(std::uint64_t interval, std::span<const Person> people,
             std::span<std::uint8_t> passed);

  [[nodiscard]] std::uint64_t people() const noexcept { return intervals_.people(); }

  void write(Archive& archive) const;
  void read(ArchiveReader& reader);

 private:
  struct Hash {
    std::size_t operator()(const Person& person) const noexcept { return person.low; }
  };

  Participants intervals_;
  std::uint64_t records_;
  std::uint64_t interval_ = 0;
  // The number of records that each person of this interval may still bring.
  std::unordered_map<Person, std::uint64_t, Hash> left_;
};

}  // namespace dpoco
