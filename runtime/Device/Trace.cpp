#include "runtime/Device/Trace.h"
#include "runtime/Core/File.h"
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ztc {

uint64_t traceClock() {
  return uint64_t(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

thread_local uint32_t TraceRecorder::currentLabel = 0;

uint32_t TraceRecorder::addTrack(std::string name) {
  tracks_.push_back({std::move(name), std::vector<Span>(capacity_), 0});
  return uint32_t(tracks_.size() - 1);
}

uint32_t TraceRecorder::addLabel(std::string name, std::string category) {
  labels_.push_back({std::move(name), std::move(category)});
  return uint32_t(labels_.size() - 1);
}

/// A JSON string; names come from files and may be no UTF-8.
static std::string quoted(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string TraceRecorder::json(uint32_t rank) const {
  std::vector<std::string> names;
  for (const Label &label : labels_)
    names.push_back(fmt::format("\"name\":{},\"cat\":{}", quoted(label.name), quoted(label.category)));
  uint64_t origin = UINT64_MAX;
  for (const Track &track : tracks_)
    for (size_t i = 0; i < std::min<uint64_t>(track.recorded, capacity_); ++i)
      origin = std::min(origin, track.spans[i].begin);

  fmt::memory_buffer text;
  auto to = std::back_inserter(text);
  fmt::format_to(to,
                 "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
                 "{{\"ph\":\"M\",\"pid\":{0},\"name\":\"process_name\",\"args\":{{\"name\":\"rank {0}\"}}}}",
                 rank);
  for (size_t t = 0; t < tracks_.size(); ++t) {
    const Track &track = tracks_[t];
    fmt::format_to(to, ",\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":\"thread_name\",\"args\":{{\"name\":{2}}}}}",
                   rank, t, quoted(track.name));
    fmt::format_to(to,
                   ",\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":\"thread_sort_index\","
                   "\"args\":{{\"sort_index\":{1}}}}}",
                   rank, t);
    uint64_t first = track.recorded > capacity_ ? track.recorded - capacity_ : 0;
    for (uint64_t i = first; i < track.recorded; ++i) {
      const Span &span = track.spans[i % capacity_];
      fmt::format_to(to, ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},{}}}", rank, t,
                     double(span.begin - origin) / 1e3, double(span.end - span.begin) / 1e3, names[span.label]);
    }
  }
  fmt::format_to(to, "\n]}}\n");
  return fmt::to_string(text);
}

Status TraceRecorder::write(const std::string &path, uint32_t rank) const {
  return replaceFile(path, json(rank));
}

} // namespace ztc
