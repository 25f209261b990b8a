// What tests call the values of a step, whatever phase it is in.
#pragma once
#include "compiler/Dialect/Graph/Roles.h"

namespace ztc::test {

/// What an argument is (its role, of a bucket that of its parameters, of a state the state's name), and the parameter
/// that it belongs to.
inline std::string argumentKey(mlir::func::FuncOp function, unsigned index) {
  const llvm::StringRef name = graph::argString(function, index, graph::kName);
  return (graph::argumentKind(function, index) + (name.empty() ? "" : " " + name)).str();
}
/// The same of a result.
inline std::string resultKey(mlir::func::FuncOp function, unsigned index) {
  auto name = function.getResultAttrOfType<mlir::StringAttr>(index, graph::kName);
  return (graph::resultKind(function, index) + (name ? " " + name.getValue() : "")).str();
}

} // namespace ztc::test
