// What happened when: spans of steps on the tracks of a timeline.
#pragma once
#include "runtime/Core/Status.h"
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// Nanoseconds of a steady clock, the one that all spans are taken from.
uint64_t traceClock();

/// Records spans of named things. Every track belongs to one thread at a time and is a ring of the newest spans, so
/// that a run of any length can be traced: recording allocates nothing and takes no lock. Tracks and labels are added
/// before the run.
class TraceRecorder {
public:
  /// `spansPerTrack` at least 1; a span takes 24 bytes.
  explicit TraceRecorder(size_t spansPerTrack) : capacity_(spansPerTrack) {}

  /// A row of the timeline; rows stand in the order in which they are added.
  uint32_t addTrack(std::string name);
  /// Something that spans can be of. `category` is the program or "training".
  uint32_t addLabel(std::string name, std::string category);

  void record(uint32_t track, uint32_t label, uint64_t begin, uint64_t end) {
    Track &to = tracks_[track];
    to.spans[to.recorded++ % capacity_] = {begin, end, label};
  }

  /// What the calling thread is at work on: pools hand it to their workers. Set by whoever executes a step.
  static thread_local uint32_t currentLabel;

  /// The Chrome trace format, which Perfetto reads too: times in microseconds from the earliest span. Only while nobody
  /// records.
  std::string json(uint32_t rank) const;
  Status write(const std::string &path, uint32_t rank) const;

private:
  struct Span {
    uint64_t begin, end;
    uint32_t label;
  };
  struct Track {
    std::string name;
    std::vector<Span> spans;
    uint64_t recorded = 0;
  };
  struct Label {
    std::string name, category;
  };
  size_t capacity_;
  std::vector<Track> tracks_;
  std::vector<Label> labels_;
};

} // namespace ztc
