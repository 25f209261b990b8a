// Idioms of exporters become macro ops. Each file holds one idiom; each match is a proof, what does not match stays as
// it is.
#pragma once
#include "frontends/onnx/Build.h"
#include <map>
#include <string>

namespace ztc::importer {

/// Runs all idioms on @forward; `counts` gets how often each was found.
void raiseIdioms(mlir::func::FuncOp function, std::map<std::string, unsigned> &counts);

// Each gives the number of matches.
unsigned foldTransposes(mlir::func::FuncOp function); ///< into products, and against each other
unsigned raiseRmsNorm(mlir::func::FuncOp function);
unsigned raiseSwiglu(mlir::func::FuncOp function);
unsigned raiseRope(mlir::func::FuncOp function);
unsigned raiseAttention(mlir::func::FuncOp function);
unsigned flattenRows(mlir::func::FuncOp function); ///< (B, S, H) pointwise code to (T, H)

/// Erases what nothing uses.
void eraseDead(mlir::func::FuncOp function);

/// Calls `visit` for the ops of one kind in program order; they may be replaced meanwhile.
template <typename OpTy, typename Visit> unsigned forEachOp(mlir::func::FuncOp function, Visit &&visit) {
  llvm::SmallVector<OpTy> ops(function.getBody().front().getOps<OpTy>());
  unsigned matches = 0;
  for (OpTy op : ops) {
    mlir::OpBuilder builder(op);
    if (mlir::Value replacement = visit(builder, op)) {
      op.getResult().replaceAllUsesWith(replacement);
      op.erase();
      ++matches;
    }
  }
  return matches;
}

/// Both orders of a commutative op's operands: true where `match(first, second)` is for one of them.
template <typename OpTy, typename Match> bool eitherOrder(OpTy op, Match &&match) {
  return match(op.getA(), op.getB()) || match(op.getB(), op.getA());
}

} // namespace ztc::importer
