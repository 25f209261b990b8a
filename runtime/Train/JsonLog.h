// --log-json: one object a line, each written and flushed at once.
#pragma once
#include "runtime/Core/BackgroundWriter.h"
#include "runtime/Core/Status.h"
#include "runtime/Train/RecordFile.h"
#include <cstdint>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <string_view>

namespace ztc {

/// Writes one flat object into memory that is reused: no allocation once it has grown.
class JsonObject {
public:
  JsonObject &begin();
  JsonObject &add(std::string_view key, uint64_t value);
  /// Shortest digits that read back to the same number; null where not finite.
  JsonObject &add(std::string_view key, double value);
  JsonObject &add(std::string_view key, float value);
  JsonObject &add(std::string_view key, bool value);
  JsonObject &add(std::string_view key, std::string_view text);
  JsonObject &add(std::string_view key, const char *text) { return add(key, std::string_view(text)); }
  /// `json` is inserted as it stands.
  JsonObject &addRaw(std::string_view key, std::string_view json);
  /// The finished object with its closing brace, without end of line; valid until begin().
  std::string_view end();

private:
  void startMember(std::string_view key);
  void appendQuoted(std::string_view text);
  fmt::basic_memory_buffer<char, 4096> text_;
};

/// The log file. What a full disk does not take waits, as with any RecordFile. A pipe whose reader stands still ends
/// the log with one warning, not the run.
class JsonLog {
public:
  JsonLog() = default;
  ~JsonLog();
  JsonLog(const JsonLog &) = delete;
  JsonLog &operator=(const JsonLog &) = delete;
  /// Starts a new file, or goes on with the old one where `append`. Nothing changes before the first line: a run that
  /// fails until then leaves an old file as it was, and no new one.
  Status open(const std::string &path, bool append);
  bool isOpen() const { return descriptor_ >= 0 || file_.isOpen(); }
  void write(std::string_view object);

private:
  /// Ends the log of a pipe: the lines so far are what there is.
  void endPipe();
  std::string path_;
  int descriptor_ = -1;                      ///< of a file before its first line, or of a pipe
  std::unique_ptr<BackgroundWriter> writer_; ///< of a pipe or terminal, whose writes would wait for a reader
  RecordFile file_;                          ///< of all else, from the first line on
  bool isNew_ = false;                       ///< open() made the file and no line is in it
  bool replaces_ = false;                    ///< the old content goes with the first line
  std::string line_;
};

} // namespace ztc
