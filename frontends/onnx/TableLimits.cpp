#include "frontends/onnx/TableLimits.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// Indices beyond this many are those of pairs of positions, by distance, which have a row for each.
constexpr int64_t kMostIndices = int64_t(1) << 20;

/// Where a node reads a table: by the indices, or to the ends, of `input`.
struct Lookup {
  const Node *node;
  const Initializer *table;
  unsigned input;
};

/// The initializer that a value is, up to its type.
const Initializer *tableOf(const Model &model, StringRef value) {
  for (const Node *node = model.producer(value); node && (node->op == "Cast" || node->op == "Identity");
       node = model.producer(value))
    value = node->inputs[0];
  return model.initializer(value);
}

std::vector<Lookup> lookupsOf(const Model &model, const Liveness &liveness) {
  std::vector<Lookup> lookups;
  for (const Node &node : model.nodes) {
    const bool isGather = node.signature == "Gather", isSlice = node.signature == "Slice";
    const unsigned input = isGather ? 1 : 2;
    if ((!isGather && !isSlice) || !node.hasInput(input) || liveness.isLive(node.inputs[input]) ||
        model.initializer(node.inputs[input]))
      continue;
    const Initializer *table = tableOf(model, node.inputs[0]);
    if (table && !table->shape.empty() && (isGather || isFloat(table->type)))
      lookups.push_back({&node, table, input});
  }
  return lookups;
}

/// The elements of a node's input, where they are known and not too many; null else.
TensorRef knownInput(Evaluator &evaluator, const Node &node, unsigned input) {
  const KnownValue *value = node.hasInput(input) ? evaluator.shapeOf(node.inputs[input]) : nullptr;
  int64_t count = value ? 1 : kMostIndices + 1;
  for (int64_t size : value ? llvm::ArrayRef<int64_t>(value->shape) : llvm::ArrayRef<int64_t>())
    count = size == 0 || count > kMostIndices ? count * (size != 0) : count * size;
  return count <= kMostIndices ? evaluator.valueOf(node.inputs[input]) : nullptr;
}

/// The dimension of the table in which a lookup asks for rows that it does not have; none where all is there, or not
/// known.
std::optional<int64_t> lackingDimension(const Model &model, const Liveness &liveness, const Lookup &lookup,
                                        Binding binding) {
  Evaluator evaluator(model, liveness, binding);
  const Shape &shape = lookup.table->shape;
  const int64_t rank = int64_t(shape.size());
  TensorRef asked = knownInput(evaluator, *lookup.node, lookup.input);
  if (!asked)
    return std::nullopt;
  if (lookup.input == 1) {
    int64_t axis = lookup.node->integer("axis", 0);
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank)
      return std::nullopt;
    for (int64_t i = 0, n = asked->count(); i < n; ++i)
      if (asked->integer(i) >= shape[axis])
        return axis;
    return std::nullopt;
  }
  TensorRef axes = lookup.node->hasInput(3) ? knownInput(evaluator, *lookup.node, 3) : nullptr;
  if (lookup.node->hasInput(3) && !axes)
    return std::nullopt;
  for (int64_t i = 0, n = asked->count(); i < n; ++i) {
    int64_t axis = axes && i < axes->count() ? axes->integer(i) : i;
    axis += axis < 0 ? rank : 0;
    const int64_t end = asked->integer(i);
    // Larger ends are none.
    if (axis >= 0 && axis < rank && end > shape[axis] && end < std::numeric_limits<int32_t>::max())
      return axis;
  }
  return std::nullopt;
}

} // namespace

std::optional<TableLimit> findTableLimit(const Model &model, const Liveness &liveness, Binding binding) {
  std::optional<TableLimit> least;
  for (const Lookup &lookup : lookupsOf(model, liveness)) {
    auto lacks = [&](int64_t sequence) { return lackingDimension(model, liveness, lookup, {binding.batch, sequence}); };
    const std::optional<int64_t> dimension = lacks(binding.sequence);
    if (!dimension)
      continue;
    // A longer sequence asks for the rows of a shorter one and for more.
    int64_t enough = 0, tooLong = binding.sequence;
    while (tooLong - enough > 1) {
      const int64_t middle = enough + (tooLong - enough) / 2;
      (lacks(middle) ? tooLong : enough) = middle;
    }
    if (enough && (!least || enough < least->sequence))
      least = {enough, lookup.table->shape[*dimension], lookup.table->name};
  }
  return least;
}

std::string describe(const TableLimit &limit) {
  return "the table '" + limit.table + "' has " + std::to_string(limit.rows) + " rows";
}

} // namespace ztc::importer
