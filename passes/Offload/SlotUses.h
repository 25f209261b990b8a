// Which steps name which slots, for passes that move slots below the device.
#pragma once
#include "compiler/Dialect/Plan/Plan.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace ztc {

/// By slot the steps of all programs that name it, in order, each once.
using SlotUses = llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<mlir::Operation *>>;
SlotUses slotUses(mlir::ModuleOp module);

/// By slot those that may have its storage: at one rank, or while micro-steps accumulate.
using SlotSharers = llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<plan_ir::SlotOp>>;
SlotSharers slotSharers(mlir::ModuleOp module);

/// The slots that a module has now, by name.
using SlotsByName = llvm::DenseMap<mlir::StringAttr, plan_ir::SlotOp>;
SlotsByName slotsByName(mlir::ModuleOp module);

/// Names slot `to` where a step names `from`; null: it names neither.
void replaceSlot(plan_ir::StepOpInterface step, mlir::StringAttr from, mlir::FlatSymbolRefAttr to);

} // namespace ztc
