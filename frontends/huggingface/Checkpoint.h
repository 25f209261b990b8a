// The tensors of a Hugging Face folder by the names that a model gives them.
#pragma once
#include "frontends/huggingface/GraphWriter.h"
#include "runtime/Core/Status.h"
#include "runtime/Format/QuantizedMatrices.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ztc::huggingface {

/// A weight in fewer bits, where its codes are.
struct QuantizedTensor {
  std::string name, format; ///< of bitsandbytes nf4, nf4_single or int8
  std::string path;         ///< of the file
  std::vector<int64_t> shape;
  uint64_t offset = 0, bytes = 0;
  bool isDequantized = false; ///< loading makes numbers of it; bitsandbytes' stay as they are
};

/// Finds tensors, or describes those of a folder without weights.
class Checkpoint {
public:
  /// Opens the safetensors of a folder; a folder without any is not an error. `config`: what config.json says of
  /// weights in fewer bits.
  static StatusOr<Checkpoint> open(const std::string &folder, const QuantizationConfig &config);

  bool hasWeights() const { return files != nullptr; }
  /// Whether a tensor is there under a name of the model.
  bool has(const std::string &name) const;
  /// Whether both are there, and are not the same numbers in the same type.
  bool differ(const std::string &name, const std::string &other) const;
  bool hasShape(const std::string &name, const std::vector<int64_t> &shape) const;
  /// Where the base model's names start with `base` ("model."), how the checkpoint's do: the same, without it, or below
  /// the language model of a multi-modal one. Decided by the name of the embedding.
  void choosePrefix(const std::string &base, const std::string &embedding);
  /// The tensor of this name and shape; a message goes to `problems` where the checkpoint has none. Without weights it
  /// is described as f32 in a file that is not there.
  StoredTensor take(const std::string &name, const std::vector<int64_t> &shape);
  const std::vector<std::string> &problems() const { return missing; }
  /// What was taken of weights in fewer bits: the graph has them in a file that is not there.
  const std::vector<QuantizedTensor> &quantized() const { return inFewerBits; }
  /// A name that the checkpoint lacks is looked up with these parts of it exchanged, one after the other.
  void setRenamed(std::vector<std::pair<std::string, std::string>> parts) { renamed = std::move(parts); }
  /// A checkpoint's own name of what the model calls `name`, a tensor or a module.
  std::string ownName(const std::string &name) const;

private:
  /// The format of a tensor that is a weight in fewer bits; empty for others.
  std::string quantizedFormat(const SafetensorsTensor &tensor) const;

  /// Whether a tensor, or one in fewer bits, has this name in the checkpoint.
  bool isStored(const std::string &own) const;
  /// Notes where a weight is that is stored in fewer bits; `tensor` is described as one in a file that is not there.
  void takeQuantized(const QuantizedTensor &quantized, StoredTensor &tensor);

  std::string folder;
  std::shared_ptr<const SafetensorsCollection> files;
  QuantizedMatrices matrices;
  std::string base, prefix, headPrefix; ///< `base` of names becomes `prefix`; other names get `headPrefix`
  std::vector<std::pair<std::string, std::string>> renamed;
  std::vector<std::string> missing;
  std::vector<QuantizedTensor> inFewerBits;
  uint64_t fresh = 0; ///< bytes described so far
};

} // namespace ztc::huggingface
