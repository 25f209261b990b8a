// One of ONNX's node tests: a graph of one or a few nodes, with inputs and the outputs that it must give.
#pragma once
#include "frontends/onnx/HostTensor.h"
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ztc::test {

/// The graph with its inputs bound in one of two ways, read by the importer's own reader.
struct BoundModel {
  std::unique_ptr<importer::Model> model;
  std::vector<importer::TensorRef> inputs; ///< of the graph inputs that are left, in order
};

/// What is known: all inputs; those that are not floats; those that are neither floats nor indices, targets, masks.
enum class Known { All, Integers, Settings };

class NodeCase {
public:
  /// Reads the model and its first data set; none where a type is not a dense tensor of numbers or booleans that ztc
  /// reads.
  static std::optional<NodeCase> load(const std::filesystem::path &folder);

  const std::set<std::string> &ops() const { return signatures; }
  /// Whether any input is data when so much is known.
  bool hasData(Known known) const;
  /// Outputs of graph outputs, in order; null where the data set has none.
  const std::vector<importer::TensorRef> &expected() const { return outputs; }
  /// What is known becomes an initializer. `scratch`: a file that may be overwritten.
  BoundModel bind(Known known, const std::filesystem::path &scratch, std::string &error) const;

private:
  std::string modelBytes;
  std::vector<std::string> inputNames, inputBytes; ///< serialised TensorProtos
  bool isData(size_t input, Known known) const {
    return known != Known::All && (isFloat[input] || (known == Known::Settings && isIndex[input]));
  }
  std::vector<bool> isFloat, isIndex;
  std::vector<importer::TensorRef> inputValues, outputs;
  std::set<std::string> signatures;
};

} // namespace ztc::test
