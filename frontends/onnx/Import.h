// Reads a forward ONNX graph of a language model into the graph dialect.
#pragma once
#include "frontends/onnx/WeightRules.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <map>
#include <string>
#include <vector>

namespace ztc {

namespace importer {
struct WriteBack;
} // namespace importer

struct ImportOptions {
  uint64_t batch = 0;                           ///< 0: the graph's own, or 1
  uint64_t seq = 0;                             ///< 0: the graph's own, or the smaller of the position limit and 2048
  uint64_t evaluationBytes = uint64_t(4) << 30; ///< what evaluating the graph's constants may take at a time
  uint64_t evaluationOperations = uint64_t(1) << 33; ///< elements and products: some tens of seconds
  std::string weights; ///< Hugging Face folder, safetensors file or its index; empty: what the ONNX file holds or names
  /// "ROLE=NAME" each: which input (or output, for the role logits) is what, where the graph does not prove it.
  std::vector<std::string> inputRoles;
  std::string message; ///< the model itself, where another frontend built it: `path` then only names it and its folder
  std::string name;    ///< of such a model
  int64_t positionLimit = 0; ///< of such a model; 0: as config.json says
  std::string paddingToken;  ///< the embedding's row whose lookups get no gradient: a token, "none"; empty: as recorded
  std::string freeze;        ///< regular expression over names of tensors that are not trained: these may stay unread
  importer::WeightRules weightRules;        ///< for tests
  importer::WriteBack *writeBack = nullptr; ///< filled where it is given: how the file's tensors follow from `weights`
};

/// What `ztc check` tells about an import; filled as far as it got.
struct ImportReport {
  std::string model;    ///< file name
  std::string producer; ///< how the graph was exported, as far as it shows
  int64_t opset = 0;
  int64_t batch = 0, seq = 0; ///< as bound
  bool isSymbolic = false;    ///< batch and sequence were free
  int64_t positionLimit = 0;  ///< config.json's, else that of the graph's tables; 0: unknown
  int64_t layers = 0, vocabulary = 0;
  std::map<std::string, unsigned> onnxOps;  ///< nodes by op
  unsigned evaluatedNodes = 0;              ///< nodes that do not depend on data
  bool freezesUnread = false;               ///< `freeze` matches a tensor that nothing in the graph reads
  bool freezesParameters = false;           ///< then: it matches a parameter too
  std::map<std::string, unsigned> idioms;   ///< macro ops raised, by name
  std::map<std::string, unsigned> graphOps; ///< ops of @forward by name
  std::vector<std::string> masks;           ///< each kind of mask once: "causal"
  /// An input or output of the graph, and what became of it.
  struct Port {
    std::string name;
    std::string role; ///< "tokens", "attention mask", "positions", "past", "labels", "logits", "loss", "present", ...
    std::string binding; ///< in words: "rows of the data", "ones", "0 to S - 1", "length 0", "not used"
    std::string proof; ///< how the role is known where that is not plain: "by its use as ...", "--input"; may be empty
  };
  std::vector<Port> inputs, outputs; ///< in the graph's order
  struct Weight {
    std::string name; ///< checkpoint name
    std::vector<int64_t> shape;
    std::string onnxName; ///< the initializer
    std::vector<std::string> tied;
    std::string source;      ///< file, or "" where its bytes are not known
    bool transposed = false; ///< the source holds the transpose
    /// What else lies between the source and the parameter, one each: "1 + w folded into the norm weight: trained and
    /// exported as w", "rows 0 to 63 of qkv_proj", "scaled by 0.125, proven by value".
    std::vector<std::string> transformations;
  };
  std::vector<Weight> weights;
  /// Where ONNX weights were held against a checkpoint: the verdict in a sentence ("the same checkpoint: 56 of 57
  /// tensors agree ...", "another checkpoint: ..."); else empty.
  std::string comparison;
  /// A row of an embedding whose lookups get no gradient.
  struct PaddingRow {
    std::string table; ///< checkpoint name
    int64_t token;
    std::string reason; ///< what says so: "the exporter's metadata", "pad_token_id of config.json", "--padding-token"
  };
  std::vector<PaddingRow> paddingRows;
  /// Macro ops of each transformer block with what tells them apart ("attention causal, 8 heads of 64, 2 shared"), and
  /// how often; -1: what lies in no block.
  std::map<int64_t, std::map<std::string, unsigned>> layerIdioms;
  std::vector<std::string> unsupported; ///< "Op at node", each once
  std::vector<std::string> notes;       ///< what a user may want to know
};

/// Produces a module with @forward, see RationaleGraph.md. Errors are diagnostics of `context`.
llvm::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
                                                              const ImportOptions &options, ImportReport &report);

} // namespace ztc
