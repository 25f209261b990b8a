#include "passes/Sharding/BucketLayout.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Rates.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "runtime/Format/BlockState.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <tuple>

using namespace mlir;

namespace ztc {
namespace {

/// Buckets stand in the order in which a forward pass reads them.
enum class Section { Embedding, Block, Rest, Head };

struct BucketKey {
  Section section;
  int64_t layer;
  bool frozen;
  llvm::StringRef format; ///< of weights in fewer bits, else empty
  bool kept;              ///< in f32 where the module's policy stores parameters in a narrower type
  bool wide;              ///< states in f32 where the module stores others in blocks of 8-bit codes
  bool codes;             ///< products in fp8 alone read it: ranks may gather its codes
  bool matrices;          ///< what Muon updates: it has other states, and is gathered for its update
  bool operator<(const BucketKey &other) const {
    return std::tie(section, layer, frozen, format, kept, wide, codes, matrices) <
           std::tie(other.section, other.layer, other.frozen, other.format, other.kept, other.wide, other.codes,
                    other.matrices);
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

void placeParameters(BucketPlan &bucket, std::vector<PlacedParameter> &parameters) {
  llvm::stable_sort(bucket.parameters, [&](unsigned a, unsigned b) {
    const PlacedParameter &left = parameters[a], &right = parameters[b];
    if (left.decayed != right.decayed)
      return left.decayed;
    if (left.rate != right.rate)
      return left.rate < right.rate;
    return matrixRank(left.name) < matrixRank(right.name);
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

const PlacedParameter *BucketLayout::find(StringRef name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &parameters[found->second];
}

FailureOr<BucketLayout> layOutBuckets(func::FuncOp function) {
  BucketLayout layout;
  std::map<BucketKey, std::vector<unsigned>> members;
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
    members[{section, section == Section::Block ? layer : -1, !parameter.trainable, format, kept, wide,
             isReadByFp8ProductsAlone(function.getArgument(index)), parameter.changeFactor.has_value()}]
        .push_back(layout.parameters.size());
    layout.parameters.push_back(parameter);
  }
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
