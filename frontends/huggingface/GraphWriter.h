// Writes an ONNX model node by node. Nothing of the ONNX library shows here: the files that describe models are
// compiled without exceptions.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ztc::huggingface {

/// An attribute of a node.
struct NodeAttribute {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>> value;
};

/// A tensor of the checkpoint, where its bytes are.
struct StoredTensor {
  std::string name;             ///< as the checkpoint calls it
  std::string typeName = "F32"; ///< as safetensors calls it
  std::vector<int64_t> shape;
  std::string file; ///< relative to the folder
  uint64_t offset = 0, bytes = 0;
};

/// A graph under construction; values are called by name.
class GraphWriter {
public:
  using Value = std::string;

  GraphWriter(std::string producer, std::string graphName);
  ~GraphWriter();

  void addTokens(const std::string &name); ///< (batch, sequence) int64
  void addLogits(const Value &value, int64_t vocabulary);
  /// An initializer whose elements stay in the checkpoint; its name is the checkpoint's. One that is not trained is
  /// loaded as others are.
  void addParameter(const StoredTensor &tensor, bool isTrained = true);

  /// Nodes that follow are named after this module path: "model.layers.0.self_attn.q_proj".
  void setScope(std::string path) { scope = std::move(path); }

  /// What 16-bit plans do with the nodes that follow.
  enum class Width {
    Policy,     ///< as with any node
    Wide,       ///< results are f32 and are not rounded
    Parameters, ///< so are the parameters that they read
  };
  void setWidth(Width width) { this->width = width; }

  /// No gradient goes through the nodes that follow.
  void setDetached(bool detached) { isDetached = detached; }

  Value add(std::string_view op, std::vector<Value> inputs, const std::vector<NodeAttribute> &attributes = {});
  std::vector<Value> addMany(std::string_view op, std::vector<Value> inputs, unsigned outputs,
                             const std::vector<NodeAttribute> &attributes = {});
  /// Adds to the last node what PyTorch's exporter would have noted of the call that it came from.
  void noteCall(const std::string &text);

  Value scalar(float value);
  Value integer(int64_t value); ///< rank 0
  Value integers(const std::vector<int64_t> &values);
  Value floats(const std::vector<float> &values, const std::vector<int64_t> &shape);

  /// The message; empty where it cannot be written. `filePrefix` goes before the files of the parameters.
  std::string serialise(const std::string &filePrefix = "") const;

private:
  Value nameOf(std::string_view op);
  struct State;
  std::unique_ptr<State> state;
  std::string scope;
  Width width = Width::Policy;
  bool isDetached = false;
  uint64_t count = 0;
};

/// The name by which PyTorch's exporter would know a parameter: "p_lm_head_weight".
std::string exportedName(const std::string &parameter);

} // namespace ztc::huggingface
