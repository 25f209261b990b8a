#include "passes/Kernels/Selection.h"
#include "compiler/Analysis/BucketTable.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Codegen/KernelForms.h"
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

/// Kernels in the order in which they are first wanted, each once.
class Selection {
public:
  void note(const KernelDescription &kernel, StringRef text) {
    auto [found, isNew] = known.try_emplace(kernel.name, selected.size());
    if (isNew)
      selected.push_back({kernel, text.str()});
    selected[found->second].description.hasAdd |= kernel.hasAdd;
  }

  std::vector<SelectedKernel> selected;

private:
  llvm::StringMap<size_t> known;
};

class GroupSelector {
public:
  GroupSelector(KernelModule &kernels, ModuleOp module)
      : kernels(kernels), builder(module.getContext()), buckets(module) {}

  LogicalResult select(graph::FusionOp fusion) {
    SmallVector<unsigned> modes = modesOf(fusion);
    bool adds = llvm::any_of(modes, [](unsigned mode) { return mode != unsigned(plan_ir::Accumulate::Overwrite); });
    FailureOr<LoweredGroup> group = kernels.addGroup(fusion, adds, modes);
    if (failed(group))
      return failure();
    SmallVector<Attribute> schedules;
    uint64_t workspace = group->workspaceBytes;
    for (const KernelDescription &kernel : group->kernels) {
      schedules.push_back(codegen::scheduleOf(builder.getContext(), kernel));
      selection.note(kernel, group->text);
    }
    // What a whole bucket takes: an upper bound for a shard of it, and small.
    if (group->workspaceBytesPerFlatBlock)
      workspace +=
          llvm::divideCeil(flatElements(fusion), group->kernels.front().flatBlock) * group->workspaceBytesPerFlatBlock;
    fusion->setAttr(plan_ir::kLaunches, builder.getArrayAttr(schedules));
    if (workspace)
      fusion->setAttr(plan_ir::kWorkspaceBytes, builder.getI64IntegerAttr(workspace));
    return success();
  }

  Selection selection;

private:
  /// Elements of the bucket that a flat group works on.
  uint64_t flatElements(graph::FusionOp fusion) {
    int64_t elements = 0;
    for (Type type : fusion->getOperandTypes())
      if (dist::bucketOf(type))
        elements = std::max(elements, buckets.elements(type));
    return elements;
  }

  KernelModule &kernels;
  Builder builder;
  BucketTable buckets;
};

LogicalResult selectForLibrary(Operation *op, KernelModule &kernels, Selection &selection) {
  Builder builder(op->getContext());
  SmallVector<NamedAttribute> names;
  auto source = dyn_cast<StepSourceOpInterface>(op);
  if (source && kernels.options().host)
    for (const auto &[field, kernel] : source.getHostKernels(kernels)) {
      names.push_back(builder.getNamedAttr(field, FlatSymbolRefAttr::get(builder.getContext(), kernel.name)));
      selection.note(kernel, "");
    }
  if (source && kernels.options().device) {
    FailureOr<SmallVector<KernelDescription>> wanted = source.getGpuKernels(kernels);
    if (failed(wanted))
      return failure();
    SmallVector<Attribute> symbols;
    for (const KernelDescription &kernel : *wanted) {
      symbols.push_back(FlatSymbolRefAttr::get(builder.getContext(), kernel.name));
      selection.note(kernel, "");
    }
    if (!symbols.empty())
      names.push_back(builder.getNamedAttr("gpu_kernels", builder.getArrayAttr(symbols)));
  }
  op->removeAttr(plan_ir::kServiceKernels); // of a selection for other targets
  if (!names.empty())
    op->setAttr(plan_ir::kServiceKernels, builder.getDictionaryAttr(names));
  return success();
}

} // namespace

FailureOr<std::vector<SelectedKernel>> selectGroupKernels(ModuleOp module, KernelModule &kernels) {
  GroupSelector selector(kernels, module);
  for (auto function : module.getOps<func::FuncOp>())
    for (auto fusion : function.getBody().front().getOps<graph::FusionOp>())
      if (failed(selector.select(fusion)))
        return failure();
  return std::move(selector.selection.selected);
}

FailureOr<std::vector<SelectedKernel>> selectLibraryKernels(ModuleOp module, KernelModule &kernels) {
  Selection selection;
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.getBody().front())
      if (!isa<graph::FusionOp>(op) && failed(selectForLibrary(&op, kernels, selection)))
        return failure();
  return std::move(selection.selected);
}

void declareKernels(ModuleOp module, ArrayRef<SelectedKernel> kernels) {
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  if (auto bodies = module.lookupSymbol<ModuleOp>(kernel::kKernels))
    builder.setInsertionPoint(bodies);
  auto declare = [&](const std::string &name, const KernelDescription &description, const std::string &text) {
    plan_ir::KernelOp::create(builder, module.getLoc(), name, description.form, builder.getArrayAttr({}), text);
  };
  for (const auto &[description, text] : kernels) {
    declare(description.name, description, text);
    if (description.hasAdd)
      declare(description.name + kernel::kAddSuffix.str(), description,
              "as " + description.name + ", added to what the results hold");
  }
}

} // namespace ztc
