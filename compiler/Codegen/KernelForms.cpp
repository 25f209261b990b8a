#include "compiler/Codegen/KernelForms.h"
#include "compiler/Codegen/KernelEmitter.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace ztc::codegen {

Type withoutLayout(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? RankedTensorType::get(tensor.getShape(), tensor.getElementType()) : type;
}

kernel::ScheduleAttr scheduleOf(MLIRContext *context, const KernelDescription &kernel) {
  Builder builder(context);
  SmallVector<int64_t> buffers;
  for (const KernelBuffer &buffer : kernel.buffers)
    buffers.append({int64_t(buffer.kind), int64_t(buffer.index), int64_t(buffer.written)});
  return kernel::ScheduleAttr::get(context, FlatSymbolRefAttr::get(context, kernel.name),
                                   *kernel::symbolizeForm(kernel.form), kernel.extent, kernel.grain,
                                   kernel.flat ? kernel.flatBlock : 0, kernel.hasAdd,
                                   builder.getDenseI64ArrayAttr(kernel.scalars), builder.getDenseI64ArrayAttr(buffers));
}

kernel::FuncOp addForm(ModuleOp forms, graph::FusionOp group, const LoweredGroup &lowered, ArrayRef<unsigned> classes) {
  OpBuilder builder = OpBuilder::atBlockEnd(forms.getBody());
  auto plain = [](TypeRange types) { return llvm::map_to_vector(types, withoutLayout); };
  SmallVector<Attribute> schedules;
  for (const KernelDescription &kernel : lowered.kernels)
    schedules.push_back(scheduleOf(builder.getContext(), kernel));
  auto number = [&](uint64_t bytes) { return bytes ? builder.getI64IntegerAttr(int64_t(bytes)) : IntegerAttr(); };
  auto form = kernel::FuncOp::create(
      builder, group.getLoc(), lowered.kernels.front().name,
      builder.getFunctionType(plain(bodyOf(group).getArgumentTypes()), plain(resultsOf(group).getTypes())),
      builder.getArrayAttr(schedules),
      classes.empty() ? DenseI64ArrayAttr()
                      : builder.getDenseI64ArrayAttr(SmallVector<int64_t>(classes.begin(), classes.end())),
      number(lowered.workspaceBytes), number(lowered.workspaceBytesPerFlatBlock), /*objects=*/ArrayAttr(), ArrayAttr(),
      ArrayAttr());
  IRMapping values;
  Block *body = builder.createBlock(&form.getBody());
  for (BlockArgument argument : bodyOf(group).getArguments())
    values.map(argument, body->addArgument(withoutLayout(argument.getType()), argument.getLoc()));
  for (Operation &op : bodyOf(group).without_terminator())
    for (Value result : builder.clone(op, values)->getResults())
      result.setType(withoutLayout(result.getType()));
  SmallVector<Value> results;
  for (Value result : resultsOf(group))
    results.push_back(values.lookup(result));
  kernel::ReturnOp::create(builder, group.getLoc(), results);
  return form;
}

FailureOr<GroupPlan> planOf(kernel::FuncOp form) {
  SmallVector<unsigned> classes;
  for (int64_t number : form.getClasses().value_or(ArrayRef<int64_t>()))
    classes.push_back(unsigned(number));
  FailureOr<GroupPlan> plan = planGroup(form, classes);
  if (failed(plan))
    return failure();
  if (plan->kernels.size() != form.getSchedules().size())
    return form.emitOpError("its body takes ")
           << plan->kernels.size() << " kernels, its schedules are " << form.getSchedules().size();
  for (auto [kernel, schedule] :
       llvm::zip_equal(plan->kernels, form.getSchedules().getAsRange<kernel::ScheduleAttr>())) {
    kernel.description.name = schedule.getKernel().getValue().str();
    kernel.description.hasAdd = schedule.getHasAdd();
    kernel::ScheduleAttr wanted = scheduleOf(form.getContext(), kernel.description);
    if (wanted != schedule)
      return form.emitOpError("its body takes ") << wanted << ", phase assign has planned " << schedule;
  }
  if (plan->workspaceBytes != form.getWorkspaceBytes().value_or(0) ||
      plan->workspaceBytesPerFlatBlock != form.getWorkspaceBytesPerFlatBlock().value_or(0))
    return form.emitOpError("its body takes another workspace than phase assign has planned");
  return plan;
}

LogicalResult mapForms(ModuleOp kernels, ArrayRef<kernel::ObjectKind> kinds,
                       llvm::function_ref<LogicalResult(Operation *, const PlannedKernel &, StringRef, bool)> emit) {
  auto forms = kernels.lookupSymbol<ModuleOp>(kernel::kForms);
  if (!forms)
    return success();
  for (auto form : forms.getOps<kernel::FuncOp>()) {
    FailureOr<GroupPlan> plan = planOf(form);
    if (failed(plan))
      return failure();
    if (llvm::all_of(kinds, [&](kernel::ObjectKind kind) { return bool(form.getObject(kind)); }))
      continue;
    for (const PlannedKernel &kernel : plan->kernels) {
      const KernelDescription &d = kernel.description;
      if (failed(emit(form, kernel, d.name, /*add=*/false)) ||
          (d.hasAdd && failed(emit(form, kernel, d.name + kernel::kAddSuffix.str(), /*add=*/true))))
        return failure();
    }
  }
  return success();
}

LogicalResult untilColumnsSuit(Operation *group, llvm::function_ref<LogicalResult(ColumnPlans &, bool &)> attempt) {
  ColumnPlans plans;
  size_t known = 0;
  for (;;) {
    bool restart = false;
    if (succeeded(attempt(plans, restart)))
      return success();
    if (!restart)
      return failure();
    size_t learned = plans.scalar.size();
    for (const auto &[loop, splits] : plans.splits)
      learned += splits.size();
    if (learned == known)
      return group->emitOpError("has no loop order that a kernel could follow");
    known = learned;
  }
}

} // namespace ztc::codegen
