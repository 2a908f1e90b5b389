#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "common.hpp"
#include "dpoco/core/exclusive.hpp"

namespace dpoco::bindings {

// Rounds of many learners in one call. Learner i plays the rows rows[offsets[i]], ...,
// rows[offsets[i + 1] - 1] of the arrays, in this order.

struct KeyedRows {
  const std::int64_t* offsets;
  const std::int64_t* rows;
};

// Checks everything here, because later code uses pointers without lengths. The arrays have `size`
// rows.
inline KeyedRows keyed_rows(const py::list& learners, const Integers& offsets, const Integers& rows,
                            std::size_t size) {
  const auto n = static_cast<std::size_t>(rows.size());
  if (static_cast<std::size_t>(offsets.size()) != learners.size() + 1) {
    throw std::invalid_argument("offsets has the wrong number of entries");
  }
  const KeyedRows to{offsets.data(), rows.data()};
  bool good = to.offsets[0] == 0 && to.offsets[learners.size()] == static_cast<std::int64_t>(n);
  for (std::size_t i = 0; good && i < learners.size(); ++i) {
    good = to.offsets[i] <= to.offsets[i + 1];
  }
  for (std::size_t i = 0; good && i < n; ++i) {
    good = to.rows[i] >= 0 && to.rows[i] < static_cast<std::int64_t>(size);
  }
  if (!good) throw std::invalid_argument("offsets and rows do not fit the arrays");
  return to;
}

// Returns a property that all learners must share; `read` gets it from one of them.
template <class Learner, class Read>
std::size_t common(const py::list& learners, Read read) {
  const auto of = [&](py::handle learner) {
    return static_cast<std::size_t>(std::invoke(read, learner.cast<const Learner&>()));
  };
  const std::size_t first = of(learners[0]);
  for (const py::handle learner : learners) {
    if (of(learner) != first) throw std::invalid_argument("the learners differ in their sizes");
  }
  return first;
}

template <class Learner>
struct Entered {
  Learner* learner;
  Exclusive::Entry entry;
  explicit Entered(Learner& entered) : learner(&entered), entry(entered.enter()) {}
};

// Enters all learners while the interpreter lock still orders the threads, and refuses before any
// draw: RoundOrderError if a learner is in use or named twice, HorizonExceeded if it has too few
// rounds left, StateError in a forked child. Then plays on `workers` threads without the
// interpreter lock.
//
// play(learner, entry, row, count) plays `count` consecutive rows from `row` on. If it throws, the
// first exception is thrown again after all threads have stopped. Every learner is then between two
// rounds.
template <class Learner, class Play>
void play_keyed(const py::list& learners, const KeyedRows& to, std::size_t workers, Play play) {
  std::deque<Entered<Learner>> entered;
  for (const py::handle learner : learners) entered.emplace_back(learner.cast<Learner&>());
  for (std::size_t i = 0; i < entered.size(); ++i) {
    Learner& learner = *entered[i].learner;
    play(learner, entered[i].entry, 0, 0);  // no rounds: only the checks
    const auto rounds = static_cast<std::uint64_t>(to.offsets[i + 1] - to.offsets[i]);
    if (rounds > learner.horizon() - learner.round()) {
      throw HorizonExceeded("fewer rounds are left to a learner than records have come for it");
    }
  }
  const py::gil_scoped_release nogil;  // no Python object is used below
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < entered.size(); i = next++) {
        for (std::int64_t at = to.offsets[i], stop = to.offsets[i + 1]; at < stop;) {
          const std::int64_t first = to.rows[at];
          std::int64_t count = 1;
          while (at + count < stop && to.rows[at + count] == first + count) ++count;
          play(*entered[i].learner, entered[i].entry, static_cast<std::size_t>(first),
               static_cast<std::size_t>(count));
          at += count;
        }
      }
    } catch (...) {
      next = entered.size();
      const std::lock_guard lock(failing);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < workers && i < entered.size(); ++i) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // no further threads are available: the others do the work
    }
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace dpoco::bindings
