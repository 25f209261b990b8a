// Arguments of a function and what they are marked with, stored all at once.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace ztc {

/// Collects what the arguments of a function are marked with, and further ones. FuncOp::setArgAttr makes a new list for
/// all arguments each time, insertArgument a type too, and MLIR keeps every one of them: for the thousands of
/// parameters of a mixture of experts that is the square of their number, in time and in memory.
class ArgumentAttributes {
public:
  explicit ArgumentAttributes(mlir::func::FuncOp function) : function(function) { function.getAllArgAttrs(all); }

  /// As it is now, set here or before; null where there is none.
  mlir::Attribute get(unsigned index, llvm::StringRef name) const {
    return all[index] ? all[index].get(name) : nullptr;
  }

  /// The function does not know of it before store().
  void set(unsigned index, llvm::StringRef name, mlir::Attribute value) {
    mlir::NamedAttrList entries(all[index]);
    entries.set(name, value);
    all[index] = entries.getDictionary(function.getContext());
    isChanged = true;
  }
  void remove(unsigned index, llvm::StringRef name) {
    mlir::NamedAttrList entries(all[index]);
    entries.erase(name);
    all[index] = entries.getDictionary(function.getContext());
    isChanged = true;
  }
  /// An argument after all others; the function's type does not have it before store().
  mlir::BlockArgument append(mlir::Type type, mlir::DictionaryAttr attributes, mlir::Location location) {
    all.push_back(attributes);
    isChanged = true;
    return function.getBody().addArgument(type, location);
  }
  void store() {
    if (!isChanged)
      return;
    mlir::ValueRange arguments = function.getBody().getArguments();
    if (arguments.size() != function.getNumArguments()) {
      function.removeArgAttrsAttr(); // of a number of arguments that no longer fits
      function.setFunctionType(
          mlir::FunctionType::get(function.getContext(), arguments.getTypes(), function.getResultTypes()));
    }
    function.setAllArgAttrs(all);
    isChanged = false;
  }

private:
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::DictionaryAttr> all;
  bool isChanged = false;
};

} // namespace ztc
