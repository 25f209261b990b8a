#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/IR/Remarks.h"
#include "passes/Placement/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

#define DEBUG_TYPE "ztc-round-in-products"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_ROUNDINPRODUCTS
#include "passes/Placement/Passes.h.inc"

namespace {
using plan_ir::Access;
using plan_ir::Accumulate;

constexpr uint64_t kWideBytes = 4;

/// A step that writes to a bucket's gradient in f32: which operand that is, and the bytes of the bucket that it has.
struct GradientWriter {
  plan_ir::StepOpInterface step;
  unsigned index = 0;
  uint64_t begin = 0, bytes = 0;

  uint64_t end() const { return begin + bytes; }
};

plan_ir::OperandAttr operandOf(plan_ir::StepOpInterface step, unsigned index) {
  return cast<plan_ir::OperandAttr>(step.getStepSlots()[index]);
}

/// The type of 16 bits to which a step rounds f32, from its first operand to its second; null for any other step.
Type roundedType(plan_ir::StepOpInterface step) {
  const auto from = step->getAttrOfType<TypeAttr>("from"), to = step->getAttrOfType<TypeAttr>("to");
  const bool rounds = from && to && step.getStepSlots().size() == 2 && from.getValue().isF32() &&
                      to.getValue().isIntOrFloat() && to.getValue().getIntOrFloatBitWidth() == 16;
  return rounds ? to.getValue() : Type();
}

bool isWholeSlot(plan_ir::OperandAttr operand) {
  return operand.getOffset() == 0 && operand.getBytes() == 0 && !operand.getOwnShard() &&
         operand.getPieceElements() == 0;
}

Accumulate accumulationOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, Accumulate>(op)
      .Case<plan_ir::GemmOp, plan_ir::ScaledGemmOp, plan_ir::GroupedGemmOp, plan_ir::LaunchOp>(
          [](auto step) { return step.getAccumulate(); })
      .Default(Accumulate::Add);
}

/// Bytes of the f32 result of a product that could be written in `type`, and lies densely; 0 for anything else. The
/// result is operand `index`.
uint64_t denseResultBytes(Operation *op, unsigned index, Type type) {
  if (auto gemm = dyn_cast<plan_ir::GemmOp>(op)) {
    const uint64_t matrix = gemm.getM() * gemm.getN();
    const bool isDense = gemm.getLdc() == gemm.getN() && (gemm.getBatch() <= 1 || gemm.getStrideC() == matrix);
    if (index != 2 || gemm.getSlots().size() != 4 || !gemm.getTypeC().isF32() || gemm.getTypeA() != type || !isDense)
      return 0;
    return std::max<uint64_t>(1, gemm.getBatch()) * matrix * kWideBytes;
  }
  if (auto gemm = dyn_cast<plan_ir::ScaledGemmOp>(op); gemm && index == 4 && gemm.getTypeC().isF32())
    return gemm.getM() * gemm.getN() * kWideBytes;
  if (auto gemm = dyn_cast<plan_ir::GroupedGemmOp>(op);
      gemm && index == 3 && gemm.getOuter() && gemm.getTypeC().isF32() && gemm.getTypeA() == type)
    return gemm.getGroups() * gemm.getK() * gemm.getN() * kWideBytes;
  return 0;
}

void setOperand(plan_ir::StepOpInterface step, unsigned index, plan_ir::OperandAttr operand) {
  SmallVector<Attribute> slots(step.getStepSlots().getValue());
  slots[index] = operand;
  step->setAttr("slots", ArrayAttr::get(step.getContext(), slots));
}

/// Slots by name, and the steps that use those which are rounded, gathered once for all buckets: a walk over the module
/// for each of them would grow with the square of the depth.
class RoundedSlots {
public:
  RoundedSlots(ModuleOp module, ArrayRef<plan_ir::StepOpInterface> rounds) {
    for (auto slot : module.getOps<plan_ir::SlotOp>())
      slots[slot.getSymNameAttr()] = slot;
    for (plan_ir::StepOpInterface round : rounds)
      for (unsigned index : {0, 1})
        users.try_emplace(operandOf(round, index).getSlot().getAttr());
    for (auto program : module.getOps<plan_ir::ProgramOp>())
      for (auto step : program.getBody().front().getOps<plan_ir::StepOpInterface>())
        add(step);
  }

  plan_ir::SlotOp slot(StringAttr name) const { return slots.lookup(name); }

  /// All steps that use one of the two, those of a program in order, and maybe steps that did before they changed.
  SmallVector<Operation *> usersOf(plan_ir::SlotOp a, plan_ir::SlotOp b) const {
    SmallVector<Operation *> found;
    for (plan_ir::SlotOp slot : {a, b})
      llvm::append_range(found, users.find(slot.getSymNameAttr())->second);
    llvm::sort(found, [](Operation *x, Operation *y) {
      return x->getBlock() != y->getBlock() ? x->getBlock() < y->getBlock() : x->isBeforeInBlock(y);
    });
    found.erase(llvm::unique(found), found.end());
    return found;
  }

  /// To be called for a new step, and for one whose slots have changed.
  void add(plan_ir::StepOpInterface step) {
    for (unsigned index = 0; index < step.getStepSlots().size(); ++index)
      if (auto found = users.find(operandOf(step, index).getSlot().getAttr()); found != users.end())
        found->second.push_back(step);
  }

  void erase(plan_ir::StepOpInterface step) {
    for (auto &[name, steps] : users)
      llvm::erase(steps, step.getOperation());
    step->erase();
  }

private:
  llvm::DenseMap<StringAttr, plan_ir::SlotOp> slots;
  llvm::DenseMap<StringAttr, SmallVector<Operation *, 0>> users;
};

/// The rounding of one bucket's gradient.
class BucketRounding {
public:
  BucketRounding(RoundedSlots &slots, plan_ir::ProgramOp program, plan_ir::StepOpInterface round)
      : slots(slots), program(program), round(round) {}

  /// How many products write their gradient rounded from now on.
  unsigned run() {
    if (!findSlots() || !findWriters() || !findProducts())
      return 0;
    const uint64_t rest = wide.getElements() - split / kWideBytes;
    if (rest > 0)
      addRestSlot(rest);
    for (const GradientWriter &writer : writers)
      rewrite(writer);
    rewriteRounding(rest);
    return products;
  }

  /// The gradient in f32, which nothing may use any more after run().
  plan_ir::SlotOp wideSlot() const { return wide; }

private:
  bool findSlots() {
    const plan_ir::OperandAttr from = operandOf(round, 0), to = operandOf(round, 1);
    wide = slots.slot(from.getSlot().getAttr());
    narrow = slots.slot(to.getSlot().getAttr());
    const auto isBucket = [](plan_ir::SlotOp slot) {
      return slot && slot.getSizeKind() == plan_ir::SizeKind::Full && slot.getSpace() == plan_ir::Space::Device;
    };
    return isBucket(wide) && isBucket(narrow) && isWholeSlot(from) && isWholeSlot(to) &&
           wide.getElements() == narrow.getElements();
  }

  /// All that writes the gradient comes before the rounding, and nothing else reads it or touches its rounded form
  /// until then.
  bool findWriters() {
    for (Operation *op : slots.usersOf(wide, narrow)) {
      if (op == round.getOperation())
        continue;
      auto step = cast<plan_ir::StepOpInterface>(op);
      const bool isHere = op->getParentOp() == program, isBefore = isHere && op->isBeforeInBlock(round);
      for (unsigned index = 0; index < step.getStepSlots().size(); ++index) {
        const plan_ir::OperandAttr operand = operandOf(step, index);
        const StringAttr slot = operand.getSlot().getAttr();
        if (isBefore && slot == narrow.getSymNameAttr())
          return false;
        if (slot != wide.getSymNameAttr())
          continue;
        if (!isBefore || operand.getBytes() == 0 || operand.getAccess() == Access::Read ||
            !isa<plan_ir::GemmOp, plan_ir::ScaledGemmOp, plan_ir::GroupedGemmOp, plan_ir::LaunchOp>(op))
          return false;
        writers.push_back({step, index, operand.getOffset(), operand.getBytes()});
      }
    }
    llvm::stable_sort(writers, [](const GradientWriter &a, const GradientWriter &b) { return a.begin < b.begin; });
    return true;
  }

  /// The products whose gradients fill the bucket from its begin, each alone, up to `split`: most of it, and cut where
  /// a GPU's vectors are.
  bool findProducts() {
    // Where every micro-step is rounded, each is one of its own; else it is where there is one.
    isAlways = !round.isOnlyLast();
    for (const GradientWriter &writer : writers) {
      const Accumulate mode = accumulationOf(writer.step);
      if (writer.begin != split || mode == Accumulate::Add || (isAlways && mode != Accumulate::Overwrite) ||
          denseResultBytes(writer.step, writer.index, roundedType(round)) != writer.bytes)
        break;
      split = writer.end();
      ++products;
    }
    constexpr uint64_t kCut = 64, kVector = 8;
    const uint64_t elements = wide.getElements();
    const bool isApart = llvm::all_of(ArrayRef(writers).drop_front(products), [&](const GradientWriter &writer) {
      return writer.begin >= split && (!isAlways || accumulationOf(writer.step) != Accumulate::AddUnlessFirst);
    });
    return isApart && split / kWideBytes * 2 >= elements && split / kWideBytes <= elements &&
           split / kWideBytes % kCut == 0 && elements % kVector == 0;
  }

  void addRestSlot(uint64_t elements) {
    OpBuilder builder(wide);
    rest = plan_ir::SlotOp::create(builder, wide.getLoc(), (narrow.getSymName() + ".unrounded").str(),
                                   plan_ir::SlotClass::Gradients, plan_ir::SizeKind::Constant, int64_t(elements),
                                   IntegerAttr(), kWideBytes, /*only_if_accumulating=*/false,
                                   /*only_if_several_ranks=*/false, wide.getType(), {int64_t(elements)},
                                   wide.getLayer(), "gradients that no product gives, until they are rounded",
                                   /*persistent=*/false, /*accumulator=*/false, FlatSymbolRefAttr(),
                                   FlatSymbolRefAttr(), IntegerAttr(), IntegerAttr());
  }

  /// The step that works in steps of the optimizer with one micro-step: `op` itself where all of these are alike, else
  /// a copy beside it.
  plan_ir::StepOpInterface variant(plan_ir::StepOpInterface op) {
    if (isAlways)
      return op;
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto copy = cast<plan_ir::StepOpInterface>(builder.clone(*op));
    copy->setAttr("label", builder.getStringAttr(op.getStepLabel() + ", single"));
    op->setAttr("only_if_accumulating", builder.getUnitAttr());
    copy->setAttr("unless_accumulating", builder.getUnitAttr());
    slots.add(copy);
    return copy;
  }

  void rewrite(const GradientWriter &writer) {
    plan_ir::StepOpInterface step = variant(writer.step);
    MLIRContext *context = step.getContext();
    const bool isProduct = writer.begin < split;
    const bool overwrites = accumulationOf(step) != Accumulate::Add;
    if (overwrites && !isAlways) {
      step->setAttr("accumulate", plan_ir::AccumulateAttr::get(context, Accumulate::Overwrite));
      if (auto launch = dyn_cast<plan_ir::LaunchOp>(*step))
        launch.removeKernelAddAttr();
    }
    const Access access = overwrites ? Access::Write : operandOf(step, writer.index).getAccess();
    const uint64_t narrowBytes = roundedType(round).getIntOrFloatBitWidth() / 8;
    const auto inNarrow = [&](uint64_t bytes) { return bytes / kWideBytes * narrowBytes; };
    if (isProduct) {
      step->setAttr("type_c", TypeAttr::get(roundedType(round)));
      setOperand(step, writer.index,
                 plan_ir::OperandAttr::get(context, access, FlatSymbolRefAttr::get(narrow), inNarrow(writer.begin),
                                           inNarrow(writer.bytes), false));
      slots.add(step);
      return;
    }
    setOperand(step, writer.index,
               plan_ir::OperandAttr::get(context, access, FlatSymbolRefAttr::get(rest), writer.begin - split,
                                         writer.bytes, false));
  }

  void rewriteRounding(uint64_t restElements) {
    if (restElements == 0) {
      if (isAlways)
        slots.erase(round);
      else
        round->setAttr("only_if_accumulating", UnitAttr::get(round.getContext()));
      return;
    }
    plan_ir::StepOpInterface step = variant(round);
    MLIRContext *context = step.getContext();
    const uint64_t narrowBytes = roundedType(round).getIntOrFloatBitWidth() / 8;
    setOperand(step, 0,
               plan_ir::OperandAttr::get(context, Access::Read, FlatSymbolRefAttr::get(rest), 0,
                                         restElements * kWideBytes, false));
    setOperand(step, 1,
               plan_ir::OperandAttr::get(context, Access::Write, FlatSymbolRefAttr::get(narrow),
                                         split / kWideBytes * narrowBytes, restElements * narrowBytes, false));
  }

  RoundedSlots &slots;
  plan_ir::ProgramOp program;
  plan_ir::StepOpInterface round;
  plan_ir::SlotOp wide, narrow, rest;
  SmallVector<GradientWriter> writers; ///< by place in the bucket
  uint64_t split = 0;                  ///< bytes of f32 that products give, from the begin of the bucket on
  unsigned products = 0;               ///< which are the first of the writers
  bool isAlways = false;               ///< in steps of any number of micro-steps
};

struct RoundInProducts : impl::RoundInProductsBase<RoundInProducts> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto program = module.lookupSymbol<plan_ir::ProgramOp>("microstep");
    if (!program)
      return;
    unsigned products = 0;
    SmallVector<plan_ir::StepOpInterface> rounds;
    for (auto step : program.getBody().front().getOps<plan_ir::StepOpInterface>())
      if (roundedType(step))
        rounds.push_back(step);
    RoundedSlots slots(module, rounds);
    SmallVector<plan_ir::SlotOp> wide;
    for (plan_ir::StepOpInterface round : rounds) {
      BucketRounding rounding(slots, program, round);
      if (const unsigned rounded = rounding.run()) {
        products += rounded;
        wide.push_back(rounding.wideSlot());
      }
    }
    eraseUnused(module, wide);
    if (products)
      remark::passed(program.getLoc(), remark::RemarkOpts::name("gradients").category(DEBUG_TYPE))
          << std::to_string(products) << " products round the gradient that they give";
  }

  static void eraseUnused(ModuleOp module, ArrayRef<plan_ir::SlotOp> slots) {
    if (slots.empty())
      return;
    llvm::DenseSet<StringAttr> used;
    const auto use = [&](FlatSymbolRefAttr slot) {
      if (slot)
        used.insert(slot.getAttr());
    };
    for (Operation &op : *module.getBody()) {
      if (auto slot = dyn_cast<plan_ir::SlotOp>(op)) {
        use(slot.getSameAsAtOneRankAttr());
        use(slot.getSameAsIfAccumulatingAttr());
      } else if (auto program = dyn_cast<plan_ir::ProgramOp>(op)) {
        for (auto step : program.getBody().front().getOps<plan_ir::StepOpInterface>())
          for (auto operand : step.getStepSlots().getAsRange<plan_ir::OperandAttr>())
            use(operand.getSlot());
      } else {
        op.getAttrDictionary().walk([&](SymbolRefAttr symbol) { used.insert(symbol.getRootReference()); });
      }
    }
    for (plan_ir::SlotOp slot : slots)
      if (!used.contains(slot.getSymNameAttr()))
        slot.erase();
  }
};
} // namespace
} // namespace ztc
