// What the passes of memory spaces share: what lies where, moves, and what ties these to the computation.
#pragma once
#include "compiler/Analysis/OffloadChoice.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"

namespace ztc {

/// The stream of moves.
inline constexpr int64_t kMoveStream = 2;

/// The program that updates parameters: @update, or where updates are in the backward @microstep. Null where there is
/// neither.
plan_ir::ProgramOp updatingProgram(mlir::ModuleOp module);

/// The first of the steps that begin a collective: the record of the computation and the wait before it.
mlir::Operation *startOfCollective(plan_ir::CollectiveOp collective);

/// Where the slots of the bucket or block number `index` lie, of those that have such slots.
plan_ir::Space spaceOf(OffloadChoice::Share share, size_t index);
/// Reads the option of a pass that says what lies below; fails after a message that names the form expected.
mlir::FailureOr<OffloadChoice> readChoice(mlir::ModuleOp module, llvm::StringRef text, llvm::StringRef form);

/// Writes records, waits and moves at the builder's place, with events that the module does not have yet.
class MoveWriter {
public:
  MoveWriter(mlir::ModuleOp module, mlir::OpBuilder &builder);

  /// A mark of what `stream` was given so far; its event.
  int64_t record(int64_t stream, int64_t layer, const llvm::Twine &label);
  /// `slots`: operands that were in use until then.
  void wait(int64_t stream, int64_t event, int64_t layer, const llvm::Twine &label,
            llvm::ArrayRef<mlir::Attribute> slots);
  /// The stream of moves follows everything that was computed so far.
  void joinComputation(int64_t layer, const llvm::Twine &label);
  /// `slots`: pairs of from and to.
  void move(int64_t layer, const llvm::Twine &label, llvm::ArrayRef<mlir::Attribute> slots);

  static mlir::Attribute operand(mlir::MLIRContext *context, plan_ir::Access access, mlir::FlatSymbolRefAttr slot,
                                 bool ownShard = false, uint64_t piece = 0, uint64_t pieceElements = 0);

private:
  template <typename Step>
  Step::Properties begin(int64_t stream, int64_t layer, const llvm::Twine &label, llvm::StringRef reason,
                         llvm::ArrayRef<mlir::Attribute> slots);
  mlir::OpBuilder &builder;
  mlir::Location loc;
  int64_t nextEvent = 0;
};

} // namespace ztc
