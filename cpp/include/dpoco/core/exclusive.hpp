#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "dpoco/core/errors.hpp"

namespace dpoco {

// Lets one thread at a time use an object. A second thread is refused and not queued, because the
// order of rounds would be arbitrary.
class Exclusive {
 public:
  class Entry {
   public:
    explicit Entry(const Exclusive& owner) : flag_(*owner.flag_) {
      if (flag_.test_and_set(std::memory_order_acquire)) {
        throw RoundOrderError("the object is in use by another thread");
      }
    }
    ~Entry() { flag_.clear(std::memory_order_release); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    std::atomic_flag& flag_;
  };

  [[nodiscard]] Entry enter() const { return Entry(*this); }

 private:
  std::unique_ptr<std::atomic_flag> flag_ = std::make_unique<std::atomic_flag>();
};

// A count that one thread advances and any thread may read.
class SharedCount {
 public:
  SharedCount() = default;
  SharedCount(SharedCount&& other) noexcept : value_(static_cast<std::uint64_t>(other)) {}

  operator std::uint64_t() const noexcept { return value_.load(std::memory_order_relaxed); }
  SharedCount& operator=(std::uint64_t value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace dpoco
