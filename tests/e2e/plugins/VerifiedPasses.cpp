// Passes that are right or wrong in ways that `ztc compile --verify` must tell apart. ZTC_TEST_PASS names the one to
// run.
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include <cstdlib>

using namespace mlir;
using namespace ztc;

namespace {

/// A pass that does `change` to the module.
struct TestPass : PassWrapper<TestPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestPass)
  explicit TestPass(std::string name = "test-pass", void (*change)(ModuleOp) = nullptr)
      : name(std::move(name)), change(change) {}
  TestPass(const TestPass &other) = default;
  StringRef getArgument() const override { return name; }
  void runOnOperation() override {
    if (change)
      change(getOperation());
  }
  std::string name;
  void (*change)(ModuleOp);
};

void swapSwiglu(ModuleOp module) {
  module.walk([](graph::SwigluOp op) {
    Value first = op->getOperand(0);
    op->setOperand(0, op->getOperand(1));
    op->setOperand(1, first);
  });
}

void commuteSums(ModuleOp module) {
  module.walk([](graph::AddOp op) {
    Value first = op->getOperand(0);
    op->setOperand(0, op->getOperand(1));
    op->setOperand(1, first);
  });
}

/// x becomes x + x, where `function` returns it as result `index`.
void doubleResult(ModuleOp module, StringRef function, unsigned index) {
  Operation *end = module.lookupSymbol<func::FuncOp>(function).getBody().front().getTerminator();
  OpBuilder builder(end);
  Value value = end->getOperand(index);
  end->setOperand(index, graph::AddOp::create(builder, value.getLoc(), value, value));
}

void doubleLogits(ModuleOp module) {
  doubleResult(module, "forward", 0);
}

void doubleGradient(ModuleOp module) {
  doubleResult(module, "microstep", 1);
}

void keepSumsToOneself(ModuleOp module) {
  module.walk([](dist::AllReduceDoneOp op) { // on one rank they are the same
    op->getResult(0).replaceAllUsesWith(op->getOperand(0).getDefiningOp()->getOperand(0));
  });
}

/// x becomes (x + 64) - 64: the same number, but not in 16 bits.
void loseBits(ModuleOp module) {
  module.walk([](graph::RmsNormOp op) {
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    auto large = DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 64.0));
    Value constant = graph::ConstantOp::create(builder, op.getLoc(), type, large);
    Value sum = graph::AddOp::create(builder, op.getLoc(), op->getResult(0), constant);
    Value back = graph::SubOp::create(builder, op.getLoc(), sum, constant);
    op->getResult(0).replaceAllUsesExcept(back, sum.getDefiningOp());
  });
}

void roundNorms(ModuleOp module) {
  module.walk([](graph::RmsNormOp op) {
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto wide = cast<RankedTensorType>(op->getResult(0).getType());
    Value narrow = graph::CastOp::create(builder, op.getLoc(), wide.clone(builder.getBF16Type()), op->getResult(0));
    Value back = graph::CastOp::create(builder, op.getLoc(), wide, narrow);
    op->getResult(0).replaceAllUsesExcept(back, narrow.getDefiningOp());
  });
}

/// Products of block 1 read the weights of block 0: the plan's records are all that is wrong.
void readOtherBlock(ModuleOp module) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([](FlatSymbolRefAttr symbol) -> std::optional<Attribute> {
    if (symbol.getValue() == "block1.parameter")
      return FlatSymbolRefAttr::get(symbol.getContext(), "block0.parameter");
    return std::nullopt;
  });
  module.walk([&](Operation *op) {
    if (op->getName().getStringRef() == "plan.gemm")
      replacer.replaceElementsIn(op);
  });
}

/// The sum after the attention of block 1, with an adapter two of them, is never computed: who reads it finds what
/// nobody has written. In 16 bits without an adapter it is the product that adds its fifth operand.
void forgetSum(ModuleOp module) {
  Operation *sum = nullptr;
  module.walk([&](Operation *op) {
    auto name = op->getAttrOfType<StringAttr>("label");
    auto slots = op->getAttrOfType<ArrayAttr>("slots");
    const StringRef kind = op->getName().getStringRef();
    const bool isLaunch = kind == "plan.launch" && name && name.getValue().starts_with("layer 1 add");
    const bool isProduct =
        kind == "plan.gemm" && name && name.getValue().starts_with("layer 1 ") && slots && slots.size() == 5;
    if (!sum && (isLaunch || isProduct))
      sum = op;
  });
  if (!sum)
    module.emitError("there is no sum in block 1");
  else
    sum->erase();
}

void complain(ModuleOp module) {
  module.emitError("this is not to my taste");
}

void crash(ModuleOp) {
  std::abort();
}

/// Products of kernels become sums.
void addInKernels(ModuleOp module) {
  module.walk([](arith::MulFOp op) {
    OpBuilder builder(op);
    op->replaceAllUsesWith(arith::AddFOp::create(builder, op.getLoc(), op.getLhs(), op.getRhs()));
    op->erase();
  });
}

/// The same in those for GPUs alone.
void addInGpuCode(ModuleOp module) {
  module.walk([](ModuleOp part) {
    if (part.getSymName() == "gpu")
      addInKernels(part);
  });
}

void commuteInKernels(ModuleOp module) {
  module.walk([](arith::MulFOp op) {
    Value first = op.getLhs();
    op->setOperand(0, op.getRhs());
    op->setOperand(1, first);
  });
}

/// What the forms of kernels compute becomes its double: x + x in place of the first float result x.
void doubleForms(ModuleOp module) {
  module.walk([](kernel::ReturnOp end) {
    OpBuilder builder(end);
    for (OpOperand &result : end->getOpOperands()) {
      Value x = result.get();
      if (!isa<FloatType>(getElementTypeOrSelf(x.getType())) || isa_and_nonnull<graph::ReshapeOp>(x.getDefiningOp()))
        continue;
      result.set(graph::AddOp::create(builder, x.getLoc(), x, x));
      return;
    }
  });
}

/// The same of results that have more rows than any of the small form of a model.
void doubleTallForms(ModuleOp module) {
  module.walk([](kernel::ReturnOp end) {
    OpBuilder builder(end);
    for (OpOperand &result : end->getOpOperands()) {
      Value x = result.get();
      auto type = cast<RankedTensorType>(x.getType());
      if (type.getRank() < 2 || !type.hasStaticShape() || type.getNumElements() <= 100 * type.getShape().back() ||
          !isa<FloatType>(type.getElementType()) || isa_and_nonnull<graph::ReshapeOp>(x.getDefiningOp()))
        continue;
      result.set(graph::AddOp::create(builder, x.getLoc(), x, x));
      return;
    }
  });
}

/// The last block of 3 x 17 rows, which is a partial one, loses its last row.
void forgetLastRow(ModuleOp module) {
  module.walk([](arith::MinSIOp op) {
    auto bound = op.getRhs().getDefiningOp<arith::ConstantIntOp>();
    if (!bound || bound.value() != 51)
      return;
    OpBuilder builder(op);
    op->setOperand(1, arith::ConstantIntOp::create(builder, op.getLoc(), bound.getType(), bound.value() - 1));
  });
}

/// `value` where it is at most `most`, one (or `less`) less where it is larger: wrong where a plan is large.
void shorten(func::FuncOp kernel, BlockArgument value, int64_t most, int64_t less = 1) {
  OpBuilder builder(kernel.getContext());
  builder.setInsertionPointToStart(&kernel.getBody().front());
  auto constant = [&](int64_t number) {
    return arith::ConstantIntOp::create(builder, kernel.getLoc(), value.getType(), number);
  };
  Value isLarge = arith::CmpIOp::create(builder, kernel.getLoc(), arith::CmpIPredicate::sgt, value, constant(most));
  Value shorter = arith::SubIOp::create(builder, kernel.getLoc(), value, constant(less));
  auto chosen = arith::SelectOp::create(builder, kernel.getLoc(), isLarge, shorter, value);
  value.replaceUsesWithIf(chosen, [&](OpOperand &use) {
    return use.getOwner() != chosen && use.getOwner() != isLarge.getDefiningOp() &&
           use.getOwner() != shorter.getDefiningOp();
  });
}

/// Calls `change` for the kernels of one kind of device.
void forKernels(ModuleOp module, StringRef device, llvm::function_ref<void(func::FuncOp)> change) {
  module.walk([&](ModuleOp part) {
    if (part.getSymName() == device)
      for (auto kernel : part.getOps<func::FuncOp>())
        if (!kernel.isDeclaration())
          change(kernel);
  });
}

/// The last row of a piece that ends past the 16th is left out; a kernel for processors ends where its last argument
/// says.
template <StringLiteral const &prefix> void forgetLateRows(ModuleOp module) {
  forKernels(module, "host", [](func::FuncOp kernel) {
    if (kernel.getName().starts_with(prefix))
      shorten(kernel, kernel.getArguments().back(), 16);
  });
}
constexpr StringLiteral kSoftmaxRows = "attention_softmax", kLossRows = "cross_entropy_rows";

/// The first number that kernels for GPUs of a name are told, as that of a sequence's positions, or of losses.
template <StringLiteral const &prefix> void forgetLateOnGpus(ModuleOp module) {
  forKernels(module, "gpu", [](func::FuncOp kernel) {
    if (!kernel.getName().starts_with(prefix))
      return;
    for (BlockArgument argument : kernel.getArguments())
      if (argument.getType().isInteger(64))
        return shorten(kernel, argument, 16);
  });
}
constexpr StringLiteral kGpuAttention = "gpu_attention", kGpuLossSum = "gpu_loss_sum";

/// Whether a kernel looks codes of 8 bits up.
bool hasStatesInBlocks(func::FuncOp kernel) {
  return kernel
      .walk([](Operation *op) {
        auto table = op->getAttrOfType<FlatSymbolRefAttr>("global_name");
        return table && table.getValue().starts_with("ztc_state_") ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Of states in 8 bits the last 4096 elements of a piece on processors, the last block of 256 on GPUs, where there are
/// more than 65536.
void forgetLastStates(ModuleOp module) {
  forKernels(module, "host", [](func::FuncOp kernel) {
    if (hasStatesInBlocks(kernel))
      shorten(kernel, kernel.getArguments().back(), 16);
  });
  forKernels(module, "gpu", [](func::FuncOp kernel) {
    if (!hasStatesInBlocks(kernel))
      return;
    for (BlockArgument argument : kernel.getArguments())
      if (argument.getType().isInteger(64))
        return shorten(kernel, argument, 65536, 256);
  });
}

/// Nothing puts the accesses of a warp's threads in order any more.
void forgetWarpBarriers(ModuleOp module) {
  SmallVector<Operation *> barriers;
  module.walk([&](Operation *op) {
    if (op->getName().getStringRef() == "nvvm.bar.warp.sync")
      barriers.push_back(op);
  });
  for (Operation *barrier : barriers)
    barrier->erase();
}

/// A sum of columns in place of rows: other loops, other buffers than were placed.
void sumInForms(ModuleOp module) {
  module.walk([](kernel::FuncOp form) {
    if (form.getSchedules().size() != 1)
      return;
    auto end = cast<kernel::ReturnOp>(form.getBody().front().getTerminator());
    auto type = cast<RankedTensorType>(end->getOperand(0).getType());
    if (!type.hasStaticShape() || type.getRank() != 2 || !isa<FloatType>(type.getElementType()))
      return;
    OpBuilder builder(end);
    auto row = RankedTensorType::get({1, type.getDimSize(1)}, type.getElementType());
    Value sum = graph::ReduceSumOp::create(builder, end.getLoc(), row, end->getOperand(0), ArrayRef<int64_t>{0});
    end->setOperand(0, graph::BroadcastOp::create(builder, end.getLoc(), type, sum));
  });
}

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "verified-passes", "1.0", [] {}};
}

extern "C" void ztcRegisterPhaseHooks(PhaseHooks &hooks) {
  const char *wanted = std::getenv("ZTC_TEST_PASS");
  auto add = [&](StringRef name, Phase phase, void (*change)(ModuleOp), Keeps keeps = Keeps::Meaning) {
    if (wanted && name == wanted)
      hooks.after(phase, [name = name.str(), change] { return std::make_unique<TestPass>(name, change); }, keeps);
  };
  add("swap-swiglu", Phase::Import, swapSwiglu);
  add("swap-swiglu-late", Phase::Precision, swapSwiglu);
  add("swap-swiglu-recomputed", Phase::Recompute, swapSwiglu);
  add("commute-sums", Phase::Backward, commuteSums, Keeps::Bits);
  add("double-logits", Phase::Import, doubleLogits);
  add("double-logits-and-say-so", Phase::Import, doubleLogits, Keeps::Changes);
  add("double-gradient", Phase::Backward, doubleGradient);
  add("keep-sums-to-oneself", Phase::Schedule, keepSumsToOneself);
  add("lose-bits", Phase::Precision, loseBits);
  auto addToKernels = [&](StringRef name, void (*change)(ModuleOp), KernelLevel level = KernelLevel::Mapped,
                          Keeps keeps = Keeps::Meaning) {
    if (wanted && StringRef(wanted).contains(name))
      hooks.after(level, [name = name.str(), change] { return std::make_unique<TestPass>(name, change); }, keeps);
  };
  addToKernels("say-forms-double", doubleForms, KernelLevel::Forms, Keeps::Changes);
  addToKernels("double-forms", doubleForms, KernelLevel::Forms);
  addToKernels("double-tall", doubleTallForms, KernelLevel::Forms);
  addToKernels("sum-in-forms", sumInForms, KernelLevel::Forms);
  addToKernels("forget-last-row", forgetLastRow);
  addToKernels("forget-late-rows-of-attention", forgetLateRows<kSoftmaxRows>);
  addToKernels("forget-late-rows-of-losses", forgetLateRows<kLossRows>);
  addToKernels("forget-late-keys-on-gpus", forgetLateOnGpus<kGpuAttention>);
  addToKernels("forget-late-losses-on-gpus", forgetLateOnGpus<kGpuLossSum>);
  addToKernels("forget-last-states", forgetLastStates);
  addToKernels("forget-warp-barriers", forgetWarpBarriers);
  addToKernels("commute-in-kernels", commuteInKernels);
  addToKernels("add-in-kernels", addInKernels);
  addToKernels("add-in-gpu-code", addInGpuCode);
  add("read-other-block", Phase::Plan, readOtherBlock);
  add("forget-sum", Phase::Plan, forgetSum);
  add("complain", Phase::Shard, complain);
  add("crash", Phase::Fuse, crash);
  add("round-norms-bits", Phase::Backward, roundNorms, Keeps::Bits);
}
