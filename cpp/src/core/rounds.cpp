#include "dpoco/core/rounds.hpp"

#include <stdexcept>

#include "dpoco/core/errors.hpp"

namespace dpoco {

Rounds::Rounds(std::uint64_t horizon) : horizon_(horizon) {
  if (horizon < 1) throw std::invalid_argument("horizon must be at least 1");
}

void Rounds::require_whole() const {
  if (!whole_) {
    throw StateError("a round failed midway: its noise may be spent, no other may follow");
  }
}

void Rounds::require(std::uint64_t rounds) const {
  require_whole();
  if (rounds > horizon_ - round_) throw HorizonExceeded("the declared horizon is used up");
  check_process();
}

void Rounds::require_turn(std::uint64_t decided) const {
  require(1);
  if (decided != round_) throw RoundOrderError("decide() and observe() alternate");
}

std::uint64_t Rounds::read_round(ArchiveReader& archive) {
  round_ = archive.word_below(horizon_ + 1);
  return round_;
}

void Rounds::write(Archive& archive) const {
  const auto entry = exclusive_.enter();
  require_whole();
  write_state(archive);
}

void Rounds::read(ArchiveReader& archive) {
  whole_ = false;  // unless all of it can be read
  read_state(archive);
  whole_ = true;
}

}  // namespace dpoco
