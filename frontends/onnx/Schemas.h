// What an operator's inputs, outputs and attributes may be, as plain data: from the ONNX library's schemas, and own
// short ones for operators of onnxruntime that ztc reads.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// A set of element types: bit n stands for TensorProto.DataType n. Bit 0 stands for what is not a tensor (sequences).
using TypeSet = uint32_t;
constexpr TypeSet typeBit(ElementType type) {
  return TypeSet(1) << unsigned(type);
}

/// One operator under the model's opset.
struct OperatorSchema {
  enum class Option { Single, Optional, Variadic };
  struct Formal {
    std::string name;
    Option option = Option::Single;
    TypeSet types = 0;
    int variable = -1; ///< formals that share a type variable have one type; -1: the type is bound to nothing
  };
  struct AttributeRule {
    Attribute::Kind kind = Attribute::Kind::Other;
    bool required = false;
  };
  unsigned minInputs = 0, maxInputs = 0, minOutputs = 0, maxOutputs = 0;
  std::vector<Formal> inputs, outputs;
  llvm::StringMap<AttributeRule> attributes;

  /// The formal of an actual input or output; null beyond the last one of an operator that is not variadic.
  static const Formal *formalOf(const std::vector<Formal> &formals, size_t index) {
    if (index < formals.size())
      return &formals[index];
    return !formals.empty() && formals.back().option == Option::Variadic ? &formals.back() : nullptr;
  }
};

/// Describes each operator of the model that has a schema in `model.schemas`, by signature. Fails with a sentence where
/// an opset of the model is one that ztc does not know.
bool loadSchemas(Model &model, llvm::ArrayRef<std::pair<std::string, int64_t>> opsets, std::string &error);

} // namespace ztc::importer
