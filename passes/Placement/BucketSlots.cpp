#include "passes/Placement/BucketSlots.h"

using namespace mlir;

namespace ztc {
using plan_ir::SizeKind;
using plan_ir::SlotClass;

BucketSlots::BucketSlots(ModuleOp module, SlotTable &slots) : module(module), slots(slots), buckets(module) {
  if (auto stage = module->getAttrOfType<IntegerAttr>(dist::kZero))
    zero = stage.getInt();
}

bool BucketSlots::isSharded(StringRef kind) const {
  if (kind == "parameter")
    return zero >= 3;
  return zero >= (kind == "gradient" ? 2 : 1);
}

SlotPlace BucketSlots::slotOf(dist::BucketOp bucket, StringRef kind, Type elementType) {
  SlotSpec spec;
  spec.name = (bucket.getSymName() + "." + kind).str();
  spec.slotClass = SlotClass::Optimizer;
  if (kind == "parameter")
    spec.slotClass = SlotClass::Parameters;
  if (kind == "gradient")
    spec.slotClass = SlotClass::Gradients;
  spec.kind = isSharded(kind) ? SizeKind::Shard : SizeKind::Full;
  spec.type = elementType;
  spec.elements = bucket.getElements();
  spec.shape.push_back(bucket.getElements());
  spec.layer = layerOfBucket(bucket.getSymName());
  spec.persistent = kind != "gradient";
  spec.accumulator = !spec.persistent;
  spec.reason = spec.persistent ? "kept from step to step" : "from backward to the update";
  if (isSharded(kind))
    spec.reason = "this rank's shard, " + spec.reason;
  return slots.shared(spec);
}

void BucketSlots::addAll() {
  for (StringRef kind : {"parameter", "exp_avg", "exp_avg_sq", "gradient"})
    for (auto bucket : module.getOps<dist::BucketOp>())
      if (kind == "parameter" || bucket.getTrainable())
        // All buckets of a module have one type until `precision` says otherwise.
        (void)slotOf(bucket, kind, Float32Type::get(module.getContext()));
}

FailureOr<SlotPlace> BucketSlots::place(Operation *where, FlatSymbolRefAttr name, StringRef kind, Type type) {
  dist::BucketOp bucket = buckets.lookup(name);
  if (!bucket)
    return where->emitOpError("speaks of a bucket that does not exist: ") << name, failure();
  if (kind == "reduced_gradient")
    kind = "gradient";
  SlotPlace place = slotOf(bucket, kind, getElementTypeOrSelf(type));
  bool isShard = dist::isShard(type);
  if (isSharded(kind) && !isShard)
    return where->emitOpError("has the whole ")
               << kind << " of bucket " << name << ", of which stage " << zero << " keeps a shard",
           failure();
  place.ownShard = isShard && !isSharded(kind);
  return place;
}

SlotSpec BucketSlots::transient(RankedTensorType type, StringRef what, SlotClass slotClass) {
  StringRef bucket = dist::bucketOf(type).getValue();
  SlotSpec spec;
  spec.name = (bucket + "." + what).str();
  spec.slotClass = slotClass;
  spec.kind = SizeKind::Full;
  spec.type = type.getElementType();
  spec.elements = buckets.elements(type);
  spec.shape.push_back(spec.elements);
  spec.layer = layerOfBucket(bucket);
  return spec;
}

SlotPlace BucketSlots::gathered(RankedTensorType type, SlotPlace shards, StringRef reason) {
  SlotSpec spec = transient(type, "gathered", SlotClass::Gathered);
  spec.reason = ("gathered from all ranks, " + reason).str();
  spec.sameAsAtOneRank = shards.slot;
  return slots.add(spec);
}

SlotPlace BucketSlots::localGradient(RankedTensorType type) {
  SlotSpec spec = transient(type, "local_gradient", SlotClass::Gradients);
  spec.reason = "this rank's gradient, until the sum over ranks is taken";
  return slots.add(spec);
}

SlotPlace BucketSlots::receiveBuffer(const Twine &name, Type type, uint64_t elements, int64_t layer, StringRef reason) {
  SlotSpec spec;
  spec.name = name.str();
  spec.slotClass = SlotClass::Communication;
  spec.kind = SizeKind::Full;
  spec.type = getElementTypeOrSelf(type);
  spec.elements = elements;
  spec.layer = layer;
  spec.reason = reason.str();
  spec.onlyIfSeveralRanks = true;
  return slots.add(spec);
}

} // namespace ztc
