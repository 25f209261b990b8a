// An ONNX file again, with other elements in some of its tensors and every other byte as it was.
#pragma once
#include "frontends/onnx/WeightValues.h"
#include "frontends/onnx/WriteBack.h"

namespace ztc::importer {

struct WriteModelOptions {
  std::string input, output; ///< ONNX files
  /// A file that would be larger has its weights in OUTPUT.data, as one whose weights already are in another file.
  uint64_t inlineLimit = 0;
};

/// What was written.
struct WrittenModel {
  uint64_t bytes = 0, externalBytes = 0; ///< 0: nothing stands in OUTPUT.data
  unsigned tensors = 0;                  ///< with other elements
  std::vector<std::string> parted;       ///< tensors that an exporter had merged and training made different
};

/// Writes `options.output`, and OUTPUT.data where weights are external, with the elements that `find` has for each
/// tensor of `writeBack`. Tensors that the exporter merged and that differ now become two. On failure nothing new is
/// there, and the message names the tensor.
StatusOr<WrittenModel> writeModel(const WriteBack &writeBack, const WriteModelOptions &options, FindTensor find);

} // namespace ztc::importer
