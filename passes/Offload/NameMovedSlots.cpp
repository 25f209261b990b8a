#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/IR/SymbolTable.h"
#include "passes/Offload/Events.h"
#include "passes/Offload/Passes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

#define DEBUG_TYPE "ztc-name-moved-slots"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_NAMEMOVEDSLOTS
#include "passes/Offload/Passes.h.inc"

namespace {
using plan_ir::Access;

/// Moves of one program are numbered; a wait of the computation for one of them waits for all before it.
class MovedSlotNamer {
public:
  explicit MovedSlotNamer(ModuleOp module) : symbols(module) {}

  void run(plan_ir::ProgramOp program) {
    uint64_t given = 0, joined = 0;
    llvm::DenseMap<int64_t, uint64_t> events;    ///< the moves before it
    llvm::MapVector<StringAttr, uint64_t> moved; ///< by slot of the device: its last move
    for (Operation &op : program.getBody().front()) {
      if (auto move = dyn_cast<plan_ir::MoveOp>(op)) {
        ++given;
        for (auto operand : move.getSlots().getAsRange<plan_ir::OperandAttr>())
          if (isOnDevice(operand.getSlot()))
            moved[operand.getSlot().getAttr()] = given;
      }
      if (auto record = dyn_cast<plan_ir::RecordOp>(op); record && int64_t(record.getStream()) == kMoveStream)
        events[int64_t(record.getEvent())] = given;
      auto wait = dyn_cast<plan_ir::WaitOp>(op);
      if (!wait || wait.getStream() != 0 || !events.contains(int64_t(wait.getEvent())))
        continue;
      const uint64_t done = events[int64_t(wait.getEvent())];
      if (done <= joined)
        continue;
      name(wait, moved, joined, done);
      joined = done;
    }
  }

private:
  bool isOnDevice(FlatSymbolRefAttr name) {
    auto slot = symbols.lookup<plan_ir::SlotOp>(name.getAttr());
    return slot && slot.getSpace() == plan_ir::Space::Device;
  }

  void name(plan_ir::WaitOp wait, const llvm::MapVector<StringAttr, uint64_t> &moved, uint64_t joined, uint64_t done) {
    SmallVector<Attribute> slots(wait.getSlots().getValue());
    for (const auto &[slot, last] : moved)
      if (last > joined && last <= done && llvm::none_of(slots, [slot = slot](Attribute named) {
            return cast<plan_ir::OperandAttr>(named).getSlot().getAttr() == slot;
          }))
        slots.push_back(MoveWriter::operand(wait.getContext(), Access::ReadWrite, FlatSymbolRefAttr::get(slot)));
    wait.setSlotsAttr(ArrayAttr::get(wait.getContext(), slots));
  }

  SymbolTable symbols;
};

struct NameMovedSlots : impl::NameMovedSlotsBase<NameMovedSlots> {
  void runOnOperation() override {
    MovedSlotNamer namer(getOperation());
    for (auto program : getOperation().getOps<plan_ir::ProgramOp>())
      namer.run(program);
  }
};
} // namespace
} // namespace ztc
