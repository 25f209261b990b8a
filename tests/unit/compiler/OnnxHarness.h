// What the tests of the ONNX frontend share: models written in memory, imports with their messages, logits by the
// interpreter.
#pragma once
#include "compiler/Reference/Interpreter.h"
#include "frontends/onnx/Import.h"
#include "frontends/onnx/Model.h"
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ztc::test {

/// Writes ONNX models in the protobuf wire format: the tests need no ONNX library, and can write what it would refuse.
class OnnxWriter {
public:
  using Dimension = std::variant<int64_t, std::string>;
  /// A GraphProto.
  struct Graph {
    std::string bytes;
  };
  using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>, Graph>;

  explicit OnnxWriter(int64_t opset = 18);
  void input(const std::string &name, importer::ElementType type, const std::vector<Dimension> &shape);
  void output(const std::string &name, importer::ElementType type, const std::vector<Dimension> &shape);
  void floats(const std::string &name, const std::vector<int64_t> &shape, const std::vector<float> &values);
  void integers(const std::string &name, const std::vector<int64_t> &shape, const std::vector<int64_t> &values);
  void booleans(const std::string &name, const std::vector<int64_t> &shape, const std::vector<bool> &values);
  /// A float tensor in another file.
  void external(const std::string &name, const std::vector<int64_t> &shape, const std::string &location,
                int64_t offset);
  /// `op`: "Add", or "com.microsoft::BiasGelu" of another domain. `scope`: the module path that dynamo would leave in
  /// the node's metadata; `fx`: dynamo's text of the node.
  void node(const std::string &op, const std::vector<std::string> &inputs, const std::vector<std::string> &outputs,
            const std::vector<std::pair<std::string, Attribute>> &attributes = {}, const std::string &scope = "",
            const std::string &name = "", const std::string &fx = "");
  /// dynamo's signature: the names of the exported module's parameters.
  void signature(const std::vector<std::string> &parameters);
  std::string bytes() const;
  /// The same as a branch of an `If`.
  Graph asGraph() const;

private:
  void tensor(const std::string &name, const std::vector<int64_t> &shape, importer::ElementType type,
              const std::string &raw);
  void value(unsigned field, const std::string &name, importer::ElementType type, const std::vector<Dimension> &shape);
  int64_t opset;
  std::string graph;
  unsigned nodes = 0;
};

/// A folder that is removed with its contents.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string write(const std::string &name, const std::string &bytes) const;
  std::filesystem::path path;
};

/// One import: the module or null, the report, and the errors as text.
struct Imported {
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ImportReport report;
  std::string errors;
  unsigned errorCount = 0;

  mlir::func::FuncOp forward() { return module ? module->lookupSymbol<mlir::func::FuncOp>("forward") : nullptr; }
  unsigned count(const std::string &op) const {
    auto found = report.graphOps.find(op);
    return found == report.graphOps.end() ? 0 : found->second;
  }
  /// Index of the argument of this name, or -1.
  int argument(const std::string &name);
};
Imported import(const std::string &path, const ImportOptions &options = {});

/// The bytes that graph.source names, as a tensor in the argument's orientation.
std::optional<Tensor> loadParameter(mlir::func::FuncOp function, unsigned index);
/// The logits of @forward on `tokens`, parameters from their sources; none after a failure.
std::optional<Tensor> forwardLogits(Imported &imported, const std::vector<int64_t> &tokens,
                                    Precision precision = Precision::F32);
/// A tensor of a safetensors file.
std::optional<Tensor> readTensor(const std::string &file, const std::string &name, mlir::MLIRContext &context);

} // namespace ztc::test
