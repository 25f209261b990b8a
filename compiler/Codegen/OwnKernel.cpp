#include "compiler/Codegen/OwnKernel.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"

using namespace mlir;

namespace ztc::kernel {

/// The kernel that a group launches first: its kernel.func has this name. Null where none was planned.
static StringAttr firstKernel(graph::FusionOp call) {
  auto launches = call->getAttrOfType<ArrayAttr>(plan_ir::kLaunches);
  if (!launches || launches.empty())
    return {};
  auto schedule = dyn_cast<ScheduleAttr>(launches[0]);
  return schedule ? schedule.getKernel().getAttr() : StringAttr();
}

static ModuleOp formsOf(ModuleOp step) {
  auto kernels = step.lookupSymbol<ModuleOp>(kKernels);
  return kernels ? kernels.lookupSymbol<ModuleOp>(kForms) : ModuleOp();
}

FuncOp formOf(graph::FusionOp call) {
  StringAttr name = firstKernel(call);
  ModuleOp forms = formsOf(call->getParentOfType<ModuleOp>());
  return name && forms ? forms.lookupSymbol<FuncOp>(name) : FuncOp();
}

namespace {
/// Names of kernels that a step has not yet.
class FreshNames {
public:
  explicit FreshNames(ModuleOp step) : step(step) {}

  /// `name` with "_own" appended, and a number where that is taken, as a kernel or as its variant that adds.
  std::string of(StringRef name) {
    const std::string wanted = (name + "_own").str();
    for (unsigned number = 1;; ++number) {
      std::string fresh = number == 1 ? wanted : wanted + "_" + std::to_string(number);
      if (!step.lookupSymbol(fresh) && !step.lookupSymbol(fresh + kernel::kAddSuffix.str()))
        return fresh;
    }
  }

private:
  ModuleOp step;
};
} // namespace

/// Declares `fresh` as `known` is declared.
static void declareLike(ModuleOp step, StringRef known, StringRef fresh) {
  auto declared = step.lookupSymbol<plan_ir::KernelOp>(known);
  if (!declared)
    return;
  OpBuilder builder(step.getContext());
  builder.setInsertionPointAfter(declared);
  cast<plan_ir::KernelOp>(builder.clone(*declared)).setSymName(fresh);
}

FuncOp makeOwn(graph::FusionOp call) {
  auto step = call->getParentOfType<ModuleOp>();
  FuncOp shared = formOf(call);
  if (!shared) {
    call.emitOpError("has no kernel.func: kernels have forms between ztc-form-kernels and the end of phase codegen");
    return {};
  }
  WalkResult others = step.walk([&](graph::FusionOp other) {
    return other != call && firstKernel(other) == shared.getSymNameAttr() ? WalkResult::interrupt()
                                                                          : WalkResult::advance();
  });
  if (!others.wasInterrupted())
    return shared;

  FreshNames names(step);
  OpBuilder builder(shared);
  builder.setInsertionPointAfter(shared);
  auto own = cast<FuncOp>(builder.clone(*shared));
  SmallVector<Attribute> schedules;
  for (auto s : shared.getSchedules().getAsRange<ScheduleAttr>()) {
    const StringRef known = s.getKernel().getValue();
    const std::string fresh = names.of(known);
    schedules.push_back(ScheduleAttr::get(builder.getContext(), FlatSymbolRefAttr::get(builder.getContext(), fresh),
                                          s.getForm(), s.getExtent(), s.getGrain(), s.getFlatBlock(), s.getHasAdd(),
                                          s.getScalars(), s.getBuffers()));
    declareLike(step, known, fresh);
    declareLike(step, (known + kernel::kAddSuffix).str(), fresh + kernel::kAddSuffix.str());
  }
  own.setSymName(cast<ScheduleAttr>(schedules.front()).getKernel().getValue());
  own.setSchedulesAttr(builder.getArrayAttr(schedules));
  call->setAttr(plan_ir::kLaunches, own.getSchedulesAttr());
  return own;
}

void supply(FuncOp form, ObjectKind kind, StringRef bytes, ArrayRef<LaunchAttr> launches, StringRef architecture) {
  Builder builder(form.getContext());
  auto type = RankedTensorType::get({int64_t(bytes.size())}, builder.getIntegerType(8));
  AsmResourceBlob blob = HeapAsmResourceBlob::allocateAndCopyWithAlign(ArrayRef<char>(bytes.data(), bytes.size()), 16);
  const StringAttr architectureAttr = architecture.empty() ? StringAttr() : builder.getStringAttr(architecture);
  std::string name = (form.getSymName() + "." + stringifyObjectKind(kind)).str();
  if (architectureAttr)
    name += ("." + architecture).str();
  SmallVector<Attribute> objects;
  if (ArrayAttr known = form.getObjectsAttr())
    llvm::copy_if(known, std::back_inserter(objects), [&](Attribute held) {
      auto object = cast<ObjectAttr>(held);
      return object.getKind() != kind || object.getArchitecture() != architectureAttr;
    });
  SmallVector<Attribute> list(launches.begin(), launches.end());
  objects.push_back(ObjectAttr::get(form.getContext(), kind,
                                    DenseResourceElementsAttr::get(type, name, std::move(blob)),
                                    builder.getArrayAttr(list), architectureAttr));
  form.setObjectsAttr(builder.getArrayAttr(objects));
}

} // namespace ztc::kernel
