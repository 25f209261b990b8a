// Weights where a plan says they are: a checkpoint's files, an ONNX graph's, or that graph itself.
#pragma once
#include "runtime/Checkpoint/QuantizedTensors.h"
#include "runtime/Checkpoint/TensorReader.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Status.h"
#include <map>
#include <memory>
#include <span>
#include <string>

namespace ztc {

/// The files that hold a plan's weights, mapped. Where one is not there any more, the file of its name beside the plan
/// takes its place. The plan outlives this and what it gives.
class PlannedWeights {
public:
  /// Of `parameters`. Fails, naming what, where no weights are known, or a file is missing, has another size than it
  /// had at compilation, or does not have what the plan says. `planFolder`: empty where the plan is in no file.
  static StatusOr<PlannedWeights> open(const plan::Plan &plan, std::span<const plan::Parameter *const> parameters,
                                       const std::string &planFolder);

  /// The checkpoint that a parameter's file is of, whose other tensors may lie in other files.
  StatusOr<std::shared_ptr<const QuantizedCheckpoint>> checkpointOf(const plan::Parameter &parameter) const;

  /// `check`: hold the bytes against the plan's checksum.
  StatusOr<StoredTensor> stored(const plan::Parameter &parameter, bool check) const;

private:
  Status add(const plan::Parameter &parameter, const std::string &planFolder);
  /// Maps the file of a source, or of a part of one, and looks whether that lies in it.
  template <typename Piece>
  Status addFile(const Piece &piece, const std::string &parameter, const std::string &planFolder);
  /// Of a source, or of a part of one. Fails where `check` is set and they are not those of the compilation.
  template <typename Piece>
  StatusOr<std::span<const std::byte>> bytesOf(const Piece &piece, const std::string &parameter, bool check) const;
  /// Of a parameter that is dequantised.
  StatusOr<std::shared_ptr<const QuantizedMatrix>> findCodes(const plan::Parameter &parameter, bool check) const;

  std::map<std::string, MappedFile> files_; ///< by the plan's names of them
  QuantizationConfig config_;
  mutable std::map<std::string, std::shared_ptr<const QuantizedCheckpoint>> checkpoints_; ///< by path
};

} // namespace ztc
