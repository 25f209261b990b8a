// Names of the matrices whose scales are those of the step before: what a checkpoint knows them by.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <string>

namespace ztc {

/// A matrix is named by the parameters that it is multiplied with, and whether it is what their layers read or the
/// cotangent of what they give: `layers.0.q_proj.weight.input`, `layers.0.q_proj.weight.cotangent`. One that several
/// layers share, or that is made of their matrices side by side, has a name of each, so that a plan in which they are
/// multiplied apart knows it too. Where a parameter has several such matrices (its layer is used twice) the names of
/// those after the first end with `.2`, `.3`, in the order of the step.
class ScaledMatrices {
public:
  explicit ScaledMatrices(mlir::func::FuncOp microstep) : function(microstep) {}

  /// `matrix` is multiplied with what `weight`, a parameter or a part of a bucket, holds.
  void addReader(mlir::Value matrix, bool isCotangent, mlir::Value weight);
  /// The product of an input and a cotangent is a weight's gradient: who has no name by then has those that the layers
  /// of the other give it.
  void addGradient(mlir::Value a, bool aIsCotangent, mlir::Value b, bool bIsCotangent);
  /// In the order in which they were first read; none of a matrix that no parameter is multiplied with.
  mlir::ArrayAttr namesOf(mlir::Value matrix);

private:
  struct Entry {
    llvm::SmallVector<std::string> parameters;
    llvm::SmallVector<std::string> names;
  };
  llvm::SmallVector<std::string> parametersOf(mlir::Value weight);
  void add(mlir::Value matrix, bool isCotangent, llvm::ArrayRef<std::string> parameters);

  mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Value, Entry> entries;
  llvm::StringMap<unsigned> uses; ///< matrices that have a name, by its beginning
};

} // namespace ztc
