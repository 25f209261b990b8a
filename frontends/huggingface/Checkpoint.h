// The tensors of a Hugging Face folder by the names that a model gives them.
#pragma once
#include "frontends/huggingface/GraphWriter.h"
#include "runtime/Core/Status.h"
#include "runtime/Format/Safetensors.h"
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ztc::huggingface {

/// A weight that bitsandbytes has quantised, where its codes are.
struct QuantizedTensor {
  std::string name, format; ///< nf4 or int8
  std::string path;         ///< of the file
  std::vector<int64_t> shape;
  uint64_t offset = 0, bytes = 0;
};

/// Finds tensors, or describes those of a folder without weights.
class Checkpoint {
public:
  /// Opens the safetensors of a folder; a folder without any is not an error.
  static StatusOr<Checkpoint> open(const std::string &folder);

  bool hasWeights() const { return files.has_value(); }
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

  std::string folder;
  std::optional<SafetensorsCollection> files;
  std::string base, prefix, headPrefix; ///< `base` of names becomes `prefix`; other names get `headPrefix`
  std::vector<std::pair<std::string, std::string>> renamed;
  std::vector<std::string> missing;
  std::vector<QuantizedTensor> inFewerBits;
  uint64_t fresh = 0; ///< bytes described so far
};

} // namespace ztc::huggingface
