#include "passes/Kernels/Selection.h"
#include "compiler/Analysis/BucketTable.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Conversion/Steps/Steps.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace ztc {
namespace {

/// Whether it is the loss of a micro-step: those of one step are added.
bool isStepLoss(OpOperand &use) {
  auto function = dyn_cast<func::FuncOp>(use.getOwner()->getParentOp());
  if (!isa<func::ReturnOp>(use.getOwner()) || !function || !graph::isEntry(function, graph::Entry::Microstep))
    return false;
  return graph::resultOf(function, use.getOperandNumber()) == graph::ResultKind::Loss;
}

/// Whether `result` is added to something, possibly through a reshape.
bool isAdded(Value result) {
  SmallVector<Value> todo{result};
  while (!todo.empty())
    for (OpOperand &use : todo.pop_back_val().getUses()) {
      Operation *user = use.getOwner();
      if (isa<graph::AccumulateOp>(user) || isStepLoss(use))
        return true;
      if (aliasOf(user))
        todo.append(user->result_begin(), user->result_end());
    }
  return false;
}

/// How each result is stored, a number that is 0 where it overwrites: as phase `assign` says, where that was.
SmallVector<unsigned> modesOf(Operation *op) {
  auto modes = op->getAttrOfType<ArrayAttr>(plan_ir::kAccumulate);
  SmallVector<unsigned> numbers;
  for (OpResult result : op->getResults())
    numbers.push_back(modes ? unsigned(cast<plan_ir::AccumulateAttr>(modes[result.getResultNumber()]).getValue())
                            : unsigned(isAdded(result)));
  return numbers;
}

plan_ir::LaunchSpecAttr specOf(OpBuilder &builder, const KernelDescription &kernel) {
  SmallVector<int64_t> buffers;
  for (const KernelBuffer &buffer : kernel.buffers)
    buffers.append({int64_t(buffer.kind), int64_t(buffer.index), int64_t(buffer.written)});
  return plan_ir::LaunchSpecAttr::get(
      builder.getContext(), FlatSymbolRefAttr::get(builder.getContext(), kernel.name),
      builder.getStringAttr(kernel.form), kernel.extent, kernel.grain, kernel.flat ? kernel.flatBlock : 0,
      kernel.hasAdd, builder.getDenseI64ArrayAttr(kernel.scalars), builder.getDenseI64ArrayAttr(buffers));
}

class Selector {
public:
  Selector(KernelModule &kernels, ModuleOp module) : kernels(kernels), builder(module.getContext()), buckets(module) {}

  LogicalResult select(Operation *op) {
    if (auto fusion = dyn_cast<graph::FusionOp>(op))
      return selectGroup(fusion);
    SmallVector<NamedAttribute> names;
    auto source = dyn_cast<StepSourceOpInterface>(op);
    if (source && kernels.options().host)
      for (const auto &[field, kernel] : source.getHostKernels(kernels)) {
        names.push_back(builder.getNamedAttr(field, FlatSymbolRefAttr::get(builder.getContext(), kernel.name)));
        note(kernel, "");
      }
    if (source && kernels.options().device) {
      FailureOr<SmallVector<KernelDescription>> wanted = source.getGpuKernels(kernels);
      if (failed(wanted))
        return failure();
      SmallVector<Attribute> symbols;
      for (const KernelDescription &kernel : *wanted) {
        symbols.push_back(FlatSymbolRefAttr::get(builder.getContext(), kernel.name));
        note(kernel, "");
      }
      if (!symbols.empty())
        names.push_back(builder.getNamedAttr("gpu_kernels", builder.getArrayAttr(symbols)));
    }
    op->removeAttr(plan_ir::kServiceKernels); // of a selection for other targets
    if (!names.empty())
      op->setAttr(plan_ir::kServiceKernels, builder.getDictionaryAttr(names));
    return success();
  }

  std::vector<SelectedKernel> selected;

private:
  LogicalResult selectGroup(graph::FusionOp fusion) {
    SmallVector<unsigned> modes = modesOf(fusion);
    bool adds = llvm::any_of(modes, [](unsigned mode) { return mode != unsigned(plan_ir::Accumulate::Overwrite); });
    FailureOr<LoweredGroup> group = kernels.addGroup(fusion, adds, modes);
    if (failed(group))
      return failure();
    SmallVector<Attribute> specs;
    uint64_t workspace = group->workspaceBytes;
    for (const KernelDescription &kernel : group->kernels) {
      specs.push_back(specOf(builder, kernel));
      note(kernel, group->text);
    }
    // What a whole bucket takes: an upper bound for a shard of it, and small.
    if (group->workspaceBytesPerFlatBlock)
      workspace +=
          llvm::divideCeil(flatElements(fusion), group->kernels.front().flatBlock) * group->workspaceBytesPerFlatBlock;
    fusion->setAttr(plan_ir::kLaunches, builder.getArrayAttr(specs));
    if (workspace)
      fusion->setAttr(plan_ir::kWorkspaceBytes, builder.getI64IntegerAttr(workspace));
    return success();
  }

  /// Elements of the bucket that a flat group works on.
  uint64_t flatElements(graph::FusionOp fusion) {
    int64_t elements = 0;
    for (Type type : fusion->getOperandTypes())
      if (dist::bucketOf(type))
        elements = std::max(elements, buckets.elements(type));
    return elements;
  }

  void note(const KernelDescription &kernel, StringRef text) {
    auto [found, inserted] = known.try_emplace(kernel.name, selected.size());
    if (inserted)
      selected.push_back({kernel, text.str()});
    KernelDescription &description = selected[found->second].description;
    if (kernel.hasAdd)
      description.hasAdd = true, description.deviceAdd = kernel.deviceAdd;
  }

  KernelModule &kernels;
  OpBuilder builder;
  BucketTable buckets;
  llvm::StringMap<size_t> known;
};

} // namespace

FailureOr<std::vector<SelectedKernel>> selectKernels(ModuleOp module, KernelModule &kernels) {
  Selector selector(kernels, module);
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.getBody().front())
      if (failed(selector.select(&op)))
        return failure();
  return std::move(selector.selected);
}

} // namespace ztc
