// An ONNX model as plain data: what the other files of this folder read instead of the ONNX library's messages.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ztc {
class MappedFile;
} // namespace ztc

namespace ztc::importer {

/// ONNX's own numbers of element types (TensorProto.DataType).
enum class ElementType : int {
  Undefined = 0,
  F32 = 1,
  U8 = 2,
  I8 = 3,
  U16 = 4,
  I16 = 5,
  I32 = 6,
  I64 = 7,
  String = 8,
  Bool = 9,
  F16 = 10,
  F64 = 11,
  U32 = 12,
  U64 = 13,
  C64 = 14,
  C128 = 15,
  BF16 = 16,
  F8E4M3 = 17, ///< FLOAT8E4M3FN
  F8E5M2 = 19,
  U4 = 21, ///< two elements a byte, the low half first
  I4 = 22,
};

/// Bytes of one element; 0 for types that ztc does not compute with.
unsigned elementBytes(ElementType type);
/// Bits of one element of these types, and of those of codes (QuantizedValues); 0 for types that ztc does not read.
unsigned elementBits(ElementType type);
bool isFloat(ElementType type);
/// The name that safetensors uses: F32, BF16, I64, BOOL, ...
llvm::StringRef elementName(ElementType type);

using Shape = llvm::SmallVector<int64_t, 6>;

/// Where the file has elements of an initializer that a rewrite of the graph made: in another of its tensors.
struct FilePlace {
  /// What the initializer and `tensor` have in common.
  enum class Kind {
    Columns,
    Rows,
    Whole,
    Joint, ///< `tensor` was computed from this initializer and others together
  } kind = Kind::Whole;
  std::string tensor; ///< in the file
  /// Columns: the initializer is these columns of `tensor`, from this one on. Rows: rows of the initializer, from this
  /// one on, are `tensor`.
  int64_t first = 0;
  Shape spread; ///< Rows, Whole: what is taken in these dimensions, repeated along those of size 1, is `tensor`
  /// Of the initializer's elements, before any are taken: where `tensor` has what an exporter computed from them.
  std::function<std::vector<float>(std::vector<float>)> function;
  /// Who reads `tensor` as a value of this initializer, where not all do: a node's first output, and the number of the
  /// input.
  std::vector<std::pair<std::string, unsigned>> readers = {};
};

struct QuantizedValues;

/// A named constant of the graph: an initializer, or the value of a Constant node.
struct Initializer {
  std::string name;
  ElementType type = ElementType::Undefined;
  Shape shape;
  llvm::StringRef bytes;      ///< little-endian elements, as they stand in the ONNX file; owned by the model
  bool hasFileOffset = false; ///< the elements stand in the ONNX file itself, at `fileOffset`
  uint64_t fileOffset = 0;
  bool isExternal = false; ///< the elements are in another file: `location`, relative to the model's folder
  std::string location;
  uint64_t offset = 0, length = 0;
  bool isInFile = true;              ///< the file has a tensor of this name
  bool isRestored = false;           ///< a parameter that the exporter had folded, under the checkpoint's name for it
  bool holdsTranspose = false;       ///< of the matrix that its name stands for in a checkpoint
  std::string fileName;              ///< what the file calls it, where a rewrite gave it another name
  std::vector<FilePlace> filePlaces; ///< tensors of the file that have its elements too, or instead of one of its name
  std::shared_ptr<const QuantizedValues> quantized; ///< what its elements are made of; null: they are in the file

  int64_t count() const;
  const std::string &nameInFile() const { return fileName.empty() ? name : fileName; }
};

/// A matrix in fewer bits: element = (code - zero) * scale. QuantizedPieces.h of the runtime makes numbers of it.
struct QuantizedValues {
  Initializer codes, scales, zeros; ///< zeros has no name where there are none
  unsigned bits = 4;                ///< of a code, and of a zero that is an integer
  bool isSigned = false;            ///< codes are two's complement
  int64_t rows = 0, columns = 0;    ///< of the matrix as it is stored
  int64_t rowBytes = 0;
  bool isTransposed = false; ///< the initializer is (columns, rows)
  int64_t blockRows = 1, blockColumns = 1;
  int64_t zeroRowBits = 0; ///< of the zeros of a row of blocks, where they are integers
  int64_t zero = 0;        ///< without zeros

  /// "4 bits in blocks of 32".
  std::string format() const;
};

struct Attribute {
  enum class Kind { Float, Int, String, Tensor, Floats, Ints, Graph, Other } kind = Kind::Other;
  double real = 0;
  int64_t integer = 0;
  std::string text;
  std::vector<double> reals;
  std::vector<int64_t> integers;
  std::shared_ptr<Initializer> tensor;
};

struct Node {
  Node() = default;
  ~Node() = default;
  Node(const Node &) = default;
  Node &operator=(const Node &) = default;
  // StringMap does not say so itself: vectors that grow would copy.
  Node(Node &&) noexcept = default;
  Node &operator=(Node &&) noexcept = default;

  std::string name, op, domain;
  std::vector<std::string> inputs, outputs; ///< an omitted one is ""
  llvm::StringMap<Attribute> attributes;
  std::string scopes; ///< dynamo's list of module paths, outermost first, as text
  std::string fxNode; ///< dynamo's text of the node it came from
  /// What 16-bit plans keep in f32, whatever their policy says: the graphs of frontends/huggingface say it.
  enum class Width { Policy, Wide, Parameters } width = Width::Policy;
  bool isDetached = false; ///< no gradient goes through it, as the graphs of frontends/huggingface say
  std::string signature;   ///< "domain::op", or "op" of the default domain

  int64_t integer(llvm::StringRef attribute, int64_t otherwise) const;
  double real(llvm::StringRef attribute, double otherwise) const;
  std::string text(llvm::StringRef attribute, llvm::StringRef otherwise) const;
  llvm::ArrayRef<int64_t> integers(llvm::StringRef attribute) const;
  bool has(llvm::StringRef attribute) const { return attributes.count(attribute) != 0; }
  bool hasInput(unsigned index) const { return index < inputs.size() && !inputs[index].empty(); }
  /// For messages: the name, or the first output.
  const std::string &label() const { return name.empty() && !outputs.empty() ? outputs[0] : name; }
};

/// An input or output: a dimension is a size (>= 0), or symbolic: -1, with its name in `symbols`.
struct GraphValue {
  std::string name;
  ElementType type = ElementType::Undefined; ///< undefined: no tensor
  bool hasShape = false;                     ///< the file gives a rank
  Shape shape;
  llvm::SmallVector<std::string, 4> symbols;
};

struct OperatorSchema;
class EvaluationBudget;

/// Files beside the model that hold its tensors, each mapped once.
class ExternalFiles {
public:
  explicit ExternalFiles(std::string folder);
  ~ExternalFiles();
  /// The elements of an external initializer; empty, with a sentence in `error`, where the file is not there or too
  /// short.
  llvm::StringRef bytesOf(const Initializer &initializer, std::string &error);

private:
  std::string folder;
  llvm::StringMap<std::unique_ptr<MappedFile>> files; ///< null: cannot be read
};

struct Model {
  std::string path;
  uint64_t fileSize = 0;
  std::string exporter;    ///< name and version
  int64_t opset = 0;       ///< of the default domain
  std::vector<Node> nodes; ///< every input is defined before it is used
  std::vector<GraphValue> inputs, outputs;
  std::deque<Initializer> initializers;
  llvm::StringMap<const Initializer *> initializerOf;
  llvm::StringMap<unsigned> producerOf;          ///< value name -> index of the node
  llvm::StringMap<std::string> parameterTargets; ///< dynamo's graph signature: "p_lm_head_weight" -> "lm_head.weight"
  llvm::StringSet<> frozen; ///< parameters that are not trained, as the graphs of frontends/huggingface say
  llvm::StringMap<std::shared_ptr<const OperatorSchema>> schemas; ///< by signature; null: an operator without one
  std::vector<std::string> notes;                                 ///< what is harmless, but not as it should be
  std::string unspread;                     ///< why rows that masks pick are still as many as data say (PickedRows.h)
  std::shared_ptr<EvaluationBudget> budget; ///< of all evaluations of this model
  std::shared_ptr<const void> storage;      ///< owns what Initializer::bytes points into
  std::shared_ptr<ExternalFiles> externalFiles;
  std::deque<std::string> addedBytes; ///< of initializers that rewrites of the graph add

  const Node *producer(llvm::StringRef value) const {
    auto found = producerOf.find(value);
    return found == producerOf.end() ? nullptr : &nodes[found->second];
  }
  const OperatorSchema *schemaOf(const Node &node) const {
    auto found = schemas.find(node.signature);
    return found == schemas.end() ? nullptr : found->second.get();
  }
  const Initializer *initializer(llvm::StringRef value) const { return initializerOf.lookup(value); }
  /// Fills `producerOf` anew, after a rewrite of `nodes`.
  void indexProducers();
  /// The graph's name of a tensor of a checkpoint: the exporter's signature may have a wrapper's prefix in front of it.
  std::string graphName(llvm::StringRef name) const;
  /// The same, also where the signature has another first component: backbone.layers.0.mixer.D of a checkpoint is
  /// model.layers.0.mixer.D where no other parameter ends so. The name itself where there is none.
  std::string targetOf(llvm::StringRef tensor) const;
  /// The initializer of this name becomes a parameter that the exporter had folded; made, without elements, where there
  /// is none.
  Initializer &addRestored(const std::string &name, ElementType type, llvm::ArrayRef<int64_t> shape);
  /// A new initializer: a number of a float type.
  const Initializer &addReal(const std::string &name, ElementType type, double value);
  /// A new initializer: numbers of a float type.
  const Initializer &addReals(const std::string &name, ElementType type, llvm::ArrayRef<int64_t> shape,
                              llvm::ArrayRef<double> values);
  /// A new initializer: a vector of 64-bit integers.
  const Initializer &addIntegers(const std::string &name, llvm::ArrayRef<int64_t> values);
  /// The elements of an initializer wherever they are; empty, with a sentence in `error`, where they cannot be had.
  llvm::StringRef bytesOf(const Initializer &initializer, std::string &error) const;
  /// Whether both have the same bytes, or codes and scales of the same bytes; true too where neither has any.
  bool haveSameBytes(const Initializer &one, const Initializer &other) const;
};

/// Notes each file of external data that is a link out of the model's folder: a hub's cache looks so, and so does a
/// model that wants to name a file of this machine.
void noteLinks(Model &model);

/// Reads the graph; tensors in other files are described, not loaded; model-local functions are inlined, Constant nodes
/// become initializers; every node fits the schema of its operator. On failure null, with one sentence in `error`.
std::unique_ptr<Model> readModel(const std::string &path, std::string &error);
/// The same of a model in memory; `path` names it in messages, and its folder is where external data lie.
std::unique_ptr<Model> parseModel(std::string bytes, const std::string &path, std::string &error);

/// Where each tensor of GraphProto.initializer has its raw bytes inside a serialised model: name -> (offset, length).
llvm::StringMap<std::pair<uint64_t, uint64_t>> findRawData(llvm::StringRef file);

} // namespace ztc::importer
