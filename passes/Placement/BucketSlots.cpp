#include "passes/Placement/BucketSlots.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/UpdateTime.h"
#include "runtime/Format/Shards.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace ztc {
using plan_ir::SizeKind;
using plan_ir::SlotClass;

BucketSlots::BucketSlots(ModuleOp module, SlotTable &slots) : module(module), slots(slots), buckets(module) {
  if (auto stage = module->getAttrOfType<IntegerAttr>(dist::kZero))
    zero = stage.getInt();
  if (graph::findEntry(module, graph::Entry::Update) || graph::updatesInBackward(module))
    for (const graph::OptimizerState &state : graph::statesOf(module))
      states.push_back(state.name);
  for (auto bucket : module.getOps<dist::BucketOp>())
    if (bucket.getQuantum())
      quantum = bucket.getQuantum();
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned index = 0; index < function.getNumArguments(); ++index) {
      StringRef kind = graph::argumentKind(function, index);
      auto bucket = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
      if (!bucket)
        continue;
      if (kind == "gradient" && graph::isEntry(function, graph::Entry::Microstep))
        kind = kAccumulatedGradient;
      types.try_emplace((bucket.getValue() + "." + kind).str(),
                        getElementTypeOrSelf(function.getArgumentTypes()[index]));
    }
}

Type BucketSlots::elementType(dist::BucketOp bucket, StringRef kind) const {
  Type type = types.lookup((bucket.getSymName() + "." + kind).str());
  if (!type && kind == "gradient") // a module without @update
    type = types.lookup((bucket.getSymName() + "." + kAccumulatedGradient).str());
  if (!type && kind != "master" && !llvm::is_contained(states, kind)) // a bucket has the states of its rule
    type = Float32Type::get(module->getContext());
  return type;
}

bool BucketSlots::isRounded(dist::BucketOp bucket) const {
  Type wide = types.lookup((bucket.getSymName() + "." + kAccumulatedGradient).str());
  return wide && wide != elementType(bucket, "gradient");
}

bool BucketSlots::isSharded(StringRef kind) const {
  if (kind == "parameter")
    return zero >= 3;
  return zero >= (kind == "gradient" || kind == kAccumulatedGradient ? 2 : 1);
}

SlotPlace BucketSlots::slotOf(dist::BucketOp bucket, StringRef kind) {
  SlotSpec spec;
  spec.name = (bucket.getSymName() + "." + kind).str();
  spec.slotClass = SlotClass::Optimizer;
  if (kind == "parameter")
    spec.slotClass = SlotClass::Parameters;
  const bool isGradient = kind == "gradient" || kind == kAccumulatedGradient;
  if (isGradient)
    spec.slotClass = SlotClass::Gradients;
  spec.kind = isSharded(kind) ? SizeKind::Shard : SizeKind::Full;
  spec.type = elementType(bucket, kind);
  spec.elements = bucket.getElements();
  spec.shape.push_back(bucket.getElements());
  spec.quantum = bucket.getQuantum();
  spec.layer = layerOf(bucket);
  spec.persistent = !isGradient;
  spec.accumulator = isGradient;
  if (kind == "gradient" && isRounded(bucket)) {
    spec.accumulator = false;
    spec.sameAsIfAccumulating = slotOf(bucket, kAccumulatedGradient).slot;
  }
  if (kind == kAccumulatedGradient)
    spec.reason = "until it is complete and rounded";
  else
    spec.reason = spec.persistent ? "kept from step to step" : "from backward to the update";
  if (isSharded(kind))
    spec.reason = "this rank's shard, " + spec.reason;
  return slots.shared(spec);
}

void BucketSlots::addAll() {
  SmallVector<StringRef> kinds{"parameter"};
  kinds.append(states.begin(), states.end());
  kinds.push_back("master");
  if (!graph::updatesInBackward(module)) // then a gradient lives as long as its bucket's backward part
    kinds.push_back("gradient");
  for (StringRef kind : kinds)
    for (auto bucket : module.getOps<dist::BucketOp>())
      if ((kind == "parameter" || bucket.getTrainable()) && elementType(bucket, kind))
        (void)slotOf(bucket, kind);
}

FailureOr<SlotPlace> BucketSlots::place(Operation *where, FlatSymbolRefAttr name, StringRef kind, Type type) {
  dist::BucketOp bucket = buckets.lookup(name);
  if (!bucket)
    return where->emitOpError("refers to unknown bucket ") << name, failure();
  if (kind == "reduced_gradient")
    kind = "gradient";
  if (kind == "gradient" && isRounded(bucket) && getElementTypeOrSelf(type) != elementType(bucket, kind))
    kind = kAccumulatedGradient;
  if (Type held = elementType(bucket, kind); held != getElementTypeOrSelf(type))
    return where->emitOpError("has the ")
               << kind << " of bucket " << name << " as " << type << ", its slot holds " << held,
           failure();
  SlotPlace place = slotOf(bucket, kind);
  bool isShard = dist::isShard(type);
  if (isSharded(kind) && !isShard)
    return where->emitOpError("has the whole ")
               << kind << " of bucket " << name << ", of which stage " << zero << " keeps a shard",
           failure();
  place.ownShard = isShard && !isSharded(kind);
  return place;
}

SlotSpec BucketSlots::transient(RankedTensorType type, StringRef what, SlotClass slotClass) {
  FlatSymbolRefAttr bucket = dist::bucketOf(type);
  SlotSpec spec;
  spec.name = (bucket.getValue() + "." + what).str();
  spec.slotClass = slotClass;
  spec.kind = SizeKind::Full;
  spec.type = type.getElementType();
  spec.elements = buckets.elements(type);
  spec.shape.push_back(spec.elements);
  spec.quantum = buckets.lookup(bucket).getQuantum();
  spec.layer = buckets.layer(bucket);
  return spec;
}

SlotPlace BucketSlots::gathered(RankedTensorType type, SlotPlace shards, StringRef reason) {
  SlotSpec spec = transient(type, "gathered", SlotClass::Gathered);
  spec.reason = ("gathered from all ranks, " + reason).str();
  spec.sameAsAtOneRank = shards.slot;
  return slots.add(spec);
}

SlotPlace BucketSlots::gatheredCodes(RankedTensorType type, StringRef reason) {
  SlotSpec spec = transient(type, "codes", SlotClass::Gathered);
  spec.reason = ("fp8 codes, gathered from all ranks, " + reason).str();
  return slots.add(spec);
}

SlotPlace BucketSlots::localGradient(RankedTensorType type) {
  SlotSpec spec = transient(type, "local_gradient", SlotClass::Gradients);
  spec.reason = "this rank's gradient, until the sum over ranks is taken";
  return slots.add(spec);
}

SlotPlace BucketSlots::wireGradient(RankedTensorType type) {
  SlotSpec spec = transient(type, "wire_gradient", SlotClass::Gradients);
  spec.reason = "this rank's gradient as it goes to the other ranks";
  return slots.add(spec);
}

SlotPlace BucketSlots::direction(RankedTensorType type, StringRef what, StringRef reason) {
  SlotSpec spec = transient(type, what, SlotClass::Workspace);
  spec.reason = reason.str();
  return slots.add(spec);
}

SlotPlace BucketSlots::receiveBuffer(const Twine &name, Type type, uint64_t elements, int64_t layer, StringRef reason,
                                     uint64_t each) {
  SlotSpec spec;
  spec.name = name.str();
  spec.slotClass = SlotClass::Communication;
  spec.kind = SizeKind::Full;
  spec.type = getElementTypeOrSelf(type);
  spec.elements = elements;
  spec.layer = layer;
  spec.reason = reason.str();
  spec.onlyIfSeveralRanks = true;
  spec.quantum = quantum;
  if (each) // W shards of one quantum
    spec.quantum = llvm::alignTo(each, kShardQuantum);
  return slots.add(spec);
}

} // namespace ztc
