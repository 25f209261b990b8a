// Holds nodes against the schemas of their operators: what comes after it may rely on counts, attributes and types.
#pragma once
#include "frontends/onnx/Schemas.h"

namespace ztc::importer {

/// What is wrong with the number of a node's inputs and outputs or with its attributes; empty where nothing is.
std::string findFormProblem(const Node &node, const OperatorSchema &schema);

/// What is wrong with the element types of a node's inputs; Undefined ones are not known and fit. Empty where nothing
/// is. `outputs`, where given, gets the types that follow for the outputs, Undefined where none does.
std::string findTypeProblem(const Node &node, const OperatorSchema &schema, llvm::ArrayRef<ElementType> inputs,
                            llvm::SmallVectorImpl<ElementType> *outputs = nullptr);

/// Holds every node against its schema, types as far as they follow from inputs and initializers. False with one
/// sentence, which names the node, at the first violation. What is harmless goes to `model.notes`.
bool checkNodes(Model &model, std::string &error);

} // namespace ztc::importer
