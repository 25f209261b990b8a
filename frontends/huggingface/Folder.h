// A Hugging Face folder as an ONNX model: config.json decides the graph, safetensors hold the weights.
#pragma once
#include "compiler/Support/Formats.h"
#include "frontends/huggingface/Checkpoint.h"
#include "runtime/Core/Status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace ztc::huggingface {

struct FolderModel {
  std::string onnx;          ///< the message; its weights are external data in the folder's own files
  std::string modelType;     ///< as config.json says it
  int64_t positionLimit = 0; ///< tokens in a row that the configuration allows; 0: any
  std::string limitReason;   ///< what a longer row needs that ztc does not build; empty: more positions
  bool hasWeights = false;
  std::string initializerRange; ///< deviation of fresh weights, as text
  std::string freshValues;      ///< of those that are not drawn with it (runtime/Format/FreshValues.h)
  std::vector<std::string> notes;
  std::vector<QuantizedTensor> quantized; ///< weights that the folder has in fewer bits
  std::string dequantizedType;            ///< what those of them that loading dequantises are exported in: "BF16"
};

/// Whether `path` is a folder with a config.json.
bool isModelFolder(const std::string &path);

/// The model types that are built from a folder, with commas.
std::string familyNames();

/// Builds the graph. `precision` is what the model will compute in: a scale that transformers rounds to the model's
/// type is rounded to it. Where `savePath` is given the message is written there too, and the folder must lie beside or
/// above it for its weights to be found.
StatusOr<FolderModel> buildFolder(const std::string &folder, StoragePrecision precision, const std::string &savePath);

} // namespace ztc::huggingface
