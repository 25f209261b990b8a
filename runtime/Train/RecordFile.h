// Files that grow by a record at a time while a run goes on: a log's lines, TensorBoard's events.
#pragma once
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace ztc {

/// Appends records to a file, each of them whole. What cannot be written (the disk is full) is kept in memory, up to
/// kMostKeptBytes, and written in order as soon as that works; a record that went in by a part is taken out again, so
/// that a reader finds the end of the file at a record's. Says on stderr, a line each, that records wait, that they
/// are written, how many are lost, where more wait than is kept or the end comes first, and that somebody has removed
/// the file. Never ends the run.
class RecordFile {
public:
  /// A file that is not open.
  RecordFile() = default;
  ~RecordFile() { close(); }
  RecordFile(const RecordFile &) = delete;
  RecordFile &operator=(const RecordFile &) = delete;

  /// Takes an open descriptor whose place is its file's end. What it says has `name` ("the log out.jsonl") and
  /// `records`, the plural of what they are ("lines").
  void open(int descriptor, std::string name, std::string_view records);
  bool isOpen() const { return descriptor_ >= 0; }
  /// Dropped where the file is not open.
  void append(std::string_view record);
  /// Tries once more to write what waits, says what is lost, and closes the descriptor.
  void close();

  static constexpr size_t kMostKeptBytes = size_t(8) << 20;

private:
  /// Writes what waits; the error number of what kept it from that, or 0.
  int writeWaiting();
  /// Takes the last `bytes` out of the file again; false where it has no end to cut (a device).
  bool cut(size_t bytes) const;
  void sayWhole() const;
  void sayRemoved();
  /// The end of the file with what is in it, for an error number.
  void giveUp(int error);

  int descriptor_ = -1;
  std::string name_;
  std::string_view records_;
  std::string waiting_;      ///< records, one after another
  std::deque<size_t> sizes_; ///< of those in `waiting_`, in bytes
  bool waits_ = false;       ///< the file takes nothing, and a warning has said so
  bool isRemoved_ = false;   ///< no name leads to the file any more, and a warning has said so
};

} // namespace ztc
