// Reads a forward ONNX graph of a language model into the graph dialect.
#pragma once
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <map>
#include <string>
#include <vector>

namespace ztc {

struct ImportOptions {
  uint64_t batch = 0;  ///< 0: the graph's own, or 1
  uint64_t seq = 0;    ///< 0: the graph's own, or the smaller of the position limit and 2048
  std::string weights; ///< Hugging Face folder, safetensors file or its index; empty: what the ONNX file holds or names
};

/// What `ztc check` tells about an import; filled as far as it got.
struct ImportReport {
  std::string model;    ///< file name
  std::string producer; ///< how the graph was exported, as far as it shows
  int64_t opset = 0;
  int64_t batch = 0, seq = 0; ///< as bound
  bool isSymbolic = false;    ///< batch and sequence were free
  int64_t positionLimit = 0;  ///< 0: unknown
  int64_t layers = 0, vocabulary = 0;
  std::map<std::string, unsigned> onnxOps;  ///< nodes by op
  unsigned evaluatedNodes = 0;              ///< nodes that do not depend on data
  std::map<std::string, unsigned> idioms;   ///< macro ops raised, by name
  std::map<std::string, unsigned> graphOps; ///< ops of @forward by name
  std::vector<std::string> masks;           ///< each kind of mask once: "causal"
  struct Weight {
    std::string name; ///< checkpoint name
    std::vector<int64_t> shape;
    std::string onnxName; ///< the initializer
    std::vector<std::string> tied;
    std::string source;      ///< file, or "" where its bytes are not known
    bool transposed = false; ///< the source holds the transpose
  };
  std::vector<Weight> weights;
  std::vector<std::string> unsupported; ///< "Op at node", each once
  std::vector<std::string> notes;       ///< what a user may want to know
};

/// Produces a module with @forward, see RationaleGraph.md. Errors are diagnostics of `context`.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
                                                              const ImportOptions &options, ImportReport &report);

} // namespace ztc
