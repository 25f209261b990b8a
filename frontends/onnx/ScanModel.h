// The tensors and nodes of an ONNX file as they stand in it, by the wire format.
#pragma once
#include "frontends/onnx/Model.h"
#include "llvm/ADT/StringSet.h"

namespace ztc::importer {

/// A tensor of the main graph: an initializer, or the value of a Constant node.
struct FileTensor {
  std::string name;
  ElementType type = ElementType::Undefined;
  Shape shape;
  bool isExternal = false, isConstant = false; ///< isConstant: of a Constant node
  std::string location;
  uint64_t offset = 0;
  uint64_t bytes() const;
};

struct FileScan {
  std::vector<FileTensor> tensors; ///< in the file's order
  llvm::StringMap<size_t> tensorOf;
  llvm::StringMap<std::vector<std::string>> inputsOf; ///< of each node, by its first output
  llvm::StringSet<> values;                           ///< all names that something of the graph has
};

/// False where the bytes do not make an ONNX model.
bool scanModel(llvm::StringRef file, FileScan &scan);

/// One message of a tensor; its name is left as the message has it.
bool scanTensor(llvm::StringRef message, FileTensor &tensor);

} // namespace ztc::importer
