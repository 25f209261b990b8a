#include "passes/Placement/SlotTable.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "runtime/Format/BlockState.h"

using namespace mlir;

namespace ztc {

SlotTable::SlotTable(ModuleOp module) : module(module), builder(module.getContext()) {
  Block *body = module.getBody();
  Operation *last = nullptr;
  for (Operation &op : *body)
    if (isa<dist::BucketOp>(op))
      last = &op;
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(body);
}

SlotPlace SlotTable::add(const SlotSpec &spec) {
  std::string name = spec.name;
  if (unsigned count = names[spec.name]++)
    name += "." + std::to_string(count);
  auto number = [&](std::optional<uint64_t> value) {
    return value ? builder.getI64IntegerAttr(int64_t(*value)) : IntegerAttr();
  };
  const bool inBlocks = isa<graph::Block8Type>(spec.type);
  plan_ir::SlotOp::create(builder, module.getLoc(), name, spec.slotClass, spec.kind, spec.elements,
                          number(spec.gpuElements), inBlocks ? kStateBlockBytes : elementBytes(spec.type), false,
                          spec.onlyIfSeveralRanks, spec.type, spec.shape, spec.layer, spec.reason, spec.persistent,
                          spec.accumulator, spec.sameAsAtOneRank, spec.sameAsIfAccumulating,
                          inBlocks ? builder.getI64IntegerAttr(kStateBlock) : IntegerAttr(), number(spec.quantum));
  return {FlatSymbolRefAttr::get(module.getContext(), name), 0};
}

SlotPlace SlotTable::shared(const SlotSpec &spec) {
  auto [found, inserted] = sharedSlots.try_emplace(spec.name);
  if (inserted)
    found->second = add(spec);
  return found->second;
}

SlotPlace SlotTable::constant(ElementsAttr data, StringRef name) {
  auto [found, inserted] = constants.try_emplace(data);
  if (inserted) {
    auto type = cast<RankedTensorType>(data.getType());
    SlotSpec spec;
    spec.name = name.str();
    spec.slotClass = plan_ir::SlotClass::Workspace;
    spec.type = type.getElementType();
    spec.elements = type.getNumElements();
    spec.shape.assign(type.getShape().begin(), type.getShape().end());
    spec.reason = "constant table";
    spec.persistent = true;
    found->second = add(spec);
    plan_ir::ConstantOp::create(builder, module.getLoc(), found->second.slot, data);
  }
  return found->second;
}

void SlotTable::bind(StringRef name, SlotPlace place) {
  for (NamedAttribute entry : bindings)
    if (entry.getName() == name)
      return;
  bindings.push_back(builder.getNamedAttr(name, place.slot));
}

void SlotTable::nameScaledMatrices(ArrayAttr names) {
  for (auto entry : names.getAsRange<ArrayAttr>())
    plan_ir::ScaledMatrixOp::create(builder, module.getLoc(), entry);
}

void SlotTable::finish() {
  plan_ir::BindingsOp::create(builder, module.getLoc(), builder.getDictionaryAttr(bindings));
}

} // namespace ztc
