// --tensorboard: a file of events that TensorBoard reads.
#pragma once
#include "runtime/Core/Status.h"
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace ztc {

/// One point of a curve.
struct Scalar {
  std::string_view tag; ///< "train/loss"
  double value;
};

/// The event file of one run in a folder; a resumed run adds one. An event that cannot be written (disk full) ends the
/// file with one warning, not the run.
class EventFile {
public:
  EventFile() = default;
  ~EventFile();
  EventFile(const EventFile &) = delete;
  EventFile &operator=(const EventFile &) = delete;
  /// Makes the folder and the file. FailedPrecondition where the folder has events of another run than `run` and not
  /// `overwrite`, which removes them.
  Status open(const std::string &folder, const std::string &run, bool overwrite);
  bool isOpen() const { return descriptor_ >= 0; }
  void write(uint64_t step, std::initializer_list<Scalar> scalars);

private:
  void writeRecord(const std::string &event);
  std::string path_;
  int descriptor_ = -1;
};

} // namespace ztc
