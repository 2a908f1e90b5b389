#include "dpoco/core/participants.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "dpoco/core/errors.hpp"

namespace dpoco {

namespace {

using Words = std::array<std::uint64_t, 4>;

void mix(Words& v, int rounds) noexcept {
  for (int i = 0; i < rounds; ++i) {
    v[0] += v[1];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[0] = std::rotl(v[0], 32);
    v[2] += v[3];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[2] = std::rotl(v[2], 32);
  }
}

void absorb(Words& v, std::uint64_t word) noexcept {
  v[3] ^= word;
  mix(v, 2);
  v[0] ^= word;
}

// A table that is seven eighths full is moved to one with half as many places again.
constexpr std::size_t usable_places(std::size_t places) { return places - places / 8; }

constexpr std::uint64_t kLastBits = 40;

}  // namespace

Person hash_person(const std::array<std::uint64_t, 2>& key, std::string_view name) {
  Words v{0x736f6d6570736575 ^ key[0], 0x646f72616e646f6d ^ key[1], 0x6c7967656e657261 ^ key[0],
          0x7465646279746573 ^ key[1]};
  v[1] ^= 0xee;
  std::size_t at = 0;
  for (; name.size() - at >= 8; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, name.data() + at, sizeof word);
    absorb(v, word);
  }
  std::uint64_t last = static_cast<std::uint64_t>(name.size()) << 56;
  for (std::size_t i = 0; at + i < name.size(); ++i) {
    last |= static_cast<std::uint64_t>(static_cast<unsigned char>(name[at + i])) << (8 * i);
  }
  absorb(v, last);
  v[2] ^= 0xee;
  mix(v, 4);
  const std::uint64_t low = v[0] ^ v[1] ^ v[2] ^ v[3];
  v[1] ^= 0xdd;
  mix(v, 4);
  return {low, v[0] ^ v[1] ^ v[2] ^ v[3]};
}

Participants::Participants(const Rule& rule) : rule_(rule) {
  if (rule.separation < 1 || rule.separation > kLastRound || rule.rounds > kMostRounds ||
      rule.largest < 1 || rule.largest > kLastRound) {
    throw std::invalid_argument("participation is out of range");
  }
  if (rule.rounds > 0) return;
  if (rule.separation - 1 > rule.largest) {
    throw std::invalid_argument("separation has more rounds than there is room for people");
  }
  ring_.resize(rule.separation - 1);
}

void Participants::require_room(std::span<const Person> people) const {
  if (rule_.rounds == 0 || people.size() <= rule_.largest - people_) return;
  std::vector<Person> others(people.begin(), people.end());
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  const auto is_new = [this](const Person& person) {
    const auto& entries = tables_[person.high % kTables].entries;
    return entries.empty() || entries[find_place(entries, person)].word == 0;
  };
  if (static_cast<std::uint64_t>(std::count_if(others.begin(), others.end(), is_new)) >
      rule_.largest - people_) {
    throw RoundOrderError("max_persons people have come: there is no room for another");
  }
}

std::size_t Participants::find_place(const std::vector<Entry>& entries, const Person& person) {
  std::size_t i = home(person, entries.size());
  while (entries[i].word != 0 && !(entries[i].person == person)) {
    i = i + 1 < entries.size() ? i + 1 : 0;
  }
  return i;
}

Participants::Entry& Participants::find(const Person& person) {
  Table& table = find_table(person);
  if (table.used + 1 > usable_places(table.entries.size())) {
    std::vector<Entry> larger(std::max<std::size_t>(8, table.entries.size() * 3 / 2));
    for (const Entry& entry : table.entries) {
      if (entry.word != 0) larger[find_place(larger, entry.person)] = entry;
    }
    table.entries = std::move(larger);
  }
  return table.entries[find_place(table.entries, person)];
}

bool Participants::admit(std::uint64_t round, const Person& person) {
  if (rule_.rounds == 0 && ring_.empty()) return true;
  // A round is repeated after an interrupt. The people admitted in it may already be forgotten.
  if (rule_.rounds == 0 && round < next_) return false;
  Entry& entry = find(person);
  const std::uint64_t count = entry.word >> kLastBits;
  const std::uint64_t last = entry.word & kLastRound;
  // Both answers take the same code path, so that the running time does not show the answer.
  const bool fresh = count == 0;
  // A repeated round may come before the last counted one.
  const bool apart = fresh | ((round >= last) & (round - last >= rule_.separation));
  const bool left = (rule_.rounds == 0) | (count < rule_.rounds);
  const bool passes = apart & left;
  if (fresh) {
    entry.person = person;
    find_table(person).used += 1;
    people_ += 1;
  }
  const std::uint64_t counted = rule_.rounds == 0 ? 1 : count + (passes ? 1 : 0);
  entry.word = counted << kLastBits | (passes ? round : last);
  if (rule_.rounds == 0) {
    forget(round);
    ring_[round % ring_.size()] = passes ? person : Person{};
  }
  return passes;
}

void Participants::admit(std::uint64_t round, std::span<const Person> people,
                         std::span<std::uint8_t> passed) {
  assert(passed.size() == people.size());
  constexpr std::size_t ahead = 8;
  for (std::size_t i = 0; i < people.size(); ++i) {
    if (i + ahead < people.size()) {
      const Table& table = find_table(people[i + ahead]);
      if (!table.entries.empty()) {
        __builtin_prefetch(&table.entries[home(people[i + ahead], table.entries.size())]);
      }
    }
    passed[i] = admit(round + i, people[i]) ? 1 : 0;
  }
}

// Empties the places of the ring up to this round. These people may come again from the next round
// on.
void Participants::forget(std::uint64_t round) {
  const std::uint64_t size = ring_.size();
  for (std::uint64_t r = std::max(next_, round - std::min(round, size - 1)); r <= round; ++r) {
    Person& gone = ring_[r % size];
    if (gone == Person{}) continue;
    erase(gone, r - size * ((r - next_) / size + 1));
    gone = {};
  }
  next_ = round + 1;
}

// Forgets a person, unless the person was admitted again after round `last`.
void Participants::erase(const Person& person, std::uint64_t last) {
  Table& table = find_table(person);
  auto& entries = table.entries;
  const std::size_t size = entries.size();
  if (size == 0) return;
  const auto after = [size](std::size_t i) { return i + 1 < size ? i + 1 : 0; };
  std::size_t hole = find_place(entries, person);
  if (entries[hole].word == 0 || (entries[hole].word & kLastRound) != last) return;
  for (std::size_t i = after(hole); entries[i].word != 0; i = after(i)) {
    const std::size_t from = home(entries[i].person, size);
    // An entry whose home is between the hole and its place, going round, stays.
    if (hole < i ? hole < from && from <= i : hole < from || from <= i) continue;
    entries[hole] = entries[i];
    hole = i;
  }
  entries[hole] = {};
  table.used -= 1;
  people_ -= 1;
}

void Participants::write(Archive& archive) const {
  archive.word(rule_.rounds);
  archive.word(rule_.separation);
  archive.word(people_);
  for (const Table& table : tables_) {
    for (const Entry& entry : table.entries) {
      if (entry.word == 0) continue;
      archive.word(entry.person.low);
      archive.word(entry.person.high);
      archive.word(entry.word);
    }
  }
  archive.word(next_);
  for (const Person& person : ring_) {
    archive.word(person.low);
    archive.word(person.high);
  }
}

void Participants::read(ArchiveReader& reader) {
  const std::uint64_t rounds = reader.word();
  if (rounds != rule_.rounds || reader.word() != rule_.separation) {
    throw StateError("state holds people who were kept to another participation");
  }
  const std::uint64_t count = reader.word_below(rule_.largest + 1);
  std::vector<Entry> found;
  std::array<std::size_t, kTables> sizes{};
  for (std::uint64_t i = 0; i < count; ++i) {
    Entry next;
    next.person.low = reader.word();
    next.person.high = reader.word();
    next.word = reader.word();
    found.push_back(next);
    sizes[next.person.high % kTables] += 1;
  }
  tables_ = {};
  people_ = 0;
  // The file has the entries in the order of their places. In a table that grows while it is
  // filled, they would cluster.
  for (std::size_t i = 0; i < kTables; ++i) {
    if (sizes[i] > 0) tables_[i].entries.resize(sizes[i] * 4 / 3 + 8);
  }
  for (const Entry& next : found) {
    const std::uint64_t passed = next.word >> kLastBits;
    Entry& entry = find(next.person);
    if (entry.word != 0 || passed < 1 || (rule_.rounds > 0 && passed > rule_.rounds)) {
      throw StateError("state holds a person twice, or one who came too often");
    }
    entry = next;
    find_table(next.person).used += 1;
    people_ += 1;
  }
  next_ = reader.word_below(kLastRound + 1);
  for (Person& person : ring_) {
    person.low = reader.word();
    person.high = reader.word();
  }
}

IntervalParticipants::IntervalParticipants(const Participants::Rule& rule, std::uint64_t records)
    : intervals_(rule), records_(records) {
  if (rule.rounds < 1 || records < 1) {
    throw std::invalid_argument("intervals need a largest number of rounds and of records");
  }
}

void IntervalParticipants::admit(std::uint64_t interval, std::span<const Person> people,
                                 std::span<std::uint8_t> passed) {
  assert(passed.size() == people.size());
  if (interval != interval_) left_.clear();
  interval_ = interval;
  for (std::size_t i = 0; i < people.size(); ++i) {
    const auto [found, first] = left_.try_emplace(people[i], 0);
    // The first record of a person in an interval decides whether the interval counts for this
    // person.
    if (first && intervals_.admit(interval, people[i])) found->second = records_;
    passed[i] = found->second > 0 ? 1 : 0;
    found->second -= passed[i];
  }
}

void IntervalParticipants::write(Archive& archive) const {
  intervals_.write(archive);
  archive.word(records_);
  archive.word(interval_);
  archive.word(left_.size());
  for (const auto& [person, left] : left_) {
    archive.word(person.low);
    archive.word(person.high);
    archive.word(left);
  }
}

void IntervalParticipants::read(ArchiveReader& reader) {
  intervals_.read(reader);
  if (reader.word() != records_) {
    throw StateError("state holds people who were kept to another number of records");
  }
  interval_ = reader.word_below(Participants::kLastRound + 1);
  left_.clear();
  for (std::uint64_t left = reader.word_below(intervals_.people() + 1); left > 0; --left) {
    const std::uint64_t low = reader.word();
    const std::uint64_t high = reader.word();
    const auto [found, first] = left_.try_emplace(Person{low, high}, 0);
    if (!first) throw StateError("state holds a person twice");
    found->second = reader.word_below(records_ + 1);
  }
}

}  // namespace dpoco
