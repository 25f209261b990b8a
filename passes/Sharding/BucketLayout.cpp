#include "passes/Sharding/BucketLayout.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Rates.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Dialect/Graph/UpdateTime.h"
#include "runtime/Format/BlockState.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <tuple>

using namespace mlir;

namespace ztc {
namespace {

/// Buckets stand in the order in which a forward pass reads them.
enum class Section { Embedding, Block, Rest, Head };

/// Of the first block's buckets where they are cut: what is read first, what is read last, and of both what has no
/// weight decay. That is little, and apart from it the update of all other elements is that of embedding and head.
enum class Part { First, Tail, Undecayed };

struct BucketKey {
  Section section;
  int64_t layer;
  Part part;
  bool frozen;
  llvm::StringRef format; ///< of weights in fewer bits, else empty
  bool kept;              ///< in f32 where the module's policy stores parameters in a narrower type
  bool wide;              ///< states in f32 where the module stores others in blocks of 8-bit codes
  bool codes;             ///< products in fp8 alone read it: ranks may gather its codes
  bool matrices;          ///< what Muon updates: it has other states, and is gathered for its update
  bool operator<(const BucketKey &other) const {
    return std::tie(section, layer, part, frozen, format, kept, wide, codes, matrices) <
           std::tie(other.section, other.layer, other.part, other.frozen, other.format, other.kept, other.wide,
                    other.codes, other.matrices);
  }
};

Section sectionOf(BlockArgument argument, int64_t layer) {
  bool head = false;
  for (OpOperand &use : argument.getUses()) {
    if (auto embedding = dyn_cast<graph::EmbeddingOp>(use.getOwner()); embedding && embedding.getTable() == argument)
      return Section::Embedding;
    if (auto loss = dyn_cast<graph::LinearCrossEntropyOp>(use.getOwner()))
      head |= loss.getHead() == argument;
  }
  if (head)
    return Section::Head;
  return layer >= 0 ? Section::Block : Section::Rest;
}

/// Rank of a matrix inside its block: those that one product may read together are neighbours. Of adapters these are
/// the first factors, which read what the weights read.
unsigned matrixRank(StringRef name) {
  static constexpr StringLiteral order[] = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                            "gate_proj", "up_proj", "down_proj"};
  const unsigned base = name.contains(".lora_B.") ? std::size(order) + 1 : 0;
  for (auto [rank, part] : llvm::enumerate(order))
    if (name.contains(part))
      return base + rank;
  return base + std::size(order);
}

/// The concatenation of parameters that reads `argument`, as of experts' matrices; null where none does.
graph::ConcatOp stackOf(BlockArgument argument) {
  for (Operation *user : argument.getUsers())
    if (auto concat = dyn_cast<graph::ConcatOp>(user);
        concat && llvm::all_of(concat.getInputs(), [](Value input) { return isa<BlockArgument>(input); }))
      return concat;
  return {};
}

bool isReadByFp8ProductsAlone(BlockArgument argument) {
  return !argument.use_empty() && llvm::all_of(argument.getUsers(), [](Operation *user) {
    return isa<graph::MatmulOp>(user) && user->hasAttr(graph::kFp8);
  });
}

std::string bucketName(const BucketKey &key) {
  std::string name;
  switch (key.section) {
  case Section::Embedding:
    name = "embedding";
    break;
  case Section::Block:
    name = "block" + std::to_string(key.layer);
    if (key.part != Part::First)
      name += key.part == Part::Tail ? "_tail" : "_undecayed";
    break;
  case Section::Rest:
    name = "rest";
    break;
  case Section::Head:
    name = "head";
    break;
  }
  if (key.frozen)
    name += "_frozen";
  if (!key.format.empty())
    return name + "_" + key.format.str();
  if (key.matrices)
    name += "_muon";
  if (key.wide)
    name += "_f32_states";
  if (key.codes)
    name += "_fp8";
  return key.kept ? name + "_f32" : name;
}

using BucketMembers = std::map<BucketKey, std::vector<unsigned>>;

/// The first op that reads `value`, or a value computed from it alone (a transposed weight). Null if it has no uses.
Operation *firstReader(Value value) {
  Operation *first = nullptr;
  for (Operation *user : value.getUsers())
    if (!first || user->isBeforeInBlock(first))
      first = user;
  if (first && first->getNumOperands() == 1 && first->getNumResults() == 1)
    if (Operation *next = firstReader(first->getResult(0)))
      return next;
  return first;
}

/// A bucket in two: what is read first, half of the elements at most, and the rest. Matrices that are multiplied by
/// one value stay together (they may become one product), and so do those of one stack. No second part where one of the
/// two would be small.
std::vector<unsigned> takeTail(std::vector<unsigned> &members, const std::vector<PlacedParameter> &parameters,
                               ArrayRef<BlockArgument> arguments) {
  /// Below that a transfer is latency for the most part: some ten microseconds at 50 GB/s.
  constexpr int64_t kLeastBytes = 512 * 1024;
  struct Group {
    Operation *reader = nullptr; ///< the first
    Value factor;                ///< what it multiplies them by
    std::vector<unsigned> members;
    int64_t elements = 0;
  };
  SmallVector<Group> groups;
  int64_t elements = 0;
  for (unsigned member : members) {
    Operation *reader = firstReader(arguments[member]);
    if (!reader)
      return {};
    graph::ConcatOp stack = stackOf(arguments[member]);
    const Value factor = stack                                               ? stack.getY()
                         : isa<graph::MatmulOp, graph::MatmulBiasOp>(reader) ? reader->getOperand(0)
                                                                             : Value();
    auto *group = llvm::find_if(groups, [&](const Group &one) { return factor && one.factor == factor; });
    if (group == groups.end())
      group = &groups.emplace_back(Group{reader, factor, {}, 0});
    else if (reader->isBeforeInBlock(group->reader))
      group->reader = reader;
    group->members.push_back(member);
    group->elements += parameters[member].type.getNumElements();
    elements += parameters[member].type.getNumElements();
  }
  llvm::stable_sort(groups, [](const Group &a, const Group &b) { return a.reader->isBeforeInBlock(b.reader); });
  int64_t head = 0;
  const auto *cut = groups.begin();
  for (; cut != groups.end() && head + cut->elements <= elements / 2; ++cut)
    head += cut->elements;
  const int64_t bits = parameters[members.front()].type.getElementTypeBitWidth();
  if (std::min(head, elements - head) * bits / 8 < kLeastBytes)
    return {};
  std::vector<unsigned> tail;
  for (; cut != groups.end(); ++cut)
    tail.insert(tail.end(), cut->members.begin(), cut->members.end());
  llvm::sort(tail);
  llvm::erase_if(members, [&](unsigned member) { return llvm::is_contained(tail, member); });
  return tail;
}

/// Nothing is computed while the first block is gathered, and nothing after its gradients are there: its buckets are
/// cut in two, so that one part's transfer hides in the other's computation. Clipping by blocks needs whole ones.
void cutFirstBlock(BucketMembers &buckets, func::FuncOp function, const std::vector<PlacedParameter> &parameters,
                   ArrayRef<BlockArgument> arguments) {
  int64_t first = -1, last = -1;
  for (const auto &[key, members] : buckets)
    if (key.section == Section::Block) {
      first = first < 0 ? key.layer : first;
      last = key.layer;
    }
  if (first == last || graph::updatesInBackward(function->getParentOfType<ModuleOp>()))
    return;
  BucketMembers others;
  for (auto &[key, members] : buckets)
    if (key.section == Section::Block && key.layer == first) {
      std::vector<unsigned> tail = takeTail(members, parameters, arguments);
      if (tail.empty())
        continue;
      BucketKey other = key;
      other.part = Part::Undecayed;
      for (std::vector<unsigned> *part : {&members, &tail})
        if (llvm::any_of(*part, [&](unsigned member) { return parameters[member].decayed; }))
          llvm::erase_if(*part, [&](unsigned member) {
            if (!parameters[member].decayed)
              others[other].push_back(member);
            return !parameters[member].decayed;
          });
      other.part = Part::Tail;
      others[other] = std::move(tail);
    }
  buckets.merge(others);
}

void placeParameters(BucketPlan &bucket, std::vector<PlacedParameter> &parameters) {
  llvm::stable_sort(bucket.parameters, [&](unsigned a, unsigned b) {
    const PlacedParameter &left = parameters[a], &right = parameters[b];
    if (left.decayed != right.decayed)
      return left.decayed;
    if (left.rate != right.rate)
      return left.rate < right.rate;
    const unsigned leftRank = matrixRank(left.name), rightRank = matrixRank(right.name);
    return leftRank != rightRank ? leftRank < rightRank : left.stack < right.stack;
  });
  for (unsigned index : bucket.parameters) {
    PlacedParameter &parameter = parameters[index];
    parameter.offset = llvm::alignTo(bucket.elements, bucket.quantum ? bucket.quantum : dist::kParameterAlignment);
    bucket.elements = parameter.offset + parameter.type.getNumElements();
    if (parameter.decayed)
      bucket.decayed = bucket.elements;
  }
}

} // namespace

void BucketLayout::numberStacks(ArrayRef<BlockArgument> arguments) {
  llvm::DenseMap<Operation *, unsigned> firsts;
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    graph::ConcatOp stack = stackOf(argument);
    parameters[index].stack = stack ? firsts.try_emplace(stack, index).first->second : index;
  }
}

const PlacedParameter *BucketLayout::find(StringRef name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &parameters[found->second];
}

FailureOr<BucketLayout> layOutBuckets(func::FuncOp function) {
  BucketLayout layout;
  BucketMembers members;
  SmallVector<BlockArgument> values;
  SmallVector<unsigned> arguments = graph::argumentsWithRole(function, graph::Role::Parameter);
  bool mixed =
      llvm::any_of(arguments, [&](unsigned index) { return graph::isNarrow(function.getArgumentTypes()[index]); });
  const bool inBlocks =
      llvm::any_of(arguments, [&](unsigned index) { return function.getArgAttr(index, graph::kBlockStates); });
  for (unsigned index : arguments) {
    PlacedParameter parameter;
    parameter.name = function.getArgAttrOfType<StringAttr>(index, graph::kName);
    parameter.type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[index]);
    if (!parameter.name || !parameter.type)
      return function.emitOpError("argument ") << index << " is a parameter without a name or of no tensor type",
             failure();
    parameter.tied = function.getArgAttrOfType<ArrayAttr>(index, graph::kTied);
    parameter.source = function.getArgAttrOfType<DictionaryAttr>(index, graph::kSource);
    parameter.trainable = !graph::isFrozen(function, index);
    parameter.decayed = !function.getArgAttr(index, graph::kNoDecay);
    if (auto rate = function.getArgAttrOfType<FloatAttr>(index, graph::kRate))
      parameter.rate = rate.getValueAsDouble();
    if (auto factor = function.getArgAttrOfType<FloatAttr>(index, graph::kChangeFactor))
      parameter.changeFactor = factor.getValueAsDouble();
    if (!layout.byName.try_emplace(parameter.name.getValue(), layout.parameters.size()).second)
      return function.emitOpError("two parameters are called ") << parameter.name, failure();
    auto number = function.getArgAttrOfType<IntegerAttr>(index, graph::kLayer);
    const int64_t layer = number ? number.getInt() : -1;
    Section section = sectionOf(function.getArgument(index), layer);
    const bool isBytes = parameter.type.getElementType().isInteger(8);
    auto stored = function.getArgAttrOfType<graph::WeightFormatAttr>(index, graph::kQuantized);
    const StringRef format = isBytes && stored ? graph::stringifyWeightFormat(stored.getValue()) : StringRef();
    const bool kept = mixed && !isBytes && !graph::isNarrow(parameter.type);
    const bool wide = inBlocks && parameter.trainable && !function.getArgAttr(index, graph::kBlockStates);
    members[{section, section == Section::Block ? layer : -1, Part::First, !parameter.trainable, format, kept, wide,
             isReadByFp8ProductsAlone(function.getArgument(index)), parameter.changeFactor.has_value()}]
        .push_back(layout.parameters.size());
    layout.parameters.push_back(parameter);
    values.push_back(function.getArgument(index));
  }
  layout.numberStacks(values);
  cutFirstBlock(members, function, layout.parameters, values);
  for (auto &[key, indices] : members) {
    BucketPlan bucket;
    bucket.name = bucketName(key);
    bucket.elementType = layout.parameters[indices.front()].type.getElementType();
    bucket.trainable = !key.frozen;
    bucket.isOfMatrices = key.matrices;
    bucket.layer = key.layer;
    bucket.parameters = indices;
    bucket.quantum = inBlocks && bucket.trainable && !key.wide ? kStateBlock : 0;
    for (unsigned index : indices)
      layout.parameters[index].bucket = layout.buckets.size();
    placeParameters(bucket, layout.parameters);
    layout.buckets.push_back(std::move(bucket));
  }
  return layout;
}

} // namespace ztc
