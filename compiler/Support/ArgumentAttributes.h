// Attributes of a function's arguments, stored all at once.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ztc {

/// Collects what the arguments of a function are marked with. FuncOp::setArgAttr makes a new list for all arguments
/// each time, and MLIR keeps every one of them: for the thousands of parameters of a mixture of experts that is the
/// square of their number, in time and in memory.
class ArgumentAttributes {
public:
  explicit ArgumentAttributes(mlir::func::FuncOp function) : function(function) { function.getAllArgAttrs(all); }

  /// The function does not know of it before store().
  void set(unsigned index, llvm::StringRef name, mlir::Attribute value) {
    mlir::NamedAttrList entries(all[index]);
    entries.set(name, value);
    all[index] = entries.getDictionary(function.getContext());
    isChanged = true;
  }
  void store() {
    if (isChanged)
      function.setAllArgAttrs(all);
    isChanged = false;
  }

private:
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::DictionaryAttr> all;
  bool isChanged = false;
};

} // namespace ztc
