#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common.hpp"

namespace dpoco::bindings {

// Many independent runs of one engine on one fixed stream, for black-box audits. Every run has the
// engine that `build(key)` returns, the learner's own builder, with its own key.
//
// An engine that draws nothing when it is built need not be built again. It is restored to its
// state of round 0 under the next key, as a saved learner is. The first runs of every call, and
// further runs spread over all of them (8, 16, 32, ... and about one in a thousand, picked by its
// own key), are also played with new engines, to check that outcomes and final states are the same.
// If they differ, or if the state does not contain the key unchanged, every run builds its engine,
// and the earlier runs are repeated.
template <class Engine, class Play>
class RepeatedRuns {
 public:
  using Keys = Plain<std::uint64_t>;
  static constexpr std::size_t kKeyWords = 4;
  static constexpr std::size_t kKeyBytes = kKeyWords * sizeof(std::uint64_t);

  // `play(engine, run)` plays all rounds and writes the outcome of that run without using a Python
  // object. `outcome(run)` returns its bytes.
  RepeatedRuns(py::function build, const Keys& keys, Play& play)
      : build_(std::move(build)), play_(play), count_(static_cast<std::size_t>(keys.size())) {
    if (count_ % kKeyWords != 0) throw std::invalid_argument("keys must have four words each");
    count_ /= kKeyWords;
    keys_ = keys.data();
  }

  // Returns how many engines were built. Handles signals between stretches of runs.
  std::size_t run() {
    if (count_ == 0) return 0;
    std::size_t built = std::min(count_, kChecked);
    if (!check(built)) {
      run_built(0);
      return count_ + built;
    }
    std::size_t from = built;
    while (from < count_) {
      from = run_rekeyed(from);
      const Recheck found = recheck();
      built += found.built;
      if (!found.agree) {
        run_built(0);
        return count_ + built;
      }
      serve_signals();
    }
    return built;
  }

 private:
  static constexpr std::size_t kChecked = 8;     // runs played in both ways
  static constexpr std::size_t kBuilt = 16;      // engines alive at once
  static constexpr std::size_t kLongest = 4096;  // runs in a stretch
  static constexpr std::uint64_t kSeldom = 1024;
  static constexpr std::chrono::milliseconds kStretch{50};

  struct Built {
    py::object owner;
    Engine* engine;
  };

  Built build(std::size_t run) const {
    py::object owner = build_(py::bytes(key(run)));
    auto& engine = owner.cast<Engine&>();
    return {std::move(owner), &engine};
  }
  std::string key(std::size_t run) const {
    std::string bytes(kKeyBytes, '\0');
    std::memcpy(bytes.data(), keys_ + run * kKeyWords, kKeyBytes);
    return bytes;
  }
  static std::string state(const Engine& engine) {
    Archive archive;
    engine.write(archive);
    return archive.take();
  }

  // Plays the first runs both with new engines and with one engine that is restored for each.
  bool check(std::size_t runs) {
    spare_ = build(0);
    first_ = state(*spare_.engine);
    const std::string own = key(0);
    for (std::size_t at = first_.find(own); at != std::string::npos;
         at = first_.find(own, at + kKeyBytes)) {
      places_.push_back(at);
    }
    for (std::size_t run = 0; run < runs; ++run) {
      const Built fresh = build(run);
      std::string start = state(*fresh.engine);
      play_(*fresh.engine, run);
      const std::string end = state(*fresh.engine);
      const std::string outcome = play_.outcome(run);
      if (places_.empty()) continue;
      rekey(run);
      if (start != first_) {
        places_.clear();
        continue;
      }
      restore(run);
      play_(*spare_.engine, run);
      if (state(*spare_.engine) != end || play_.outcome(run) != outcome) places_.clear();
    }
    return !places_.empty();
  }

  void rekey(std::size_t run) {
    for (const std::size_t at : places_) {
      std::memcpy(first_.data() + at, keys_ + run * kKeyWords, kKeyBytes);
    }
  }
  void restore(std::size_t run) {
    rekey(run);
    ArchiveReader reader(first_);
    spare_.engine->read(reader);
    reader.finish();
  }

  // Plays a stretch of runs and returns the next run. Marks the runs that will be checked.
  std::size_t run_rekeyed(std::size_t from) {
    const std::size_t first = from;
    marked_.clear();
    {
      const py::gil_scoped_release nogil;  // no Python object is used below
      const auto until = std::chrono::steady_clock::now() + kStretch;
      do {
        restore(from);
        play_(*spare_.engine, from);
        if (is_marked(from)) mark(from);
        ++from;
      } while (from < count_ && from - first < kLongest &&
               std::chrono::steady_clock::now() < until);
    }
    return from;
  }

  struct Marked {
    std::size_t run;
    std::string outcome;
    std::string end;
  };
  struct Recheck {
    std::size_t built;
    bool agree;
  };

  bool is_marked(std::size_t run) const {
    return (run & (run - 1)) == 0 || keys_[run * kKeyWords] % kSeldom == 0;
  }
  void mark(std::size_t run) {
    marked_.push_back({run, play_.outcome(run), state(*spare_.engine)});
  }

  // Plays the marked runs with new engines.
  Recheck recheck() {
    for (const Marked& each : marked_) {
      const Built fresh = build(each.run);
      rekey(each.run);
      bool agree = state(*fresh.engine) == first_;
      play_(*fresh.engine, each.run);
      agree = agree && state(*fresh.engine) == each.end && play_.outcome(each.run) == each.outcome;
      if (!agree) return {marked_.size(), false};
    }
    return {marked_.size(), true};
  }

  void run_built(std::size_t from) {
    std::vector<Built> engines;
    while (from < count_) {
      engines.clear();
      const std::size_t size = std::min(kBuilt, count_ - from);
      for (std::size_t i = 0; i < size; ++i) engines.push_back(build(from + i));
      {
        const py::gil_scoped_release nogil;  // no Python object is used below
        for (std::size_t i = 0; i < size; ++i) play_(*engines[i].engine, from + i);
      }
      from += size;
      serve_signals();
    }
  }

  static void serve_signals() {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }

  py::function build_;
  Play& play_;
  std::size_t count_;
  const std::uint64_t* keys_ = nullptr;
  Built spare_{py::none(), nullptr};
  std::string first_;  // its state in round 0: as secret as its key, and freed with this object
  std::vector<std::size_t> places_;  // positions of the key in it
  std::vector<Marked> marked_;       // runs of the last stretch that will be checked
};

}  // namespace dpoco::bindings
