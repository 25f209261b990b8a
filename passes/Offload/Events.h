// Steps that tie streams to one another.
#pragma once
#include "compiler/Dialect/Plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"

namespace ztc {

/// The stream of moves.
inline constexpr int64_t kMoveStream = 2;

/// Writes records, waits and moves at the builder's place, with events that the module does not have yet.
class MoveWriter {
public:
  MoveWriter(mlir::ModuleOp module, mlir::OpBuilder &builder);

  /// A mark of what `stream` was given so far; its event.
  int64_t record(int64_t stream, int64_t layer, const llvm::Twine &label);
  /// `slots`: operands that were in use until then.
  void wait(int64_t stream, int64_t event, int64_t layer, const llvm::Twine &label,
            llvm::ArrayRef<mlir::Attribute> slots);
  /// The stream of moves comes behind everything that was computed so far.
  void joinComputation(int64_t layer, const llvm::Twine &label);
  /// `slots`: pairs of from and to.
  void move(int64_t layer, const llvm::Twine &label, llvm::ArrayRef<mlir::Attribute> slots);

  static mlir::Attribute operand(mlir::MLIRContext *context, plan_ir::Access access, mlir::FlatSymbolRefAttr slot,
                                 bool ownShard = false, uint64_t piece = 0, uint64_t pieceElements = 0);

private:
  template <typename Step>
  typename Step::Properties begin(int64_t stream, int64_t layer, const llvm::Twine &label, llvm::StringRef reason,
                                  llvm::ArrayRef<mlir::Attribute> slots);
  mlir::OpBuilder &builder;
  mlir::Location loc;
  int64_t nextEvent = 0;
};

} // namespace ztc
