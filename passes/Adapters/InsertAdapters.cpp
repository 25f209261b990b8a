#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/ArgumentAttributes.h"
#include "compiler/Verification/Keeps.h"
#include "mlir/IR/Remarks.h"
#include "passes/Adapters/Magnitude.h"
#include "passes/Adapters/Names.h"
#include "passes/Adapters/Passes.h"
#include "passes/Adapters/WeightUses.h"
#include "llvm/ADT/StringMap.h"
#include <cmath>

#define DEBUG_TYPE "ztc-insert-adapters"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_INSERTADAPTERS
#include "passes/Adapters/Passes.h.inc"

namespace {
using graph::Expr;

/// One entry of `graph.adapters`.
struct Entry {
  explicit Entry(DictionaryAttr attributes) : attributes(attributes) {}
  StringRef text(StringRef key) const {
    auto found = attributes.getAs<StringAttr>(key);
    return found ? found.getValue() : StringRef();
  }
  int64_t number(StringRef key) const {
    auto found = attributes.getAs<IntegerAttr>(key);
    return found ? found.getInt() : 0;
  }
  int64_t rank() const { return number("rank"); }
  double scale() const {
    auto found = attributes.getAs<FloatAttr>("scale");
    return found ? found.getValueAsDouble() : 1.0;
  }
  DictionaryAttr source(StringRef key) const { return attributes.getAs<DictionaryAttr>(key); }
  bool has(StringRef key) const { return attributes.contains(key); }

  DictionaryAttr attributes;
};

/// How fresh values are made, as a source.
DictionaryAttr startOf(Builder &builder, StringRef start, double range = 0) {
  return builder.getDictionaryAttr({builder.getNamedAttr("start", builder.getStringAttr(start)),
                                    builder.getNamedAttr("range", builder.getF64FloatAttr(range))});
}

class AdapterInserter {
public:
  explicit AdapterInserter(func::FuncOp forward) : forward(forward), marks(forward), builder(forward.getContext()) {}

  LogicalResult insert(ArrayAttr entries) {
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter))
      parameters.try_emplace(graph::argString(forward, index, graph::kName), forward.getArgument(index));
    // Before anything is inserted: products of adapters must not be found.
    for (Attribute attribute : entries)
      if (auto attributes = dyn_cast<DictionaryAttr>(attribute))
        findProducts(Entry(attributes));
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter))
      marks.set(index, graph::kFrozen, builder.getUnitAttr());
    for (Attribute attribute : entries) {
      auto attributes = dyn_cast<DictionaryAttr>(attribute);
      if (!attributes)
        return emitError(forward.getLoc(), "an entry of graph.adapters is not a dictionary: ") << attribute;
      Entry entry(attributes);
      FailureOr<BlockArgument> weight = parameter(entry);
      if (failed(weight))
        return failure();
      layer = dyn_cast_or_null<IntegerAttr>(marks.get(weight->getArgNumber(), graph::kLayer));
      if (DictionaryAttr base = entry.source("base"))
        marks.set(weight->getArgNumber(), graph::kSource, base);
      StringRef kind = entry.text("kind");
      if (kind == "linear"      ? failed(addLinear(entry, *weight))
          : kind == "embedding" ? failed(addEmbedding(entry, *weight))
          : kind == "copy"      ? failed(addCopy(entry, *weight))
          : kind == "rows"      ? failed(addRows(entry, *weight))
          : kind == "expert"    ? failed(addExpert(entry, *weight))
          : kind == "stack"     ? failed(addStack(entry, *weight))
                                : failed(train(entry, *weight)))
        return failure();
    }
    marks.store();
    dropUnread();
    return success();
  }

private:
  void findProducts(const Entry &entry) {
    const bool isExpert = entry.text("kind") == "expert";
    BlockArgument weight = isExpert || entry.text("kind") == "linear" ? findParameter(entry) : BlockArgument();
    if (!weight)
      return;
    auto products = productsOfWeight.try_emplace(weight, adapters::productsOf(weight)).first;
    if (!isExpert || !products->second)
      return;
    Operation *&first = stacks[entry.text("name")].first;
    for (const adapters::WeightProduct &found : *products->second)
      if (graph::MatmulOp product = found.product; !first || product->isBeforeInBlock(first))
        first = product;
  }

  /// Null where there is none of that name.
  BlockArgument findParameter(const Entry &entry) { return parameters.lookup(entry.text("parameter")); }

  FailureOr<BlockArgument> parameter(const Entry &entry) {
    if (BlockArgument found = findParameter(entry))
      return found;
    return emitError(forward.getLoc(), "an adapter is to stand beside '")
               << entry.text("parameter") << "', which is not a parameter",
           failure();
  }

  /// A trained parameter after all others. `key`: of the entry's source; else it begins as `start` says, where that
  /// is known.
  FailureOr<Expr> add(const Entry &entry, const Twine &name, ArrayRef<int64_t> shape, StringRef key,
                      DictionaryAttr start, Location loc) {
    DictionaryAttr source = entry.source(key);
    if (source) {
      auto stored = source.getAs<DenseI64ArrayAttr>("shape");
      if (stored && stored.asArrayRef() != shape) {
        auto text = [](ArrayRef<int64_t> sizes) {
          return "[" + llvm::join(llvm::map_range(sizes, [](int64_t size) { return std::to_string(size); }), ", ") +
                 "]";
        };
        return emitError(forward.getLoc(), "the adapter's '")
                   << name << "' has the shape " << text(stored.asArrayRef()) << ", the model needs " << text(shape),
               failure();
      }
    }
    auto type = RankedTensorType::get(shape, builder.getF32Type());
    NamedAttrList attributes;
    attributes.push_back(graph::namedRole(builder.getContext(), graph::Role::Parameter));
    attributes.append(graph::kName, builder.getStringAttr(name));
    if (layer)
      attributes.append(graph::kLayer, layer);
    if (source || start)
      attributes.append(graph::kSource, source ? source : start);
    return Expr(builder, loc, marks.append(type, attributes.getDictionary(builder.getContext()), loc));
  }

  struct Factors {
    Expr a, b;
    Value bias;      ///< of B; null where it has none
    Value magnitude; ///< of DoRA, (outputs); null without
  };

  /// A and B of a weight with so many inputs and outputs.
  FailureOr<Factors> addFactors(const Entry &entry, int64_t inputs, int64_t outputs) {
    return addFactors(entry, inputs, outputs, entry.rank(), NameLoc::get(builder.getStringAttr(entry.text("module"))));
  }
  FailureOr<Factors> addFactors(const Entry &entry, int64_t inputs, int64_t outputs, int64_t rank, Location loc) {
    const std::string prefix = entry.text("name").str();
    StringRef start = entry.text("start");
    DictionaryAttr first = startOf(builder, "uniform", 1 / std::sqrt(double(inputs))),
                   second = startOf(builder, "zero");
    if (start == "gaussian")
      first = startOf(builder, "normal", 1 / double(entry.rank()));
    if (start == "orthogonal") {
      first = startOf(builder, "orthogonal_rows", double(entry.rank()));
      second = startOf(builder, "orthogonal_columns", double(entry.rank()));
    }
    FailureOr<Expr> a = add(entry, prefix + ".lora_A.weight", {rank, inputs}, "a", first, loc);
    if (failed(a))
      return failure();
    FailureOr<Expr> b = add(entry, prefix + ".lora_B.weight", {outputs, rank}, "b", second, loc);
    if (failed(b))
      return failure();
    Factors factors{*a, *b, {}, {}};
    if (entry.has("has_bias")) {
      FailureOr<Expr> bias = add(entry, prefix + ".lora_B.bias", {outputs}, "bias", startOf(builder, "zero"), loc);
      if (failed(bias))
        return failure();
      factors.bias = bias->value();
    }
    if (failed(addMagnitude(entry, outputs, factors)))
      return failure();
    return factors;
  }

  /// Fresh ones are the norms of the weight's rows, which are known where the weight is: when it is loaded.
  LogicalResult addMagnitude(const Entry &entry, int64_t outputs, Factors &factors) {
    if (!entry.has("dora"))
      return success();
    FailureOr<Expr> magnitude = add(entry, entry.text("name") + ".lora_magnitude_vector", {outputs}, "magnitude",
                                    startOf(builder, "one"), factors.a.loc());
    if (failed(magnitude))
      return failure();
    factors.magnitude = magnitude->value();
    return success();
  }

  /// What DoRA multiplies each output by.
  Expr magnitudeFactors(const Entry &entry, Value weight, bool isOutputFirst, const Factors &factors) {
    const Expr w = factors.a.with(weight);
    return adapters::magnitudeOverNorm({w, isOutputFirst, factors.a, factors.b, entry.scale()},
                                       w.with(factors.magnitude));
  }

  /// The factors of one expert of a stack, which all of them share as PEFT has them: A (experts * rank, inputs), expert
  /// after expert, and B (outputs, rank * experts), where the expert is the fastest.
  LogicalResult addExpert(const Entry &entry, BlockArgument weight) {
    const auto &products = productsOfWeight[weight];
    if (!products)
      return emitError(forward.getLoc(), "'")
             << entry.text("parameter") << "' is used in another way than a product: it can have no adapter";
    const int64_t rank = entry.rank(), experts = entry.number("experts"), outputs = entry.number("outputs");
    auto type = cast<RankedTensorType>(weight.getType());
    const int64_t own = type.getDimSize(products->front().isOutputFirst ? 0 : 1), inputs = type.getNumElements() / own;
    Stack &stack = stacks[entry.text("name")];
    if (!stack.a) {
      Location loc = NameLoc::get(builder.getStringAttr(entry.text("module")));
      FailureOr<Factors> all = addFactors(entry, inputs, outputs, experts * rank, loc);
      if (failed(all))
        return failure();
      // Expert after expert too, once for all of them.
      builder.setInsertionPoint(stack.first);
      Expr byExpert = graph::transpose(graph::reshape(all->b, {outputs, rank, experts}), {2, 0, 1});
      stack.a = all->a.value();
      stack.b = graph::reshape(byExpert, {experts * outputs, rank}).value();
    }
    for (const adapters::WeightProduct &found : *products) {
      builder.setInsertionPoint(found.product); // what stands beside it comes right after it
      Location loc = NameLoc::get(builder.getStringAttr(entry.text("module")));
      const int64_t expert = entry.number("expert");
      const Expr a = graph::slice(Expr(builder, loc, stack.a), {expert * rank, 0}, {rank, inputs}),
                 b = graph::slice(a.with(stack.b), {expert * outputs + entry.number("first_output"), 0}, {own, rank});
      addBeside(entry, weight, found, {a, b, {}, {}}, std::nullopt);
    }
    return success();
  }

  /// An expert's matrix in a stack, and the products with it.
  struct OfStack {
    int64_t expert;
    Value matrix;
    SmallVector<adapters::WeightProduct> products;
  };

  /// Nothing where the stack is read in another way than expert by expert, each as a factor of products.
  static std::optional<SmallVector<OfStack>> expertsOf(BlockArgument stack) {
    auto type = cast<RankedTensorType>(stack.getType());
    SmallVector<OfStack> experts;
    for (Operation *user : stack.getUsers()) {
      auto slice = dyn_cast<graph::SliceOp>(user);
      auto one = slice ? cast<RankedTensorType>(slice.getY().getType()) : RankedTensorType();
      if (!one || one.getDimSize(0) != 1 || one.getShape().drop_front() != type.getShape().drop_front())
        return std::nullopt;
      for (Operation *reader : slice.getY().getUsers()) {
        auto matrix = dyn_cast<graph::ReshapeOp>(reader);
        if (!matrix || cast<RankedTensorType>(matrix.getType()).getShape() != type.getShape().drop_front())
          return std::nullopt;
        auto products = adapters::productsOf(matrix.getResult());
        if (!products)
          return std::nullopt;
        experts.push_back({slice.getOffsets()[0], matrix.getResult(), std::move(*products)});
      }
    }
    return experts.empty() ? std::nullopt : std::optional(std::move(experts));
  }

  /// The factors of a stack that is one parameter, as PEFT's ParamWrapper has them: A (experts * rank, inputs), expert
  /// after expert, and B (outputs, rank * experts), where the expert is the fastest. `swapped`: A has a column for each
  /// output, and B a row for each input.
  LogicalResult addStack(const Entry &entry, BlockArgument weight) {
    auto type = cast<RankedTensorType>(weight.getType());
    const auto parts = type.getRank() == 3 ? expertsOf(weight) : std::nullopt;
    if (!parts)
      return emitError(forward.getLoc(), "'")
             << entry.text("parameter")
             << "' cannot have an adapter: it is not a stack of matrices that are each a factor of products";
    const bool isOutputFirst = parts->front().products.front().isOutputFirst, isSwapped = entry.has("swapped");
    const int64_t rank = entry.rank(), experts = type.getDimSize(0);
    const int64_t columns = type.getDimSize(isOutputFirst != isSwapped ? 2 : 1),
                  rows = type.getDimSize(isOutputFirst != isSwapped ? 1 : 2);
    Location loc = NameLoc::get(builder.getStringAttr(entry.text("module")));
    FailureOr<Factors> all = addFactors(entry, columns, rows, experts * rank, loc);
    if (failed(all))
      return failure();
    Operation *first = nullptr;
    for (const OfStack &part : *parts)
      for (const adapters::WeightProduct &found : part.products)
        if (graph::MatmulOp product = found.product; !first || product->isBeforeInBlock(first))
          first = product;
    builder.setInsertionPoint(first);
    const Expr byExpert = graph::reshape(graph::transpose(graph::reshape(all->b, {rows, rank, experts}), {2, 0, 1}),
                                         {experts * rows, rank});
    for (const OfStack &part : *parts)
      for (const adapters::WeightProduct &found : part.products) {
        if (found.isOutputFirst != isOutputFirst)
          return emitError(forward.getLoc(), "'")
                 << entry.text("parameter") << "' is a factor in two orientations: it can have no adapter";
        builder.setInsertionPoint(found.product);
        Expr a = graph::slice(all->a, {part.expert * rank, 0}, {rank, columns}),
             b = graph::slice(byExpert, {part.expert * rows, 0}, {rows, rank});
        if (isSwapped) {
          const Expr ofOutputs = graph::transpose(a, {1, 0});
          a = graph::transpose(b, {1, 0});
          b = ofOutputs;
        }
        addBeside(entry, part.matrix, found, {a, b, {}, {}}, std::nullopt);
      }
    return success();
  }

  LogicalResult addLinear(const Entry &entry, BlockArgument weight) {
    auto type = cast<RankedTensorType>(weight.getType());
    if (type.getRank() != 2)
      return emitError(forward.getLoc(), "'") << entry.text("parameter") << "' is not a matrix: it can have no adapter";
    const std::optional<SmallVector<adapters::WeightProduct>> &products = productsOfWeight[weight];
    const bool isOutputFirst = !products || products->front().isOutputFirst;
    const int64_t outputs = type.getDimSize(isOutputFirst ? 0 : 1), inputs = type.getDimSize(isOutputFirst ? 1 : 0);
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : weight.getUses())
      if (!adapters::isLookup(use))
        uses.push_back(&use);
    FailureOr<Factors> factors = addFactors(entry, inputs, outputs);
    if (failed(factors))
      return failure();
    if (!products)
      return addToWeight(entry, weight, uses, *factors);
    std::optional<Expr> magnitudes;
    if (factors->magnitude) {
      // Beside the first product: at stage 3 that is where the weight is at hand.
      builder.setInsertionPoint(llvm::min_element(*products, [](const auto &a, const auto &b) {
                                  return a.product->isBeforeInBlock(b.product);
                                })->product);
      magnitudes = magnitudeFactors(entry, weight, isOutputFirst, *factors);
    }
    for (const adapters::WeightProduct &found : *products)
      addBeside(entry, weight, found, *factors, magnitudes);
    return success();
  }

  /// The rows of a matrix, or the elements of a vector, that make a window of outputs.
  static Expr within(const Expr &all, const adapters::Window &outputs, int64_t axis = 0) {
    if (outputs.count == all.dim(axis))
      return all;
    SmallVector<int64_t> offsets(all.rank(), 0), sizes(all.type().getShape());
    offsets[axis] = outputs.begin;
    sizes[axis] = outputs.count;
    return graph::slice(all, offsets, sizes);
  }

  /// The sum of the product and scale * (x A^T) B^T, in the columns that the weight makes. With magnitudes (DoRA) the
  /// sum times these; where x is dropped out, the product with the weight has its factor of the dropped x as well:
  /// y + (c - 1) (x' W^T) + c scale (x' A^T) B^T, as PEFT computes it.
  void addBeside(const Entry &entry, Value weight, const adapters::WeightProduct &found, const Factors &factors,
                 const std::optional<Expr> &magnitudes) {
    graph::MatmulOp product = found.product;
    builder.setInsertionPointAfter(product);
    Location loc = factors.a.loc();
    Expr x(builder, loc, product.getA());
    bool transposes = product.getTransposeA();
    FloatAttr dropout = entry.attributes.getAs<FloatAttr>("dropout");
    if (dropout) {
      if (transposes)
        x = graph::transpose(x, {1, 0});
      transposes = false;
      x = x.with(
          graph::DropoutOp::create(builder, loc, x.value(), entry.attributes.getAs<StringAttr>("name"), dropout));
    }
    Expr hidden = graph::matmul(x, factors.a, transposes, /*transposeB=*/true);
    if (entry.scale() != 1)
      hidden = hidden * entry.scale();
    const adapters::Window &outputs = found.outputs;
    Expr added = graph::matmul(hidden, within(factors.b, outputs), false, /*transposeB=*/true);
    if (factors.bias) {
      Expr bias = within(Expr(builder, loc, factors.bias), outputs);
      added = added + graph::broadcastLike(bias * entry.scale(), added);
    }
    if (magnitudes && dropout) {
      const Expr w = within(x.with(weight), outputs, found.isOutputFirst ? 0 : 1);
      const Expr dropped = graph::matmul(x, w, false, /*transposeB=*/found.isOutputFirst);
      const Expr factor = within(*magnitudes, outputs);
      added = adapters::scaleColumns(dropped, factor - 1.0, 0) + adapters::scaleColumns(added, factor, 0);
    }
    auto type = cast<RankedTensorType>(product.getType());
    if (outputs.count != type.getDimSize(1))
      added = added.with(
          graph::PadOp::create(builder, loc, type, added.value(), builder.getDenseI64ArrayAttr({0, outputs.offset})));
    Expr sum = Expr(builder, product.getLoc(), product) + added, result = sum;
    if (magnitudes && !dropout)
      result = adapters::scaleColumns(sum, within(*magnitudes, outputs), outputs.offset);
    product.getResult().replaceAllUsesExcept(result.value(), sum.value().getDefiningOp());
  }

  /// The weight's readers take weight + scale * B A instead.
  LogicalResult addToWeight(const Entry &entry, BlockArgument weight, ArrayRef<OpOperand *> uses,
                            const Factors &factors) {
    if (factors.bias)
      return emitError(forward.getLoc(), "'")
             << entry.text("parameter") << "' is used in another way than a product: its adapter can have no bias "
             << "(lora_bias)";
    if (entry.has("dropout"))
      return emitError(forward.getLoc(), "'")
             << entry.text("parameter") << "' is used in another way than a product: its "
             << "adapter can have no dropout (lora_dropout)";
    builder.setInsertionPointToStart(&forward.getBody().front());
    Expr delta = graph::matmul(factors.b, factors.a) * entry.scale();
    Expr sum = Expr(builder, factors.a.loc(), weight) + delta;
    if (factors.magnitude) {
      Expr factor = magnitudeFactors(entry, weight, /*isOutputFirst=*/true, factors);
      sum = sum * graph::broadcastLike(graph::reshape(factor, {factor.dim(0), 1}), sum);
    }
    for (OpOperand *use : uses)
      use->set(sum.value());
    remark::missed(forward.getLoc(), remark::RemarkOpts::name("adapters").category(DEBUG_TYPE).function("forward"))
        << "the weight " << entry.text("parameter")
        << " is added to its adapter as a whole: it is used in another way than a product";
    return success();
  }

  LogicalResult addEmbedding(const Entry &entry, BlockArgument table) {
    auto type = cast<RankedTensorType>(table.getType());
    Location loc = NameLoc::get(builder.getStringAttr(entry.text("module")));
    const std::string prefix = entry.text("name").str();
    FailureOr<Expr> a = add(entry, prefix + ".lora_embedding_A", {entry.rank(), type.getDimSize(0)}, "a",
                            startOf(builder, "zero"), loc);
    FailureOr<Expr> b = add(entry, prefix + ".lora_embedding_B", {type.getDimSize(1), entry.rank()}, "b",
                            startOf(builder, "normal", 1), loc);
    if (failed(a) || failed(b))
      return failure();
    Factors factors{*a, *b, {}, {}};
    if (failed(addMagnitude(entry, type.getDimSize(1), factors)))
      return failure();
    SmallVector<graph::EmbeddingOp> lookups;
    for (Operation *user : table.getUsers())
      if (auto lookup = dyn_cast<graph::EmbeddingOp>(user); lookup && lookup.getTable() == table)
        lookups.push_back(lookup);
    std::optional<Expr> magnitudes;
    if (factors.magnitude && !lookups.empty()) {
      builder.setInsertionPoint(*llvm::min_element(
          lookups, [](graph::EmbeddingOp a, graph::EmbeddingOp b) { return a->isBeforeInBlock(b); }));
      magnitudes = magnitudeFactors(entry, table, /*isOutputFirst=*/false, factors);
    }
    for (graph::EmbeddingOp lookup : lookups) {
      builder.setInsertionPointAfter(lookup);
      auto result = cast<RankedTensorType>(lookup.getType());
      SmallVector<int64_t> shape(result.getShape());
      shape.back() = entry.rank();
      Expr rows =
          a->with(graph::EmbeddingOp::create(builder, loc, result.clone(shape), graph::transpose(*a, {1, 0}).value(),
                                             lookup.getIndices(), lookup.getPaddingAttr()));
      rows = graph::reshape(rows, {result.getNumElements() / result.getShape().back(), entry.rank()});
      Expr added = graph::reshape(graph::matmul(rows * entry.scale(), *b, false, true), result.getShape());
      Expr sum = Expr(builder, lookup.getLoc(), lookup) + added;
      const Expr whole = magnitudes ? adapters::scaleColumns(sum, *magnitudes, 0) : sum;
      lookup.getResult().replaceAllUsesExcept(whole.value(), sum.value().getDefiningOp());
    }
    return success();
  }

  /// Lookups of some rows of a table find trained ones in their place, and so does a head that is the same tensor.
  LogicalResult addRows(const Entry &entry, BlockArgument table) {
    auto type = cast<RankedTensorType>(table.getType());
    auto rows = entry.attributes.getAs<DenseI64ArrayAttr>("rows");
    if (!rows || rows.empty())
      return emitError(forward.getLoc(), "'") << entry.text("parameter") << "' has no list of rows that are trained";
    Location loc = NameLoc::get(builder.getStringAttr(entry.text("module")));
    FailureOr<Expr> trained =
        add(entry, entry.text("name"), {rows.size(), type.getDimSize(1)}, "source", startOf(builder, "zero"), loc);
    if (failed(trained))
      return failure();
    for (Operation *user : llvm::to_vector(table.getUsers())) {
      auto lookup = dyn_cast<graph::EmbeddingOp>(user);
      if (!lookup || lookup.getTable() != table)
        continue;
      builder.setInsertionPointAfter(lookup);
      const Expr looked(builder, loc, lookup), token = looked.with(lookup.getIndices());
      // Which of the trained rows it is, -1 where it is none.
      Expr place = graph::constantLike(token, -1);
      for (auto [number, row] : llvm::enumerate(rows.asArrayRef()))
        place = graph::select(token == graph::constantLike(token, double(row)),
                              graph::constantLike(token, double(number)), place);
      const Expr zero = graph::zeroLike(token), isTrained = place >= zero;
      // Lookups of the padding row give it no gradient where it is trained either.
      const auto *padding = llvm::find(rows.asArrayRef(), int64_t(lookup.getPadding().value_or(-1)));
      const Expr found = looked.with(graph::EmbeddingOp::create(
          builder, loc, lookup.getType(), trained->value(), graph::select(isTrained, place, zero).value(),
          padding == rows.asArrayRef().end() ? IntegerAttr()
                                             : builder.getI64IntegerAttr(padding - rows.asArrayRef().begin())));
      SmallVector<int64_t> shape(token.type().getShape());
      shape.push_back(1);
      const Expr mask = graph::broadcast(graph::reshape(isTrained, shape), looked.type().getShape());
      Expr result = graph::select(mask, found, looked);
      lookup.getResult().replaceAllUsesExcept(result.value(), result.value().getDefiningOp());
    }
    replaceRows(table, rows.asArrayRef(), *trained);
    return success();
  }

  /// All uses of the table but lookups read it with the trained rows in their places, by a scatter: its derivative is a
  /// lookup of these few rows in the gradient of the whole.
  void replaceRows(BlockArgument table, ArrayRef<int64_t> rows, const Expr &trained) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : table.getUses())
      if (!adapters::isLookup(use))
        uses.push_back(&use);
    if (uses.empty())
      return;
    builder.setInsertionPoint((*llvm::min_element(uses, [](OpOperand *a, OpOperand *b) {
                                return a->getOwner()->isBeforeInBlock(b->getOwner());
                              }))->getOwner());
    const Expr weight = trained.with(table);
    const auto numbers = RankedTensorType::get({int64_t(rows.size())}, builder.getI32Type());
    const Expr places = weight.with(graph::ConstantOp::create(
        builder, weight.loc(), DenseIntElementsAttr::get(numbers, SmallVector<int32_t>(rows.begin(), rows.end()))));
    auto scattered = [&](const Expr &values) {
      auto type = values.type().clone({weight.dim(0), values.dim(1)});
      return weight.with(graph::EmbeddingGradOp::create(builder, weight.loc(), type, places.value(), values.value()));
    };
    const auto column = trained.type().clone({int64_t(rows.size()), 1});
    const Expr marks = scattered(weight.with(graph::makeConstant(builder, weight.loc(), column, 1)));
    const Expr isTrained = graph::broadcastLike(marks > graph::zeroLike(marks), weight);
    const Expr replaced = scattered(trained) + graph::select(isTrained, graph::zeroLike(weight), weight);
    for (OpOperand *use : uses)
      use->set(replaced.value());
  }

  /// Whether an entry is about this use: of a tied tensor the table and the head are two modules.
  static bool isMeant(const Entry &entry, OpOperand &use) {
    StringRef only = entry.text("uses");
    return only.empty() || (only == "lookups") == adapters::isLookup(use);
  }

  LogicalResult addCopy(const Entry &entry, BlockArgument weight) {
    auto type = cast<RankedTensorType>(weight.getType());
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : weight.getUses())
      if (isMeant(entry, use))
        uses.push_back(&use);
    auto source = dyn_cast_or_null<DictionaryAttr>(marks.get(weight.getArgNumber(), graph::kSource));
    FailureOr<Expr> copy = add(entry, entry.text("name"), type.getShape(), "source", source, weight.getLoc());
    if (failed(copy))
      return failure();
    for (OpOperand *use : uses)
      use->set(copy->value());
    return success();
  }

  LogicalResult train(const Entry &entry, BlockArgument weight) {
    const unsigned index = weight.getArgNumber();
    marks.set(index, graph::kName, builder.getStringAttr(entry.text("name")));
    if (DictionaryAttr source = entry.source("source"))
      marks.set(index, graph::kSource, source);
    marks.remove(index, graph::kFrozen);
    marks.remove(index, graph::kTied);
    return success();
  }

  /// What copies have taken the place of.
  void dropUnread() {
    BitVector unread(forward.getNumArguments());
    for (unsigned index : graph::argumentsWithRole(forward, graph::Role::Parameter))
      if (forward.getArgument(index).use_empty())
        unread.set(index);
    (void)forward.eraseArguments(unread);
  }

  func::FuncOp forward;
  ArgumentAttributes marks;
  llvm::StringMap<BlockArgument> parameters; ///< of the model
  OpBuilder builder;
  IntegerAttr layer; ///< the block of the current entry's weight
  DenseMap<Value, std::optional<SmallVector<adapters::WeightProduct>>> productsOfWeight;
  /// The factors that the experts of one stack share.
  struct Stack {
    Operation *first = nullptr; ///< product with a weight of it
    Value a, b;                 ///< (experts * rank, inputs) and (experts * outputs, rank)
  };
  llvm::StringMap<Stack> stacks;
};

struct InsertAdapters : impl::InsertAdaptersBase<InsertAdapters>, SaysWhatItKeeps {
  /// Fresh adapters add nothing to the model; trained ones are there to change it.
  Keeps keeps() const override { return Keeps::Changes; }
  void runOnOperation() override {
    auto entries = getOperation()->getAttrOfType<ArrayAttr>(adapters::kAdapters);
    if (!entries)
      return;
    auto forward = graph::findEntry(getOperation(), graph::Entry::Forward);
    if (!forward || forward.isExternal()) {
      getOperation().emitError("has no function @forward with a body");
      return signalPassFailure();
    }
    if (failed(AdapterInserter(forward).insert(entries)))
      return signalPassFailure();
    getOperation()->removeAttr(adapters::kAdapters);
  }
};
} // namespace
} // namespace ztc
