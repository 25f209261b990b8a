#include "passes/Placement/FunctionPlacer.h"
#include "compiler/Analysis/Recomputation.h"
#include "compiler/Dialect/Dist/Fp8.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/ArgumentAttributes.h"
#include "compiler/Support/Location.h"
#include "mlir/IR/Remarks.h"

#define DEBUG_TYPE "ztc-assign-slots"

using namespace mlir;

namespace ztc {
using plan_ir::Accumulate;
using plan_ir::SizeKind;
using plan_ir::SlotClass;
namespace {

SlotSpec valueSlot(StringRef name, RankedTensorType type, SlotClass slotClass) {
  SlotSpec spec;
  spec.name = name.str();
  spec.slotClass = slotClass;
  spec.type = type.getElementType();
  spec.elements = type.getNumElements();
  spec.shape.assign(type.getShape().begin(), type.getShape().end());
  return spec;
}

/// A slot that the trainer writes or reads: it lives through all programs.
SlotSpec boundSlot(StringRef name, RankedTensorType type, StringRef reason) {
  SlotSpec spec = valueSlot(name, type, SlotClass::Io);
  spec.persistent = true;
  spec.reason = reason.str();
  return spec;
}

/// A slot that keeps keys or values of a text from call to call.
SlotSpec cacheSlot(StringRef name, RankedTensorType type) {
  SlotSpec spec = valueSlot(("cache." + name).str(), type, SlotClass::Cache);
  spec.reason = "what attention reads of earlier tokens: generate fills it, decode adds to it";
  return spec;
}

/// Whether `op` lies before `other` in their block; null lies before everything.
bool isBefore(Operation *op, Operation *other) {
  return !op ? other != nullptr : other && op->isBeforeInBlock(other);
}

/// The op that computes a value, through aliases; null for arguments.
OpResult computedResult(Value value) {
  return dyn_cast<OpResult>(resolveAlias(value).source);
}

} // namespace

LogicalResult FunctionPlacer::run() {
  lossOp = lossOpOf(function);
  limits = {options.attentionBlock, options.chunkBytes, uint64_t(buckets.table().elements())};
  if (failed(placeArguments()) || failed(placeResults()))
    return failure();
  placePacks();
  placeDirections();
  joinSums();
  placeOps();
  writeAttributes();
  return success();
}

FailureOr<SlotPlace> FunctionPlacer::argumentPlace(unsigned index) {
  const std::optional<graph::Role> role = graph::roleOf(function, index);
  const StringRef name = role ? graph::stringifyRole(*role) : "";
  auto type = cast<RankedTensorType>(function.getArgumentTypes()[index]);
  if (graph::isBucket(role)) {
    auto bucket = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
    if (!bucket)
      return function.emitOpError("argument ") << index << " has the role " << name << " but no bucket", failure();
    return buckets.place(function, bucket, graph::argumentKind(function, index), type);
  }
  if (role == graph::Role::Step) {
    SlotPlace place = slots.shared(boundSlot("step_parameters", type, "numbers of one optimizer step"));
    slots.bind("step_parameters", place);
    return place;
  }
  if (role == graph::Role::Tokens || role == graph::Role::Targets || role == graph::Role::Position ||
      role == graph::Role::FirstToken || role == graph::Role::DocumentStarts || role == graph::Role::LossWeights) {
    SlotPlace place = slots.shared(boundSlot(name, type, "input"));
    slots.bind(name, place);
    return place;
  }
  if (const StringRef state = graph::argumentKind(function, index); graph::isFp8State(state)) {
    if (auto names = function.getArgAttrOfType<ArrayAttr>(index, graph::kFp8Names))
      slots.nameScaledMatrices(names);
    return fp8Place(state, type);
  }
  if (role == graph::Role::Cache)
    return slots.shared(cacheSlot(graph::argString(function, index, graph::kName), type));
  return function.emitOpError("argument ") << index << " has the role '" << name << "', for which there is no slot",
         failure();
}

SlotPlace FunctionPlacer::fp8Place(StringRef name, RankedTensorType type) {
  const bool isKnown = name == graph::kFp8Amax;
  SlotPlace place = slots.shared(boundSlot(name, type,
                                           isKnown ? "absolute maxima of the step before, for the scales of fp8 codes"
                                                   : "absolute maxima of this step's micro-steps"));
  if (isKnown)
    slots.bind(name, place);
  return place;
}

LogicalResult FunctionPlacer::placeArguments() {
  ArgumentAttributes marks(function);
  for (unsigned index = 0; index < function.getNumArguments(); ++index) {
    FailureOr<SlotPlace> place = argumentPlace(index);
    if (failed(place))
      return failure();
    places[function.getArgument(index)] = *place;
    marks.set(index, plan_ir::kPlace, place->attribute());
  }
  marks.store();
  return success();
}

FailureOr<SlotPlace> FunctionPlacer::resultPlace(unsigned index) {
  const std::optional<graph::ResultKind> kind = graph::resultOf(function, index);
  auto type = cast<RankedTensorType>(function.getResultTypes()[index]);
  if (!kind)
    return function.emitOpError("result ") << index << " has no graph.result", failure();
  if (auto bucket = function.getResultAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket))
    return buckets.place(function, bucket, graph::resultKind(function, index), type);
  if (kind == graph::ResultKind::Cache)
    return slots.shared(cacheSlot(function.getResultAttrOfType<StringAttr>(index, graph::kName).getValue(), type));
  if (const StringRef state = graph::resultKind(function, index); graph::isFp8State(state))
    return fp8Place(state, type);
  std::string name = graph::stringifyResultKind(*kind).str();
  if (kind == graph::ResultKind::Loss && graph::isEntry(function, graph::Entry::Eval))
    name = "eval_loss";
  SlotPlace place = slots.shared(boundSlot(name, type, "output"));
  slots.bind(name, place);
  return place;
}

LogicalResult FunctionPlacer::placeResults() {
  Operation *terminator = function.getBody().front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands()) {
    FailureOr<SlotPlace> place = resultPlace(operand.getOperandNumber());
    if (failed(place))
      return failure();
    demand(operand, *place);
    // The losses of the micro-steps of one step are added.
    if (graph::resultOf(function, operand.getOperandNumber()) == graph::ResultKind::Loss &&
        graph::isEntry(function, graph::Entry::Microstep))
      modes[resolveAlias(operand.get()).source] = Accumulate::AddUnlessFirst;
    // Of absolute maxima the largest of all micro-steps stays.
    auto maxima = operand.get().getDefiningOp<dist::PackOp>();
    if (maxima && graph::resultKind(function, operand.getOperandNumber()) == graph::kFp8Maxima)
      for (Value part : maxima.getParts())
        modes[part] = Accumulate::AddUnlessFirst;
  }
  return success();
}

void FunctionPlacer::insertCopy(OpOperand &use, SlotPlace place, StringRef why) {
  OpBuilder builder(use.getOwner());
  // After its source: the copy reads it before anything else can be written there.
  if (Operation *definition = use.get().getDefiningOp())
    builder.setInsertionPointAfter(definition);
  else
    builder.setInsertionPointToStart(&function.getBody().front());
  auto copy = dist::CopyOp::create(builder, use.get().getLoc(), use.get().getType(), use.get());
  use.set(copy);
  places[copy] = place;
  remark::missed(copy.getLoc(), remark::RemarkOpts::name("copy").category(DEBUG_TYPE).function(function.getName()))
      << "a copy was unavoidable: " << why.str();
}

void FunctionPlacer::demand(OpOperand &use, SlotPlace place) {
  Value value = use.get();
  if (places.contains(resolveAlias(value).source)) {
    if (!(placeOf(value) == place))
      insertCopy(use, place, "the value belongs elsewhere too");
    return;
  }
  Operation *definition = value.getDefiningOp();
  if (std::optional<Alias> alias = aliasOf(definition))
    return demandSource(use, *alias, place);
  if (isCollectiveDone(definition))
    return demandCollective(definition, place);
  if (auto pack = dyn_cast<dist::PackOp>(definition))
    return demandParts(pack, place);
  if (auto accumulate = dyn_cast<graph::AccumulateOp>(definition)) {
    // Outermost first; the accumulator at the bottom of the chain is what lies there already.
    SmallVector<Operation *> chain;
    OpOperand *bottom = nullptr;
    for (graph::AccumulateOp link = accumulate; link; link = bottom->get().getDefiningOp<graph::AccumulateOp>()) {
      places[link.getY()] = place;
      chain.push_back(link);
      bottom = &link.getAccumulatorMutable();
    }
    demand(*bottom, place);
    return demandAddends(chain, place);
  }
  if (isa<graph::ConstantOp>(definition))
    return insertCopy(use, place, "the value is a constant");
  places[value] = place;
}

/// The source of the alias that `use` reads takes the place.
void FunctionPlacer::demandSource(OpOperand &use, const Alias &alias, SlotPlace place) {
  Operation *definition = use.get().getDefiningOp();
  if (alias.ownShard && place.ownShard)
    return demand(definition->getOpOperand(0), {place.slot});
  if (!cast<StorageAliasOpInterface>(definition).isWholeAlias())
    return insertCopy(use, place, "the value is a piece of another one");
  demand(definition->getOpOperand(0), place);
}

/// What is gathered in place comes from the own shard of it, a sum over ranks stands in the own shard of its addend.
void FunctionPlacer::demandCollective(Operation *done, SlotPlace place) {
  Operation *start = done->getOperand(0).getDefiningOp();
  places[start->getResult(0)] = place;
  places[done->getResult(0)] = place; // not chained: the second insertion may move what the first one gave
  if (isa<dist::AllGatherStartOp>(start))
    place.ownShard = true;
  else if (isa<dist::ReduceScatterStartOp>(start))
    place.ownShard = false;
  demand(start->getOpOperand(0), place);
}

void FunctionPlacer::demandParts(dist::PackOp pack, SlotPlace place) {
  places[pack.getBucket()] = place;
  uint64_t width = elementBytes(pack.getBucket().getType());
  for (auto [part, offset] : llvm::zip_equal(pack.getPartsMutable(), pack.getOffsets()))
    demand(part, {place.slot, place.offset + uint64_t(offset) * width});
}

/// Packs that no result is: local gradients of which only the sum over ranks is kept.
void FunctionPlacer::placePacks() {
  for (auto pack : function.getBody().front().getOps<dist::PackOp>()) {
    if (!dist::isFull(pack.getBucket().getType()) || places.contains(pack.getBucket()))
      continue;
    auto type = cast<RankedTensorType>(pack.getBucket().getType());
    const bool isDirection = llvm::any_of(pack.getParts(), [](Value part) {
      return part.getDefiningOp() && part.getDefiningOp()->hasAttr(dist::kOwnedParameter);
    });
    demandParts(pack, isDirection ? buckets.direction(type, "orthogonal_direction",
                                                      "Muon's directions, made orthogonal, until the parameters change")
                                  : buckets.localGradient(type));
  }
}

/// Muon's directions: a kernel writes the whole bucket, or its own shard of what is gathered.
void FunctionPlacer::placeDirections() {
  auto place = [&](Value value) {
    return buckets.direction(cast<RankedTensorType>(value.getType()), "direction",
                             "Muon's directions, of which each rank makes some matrices orthogonal");
  };
  for (Operation &op : function.getBody().front()) {
    for (Value result : op.getResults())
      if (isa<graph::FusionOp>(op) && dist::isFull(result.getType()) && !places.contains(result))
        places[result] = place(result);
    if (!isa<dist::AllGatherDoneOp>(op) || places.contains(op.getResult(0)))
      continue;
    Value shard = op.getOperand(0).getDefiningOp()->getOperand(0);
    if (shard.getDefiningOp<graph::FusionOp>() && !places.contains(shard))
      demandCollective(&op, place(op.getResult(0)));
  }
}

/// The addends of one place: whichever is computed first may write (in the first micro-step), the others add.
void FunctionPlacer::demandAddends(ArrayRef<Operation *> chain, SlotPlace place) {
  SmallVector<graph::AccumulateOp> links;
  bool firstWrites = false;
  for (Operation *op : chain) {
    links.push_back(cast<graph::AccumulateOp>(op));
    firstWrites |= links.back().getFirstWrites();
  }
  for (graph::AccumulateOp link : links)
    demand(link.getXMutable(), place);
  llvm::sort(links, [](graph::AccumulateOp a, graph::AccumulateOp b) {
    OpResult first = computedResult(a.getX()), second = computedResult(b.getX());
    return isBefore(first ? first.getOwner() : nullptr, second ? second.getOwner() : nullptr);
  });
  for (auto [index, link] : llvm::enumerate(links))
    modes[resolveAlias(link.getX()).source] = firstWrites && index == 0 ? Accumulate::AddUnlessFirst : Accumulate::Add;
}

std::string FunctionPlacer::slotName(Value value) {
  Operation *op = cast<OpResult>(value).getOwner();
  std::string path = scopeOf(op->getLoc());
  int64_t layer = layerOf(path);
  std::string name = function.getName().str();
  if (layer >= 0)
    name += ".layer" + std::to_string(layer);
  if (auto fusion = dyn_cast<graph::FusionOp>(op))
    return name + "." + fusion.getName().str();
  StringRef leaf = StringRef(path).rsplit('.').second;
  if (!leaf.empty() && layer >= 0)
    name += "." + leaf.str();
  return name + "." + op->getName().stripDialect().str();
}

std::string FunctionPlacer::reasonFor(Value value) {
  Operation *last = nullptr;
  SmallVector<Value> todo{value};
  while (!todo.empty()) {
    Value source = todo.pop_back_val();
    for (Operation *user : source.getUsers()) {
      std::optional<Alias> alias = aliasOf(user);
      if (alias && alias->source == source)
        todo.append(user->result_begin(), user->result_end());
      else if (!alias && isBefore(last, user)) // a barrier that only waits for it reads nothing
        last = user;
    }
  }
  if (!last)
    return "written, never read";
  auto fusion = dyn_cast<graph::FusionOp>(last);
  StringRef kind = last->getName().stripDialect();
  (void)kind.consume_back("_start");
  std::string reader = fusion ? fusion.getName().str() : kind.str();
  if (int64_t layer = layerOf(last->getLoc()); layer >= 0)
    reader += " of layer " + std::to_string(layer);
  Operation *definition = value.getDefiningOp();
  if (definition && definition->hasAttr(kRecomputation))
    return "computed again, last read by " + reader;
  bool saved = lossOp && isBefore(definition, lossOp) && isBefore(lossOp, last);
  return (saved ? "saved for backward, last read by " : "last read by ") + reader;
}

/// Sums outside of buckets: the addend is added where the accumulator lies (GroupPrimitiveOps made sure that nobody
/// minds).
void FunctionPlacer::joinSums() {
  for (auto accumulate : function.getBody().front().getOps<graph::AccumulateOp>()) {
    if (places.contains(accumulate.getY()))
      continue;
    Value addend = resolveAlias(accumulate.getX()).source;
    sums[addend] = accumulate.getAccumulator();
    modes[addend] = Accumulate::Add;
  }
}

SlotPlace FunctionPlacer::placeOf(Value value) {
  Alias alias = resolveAlias(value);
  SlotPlace source = places.lookup(alias.source);
  return {source.slot, source.offset + uint64_t(alias.offsetBytes), source.ownShard || alias.ownShard};
}

SlotPlace FunctionPlacer::collectivePlace(Operation *op) {
  if (isCollectiveDone(op))
    return places.lookup(op->getOperand(0));
  SlotPlace place = placeOf(op->getOperand(0));
  if (isa<dist::ReduceScatterStartOp>(op)) {
    place.ownShard = true;
    return place;
  }
  auto gather = dyn_cast<dist::AllGatherStartOp>(op);
  if (!gather)
    return place;
  if (place.ownShard)
    return {place.slot};
  Operation *done = *gather.getPending().user_begin();
  return buckets.gathered(gather.getPending().getType().getResult(), place, reasonFor(done->getResult(0)));
}

void FunctionPlacer::placeResult(OpResult result) {
  if (places.contains(result))
    return;
  if (auto sum = sums.find(result); sum != sums.end()) {
    places[result] = placeOf(sum->second);
    return;
  }
  Operation *op = result.getOwner();
  if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
    places[result] = slots.constant(constant.getValue(), "constant");
    return;
  }
  if (auto accumulate = dyn_cast<graph::AccumulateOp>(op)) {
    places[result] = placeOf(accumulate.getAccumulator());
    return;
  }
  if (aliasOf(op)) {
    places[result] = placeOf(result);
    return;
  }
  if (isCollective(op)) {
    places[result] = collectivePlace(op);
    return;
  }
  if (auto codes = dyn_cast<dist::ShardCodesOp>(op); codes && result == codes.getCodes()) {
    Operation *gather = *codes.getCodes().user_begin();
    SlotPlace place = buckets.gatheredCodes(
        dist::fullType(dist::bucketOf(result.getType()).getValue(), getElementTypeOrSelf(result)),
        isCollectiveStart(gather) ? reasonFor((*gather->getResult(0).user_begin())->getResult(0)) : "");
    place.ownShard = true;
    places[result] = place;
    return;
  }
  if (isWireCast(op)) {
    places[result] = buckets.wireGradient(cast<RankedTensorType>(result.getType()));
    return;
  }
  SlotSpec spec = valueSlot(slotName(result), cast<RankedTensorType>(result.getType()), SlotClass::Activations);
  spec.layer = layerOf(op->getLoc());
  spec.reason = reasonFor(result);
  auto call = dyn_cast<LibraryCallOpInterface>(op);
  if (StringRef what = call ? call.getTransientResult() : ""; !what.empty()) {
    spec.slotClass = SlotClass::Workspace;
    spec.reason = what.str() + ", " + spec.reason;
  }
  places[result] = slots.add(spec);
}

SlotPlace FunctionPlacer::scratchSlot(Operation *op, StringRef name, SizeKind kind, uint64_t bytes,
                                      std::optional<uint64_t> gpuBytes) {
  SlotSpec spec;
  spec.name = slotName(op->getResult(0)) + "." + name.str();
  spec.slotClass = SlotClass::Workspace;
  spec.kind = kind;
  spec.type = Float32Type::get(op->getContext());
  spec.elements = (bytes + 3) / 4;
  if (gpuBytes)
    spec.gpuElements = (*gpuBytes + 3) / 4;
  spec.layer = layerOf(op->getLoc());
  spec.reason = "workspace of one step";
  return slots.add(spec);
}

void FunctionPlacer::placeScratch(Operation *op) {
  Builder builder(op->getContext());
  SmallVector<Attribute> scratch;
  if (auto call = dyn_cast<LibraryCallOpInterface>(op)) {
    const Workspace workspace = call.getWorkspace(limits);
    for (const WorkspacePart &part : workspace.parts) {
      SizeKind kind = part.isPerThread ? SizeKind::PerThread : SizeKind::Constant;
      scratch.push_back(scratchSlot(op, part.name, kind, part.bytes, part.gpuBytes).attribute());
    }
    if (workspace.rows)
      op->setAttr(plan_ir::kChunk, builder.getI64IntegerAttr(*workspace.rows));
  }
  if (auto scatter = dyn_cast<dist::ReduceScatterStartOp>(op)) {
    FlatSymbolRefAttr bucket = dist::bucketOf(scatter.getFull().getType());
    uint64_t elements = buckets.table().elements(scatter.getFull().getType());
    scratch.push_back(buckets
                          .receiveBuffer(bucket.getValue() + ".receive", scatter.getFull().getType(),
                                         std::min(elements, kReceiveElements), buckets.table().layer(bucket),
                                         "what other ranks send of their gradients, piece by piece")
                          .attribute());
  }
  if (isa<dist::AllReduceStartOp, dist::AllReduceMaxStartOp>(op)) {
    Type type = op->getOperand(0).getType();
    const uint64_t maxima = isa<dist::AllReduceMaxStartOp>(op) ? cast<RankedTensorType>(type).getNumElements() : 0;
    scratch.push_back(buckets
                          .receiveBuffer(function.getName() + (maxima ? ".maxima" : ".receive"), type, kScalarElements,
                                         -1, maxima ? "maxima of every rank" : "one number of every rank", maxima)
                          .attribute());
  }
  if (auto workspace = op->getAttrOfType<IntegerAttr>(plan_ir::kWorkspaceBytes))
    scratch.push_back(scratchSlot(op, "partials", SizeKind::Constant, workspace.getInt()).attribute());
  if (!scratch.empty())
    op->setAttr(plan_ir::kScratch, builder.getArrayAttr(scratch));
}

void FunctionPlacer::placeOps() {
  for (Operation &op : function.getBody().front()) {
    for (OpResult result : op.getResults())
      placeResult(result);
    placeScratch(&op);
  }
}

void FunctionPlacer::writeAttributes() {
  Builder builder(function.getContext());
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() == 0)
      continue;
    SmallVector<Attribute> where, how;
    bool adds = false;
    for (OpResult result : op.getResults()) {
      where.push_back(places.lookup(result).attribute());
      auto mode = modes.find(result);
      how.push_back(plan_ir::AccumulateAttr::get(builder.getContext(),
                                                 mode == modes.end() ? Accumulate::Overwrite : mode->second));
      adds |= mode != modes.end();
    }
    op.setAttr(plan_ir::kPlaces, builder.getArrayAttr(where));
    if (adds)
      op.setAttr(plan_ir::kAccumulate, builder.getArrayAttr(how));
  }
}

} // namespace ztc
