// Programs as CUDA graphs: what the streams are given between begin and end is launched at once afterwards.
#pragma once
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {

/// Something that is told of each execution that the streams have been given.
class ProgramEnds {
public:
  virtual ~ProgramEnds() = default;
  virtual Status mark() = 0;
};

class CudaRecorder {
public:
  explicit CudaRecorder(CudaResources &resources) : resources_(resources) {}
  bool isRecording() const { return isRecording_; }
  Status begin();
  /// `ends` outlives the program.
  StatusOr<std::unique_ptr<RecordedProgram>> end(ProgramEnds &ends);

private:
  CudaResources &resources_;
  bool isRecording_ = false;
  Traffic before_; ///< of the communicator
};

} // namespace ztc
