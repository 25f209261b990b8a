// --tensorboard: a file of events that TensorBoard reads.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Train/RecordFile.h"
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

/// The event file of one run in a folder; a resumed run adds one. Events that cannot be written (disk full) wait, as
/// with any RecordFile.
class EventFile {
public:
  /// Makes the folder and the file. FailedPrecondition where the folder has events of another run than `run` and not
  /// `overwrite`, which removes them, and where a run is still writing there.
  Status open(const std::string &folder, const std::string &run, bool overwrite);
  bool isOpen() const { return file_.isOpen(); }
  void write(uint64_t step, std::initializer_list<Scalar> scalars);

private:
  void writeRecord(const std::string &event);
  RecordFile file_;
};

} // namespace ztc
