#include "compiler/Dialect/Graph/Experts.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "mlir/IR/Remarks.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Mixture.h"
#include "passes/Autodiff/Passes.h"
#include <deque>

#define DEBUG_TYPE "ztc-group-gathered-products"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_GROUPGATHEREDPRODUCTS
#include "passes/Autodiff/Passes.h.inc"

namespace {

using graph::tensorOf;

/// A product of each row with a matrix that is looked up for it.
struct GatheredProduct {
  graph::MatmulOp product;
  graph::EmbeddingOp lookup;
  Value rows;                     ///< (R, K, 1) or (R, 1, K)
  bool outputsFirst;              ///< matrices are (N, K)
  int64_t count, outputs, inputs; ///< E, N, K

  /// The product as such; nothing where it is another one.
  static std::optional<GatheredProduct> of(graph::MatmulOp product) {
    if (tensorOf(product).getRank() != 3)
      return std::nullopt;
    for (bool isLeft : {true, false}) {
      Value matrices = isLeft ? product.getA() : product.getB(), rows = isLeft ? product.getB() : product.getA();
      auto reshape = matrices.getDefiningOp<graph::ReshapeOp>();
      auto lookup = reshape ? reshape.getX().getDefiningOp<graph::EmbeddingOp>() : graph::EmbeddingOp();
      const RankedTensorType type = tensorOf(matrices);
      const int64_t inputs = tensorOf(rows).getDimSize(1) * tensorOf(rows).getDimSize(2);
      const int64_t outputs = tensorOf(product).getDimSize(1) * tensorOf(product).getDimSize(2);
      // A matrix times a column, or a row times a matrix.
      const int64_t one = tensorOf(product).getDimSize(isLeft ? 2 : 1);
      if (!lookup || lookup.getPadding() || one != 1 ||
          type.getNumElements() != type.getDimSize(0) * inputs * outputs ||
          tensorOf(lookup.getIndices()).getNumElements() != type.getDimSize(0))
        continue;
      const bool isTransposed = isLeft ? product.getTransposeA() : product.getTransposeB();
      return GatheredProduct{product, lookup, rows, isLeft != isTransposed, tensorOf(lookup.getTable()).getDimSize(0),
                             outputs, inputs};
    }
    return std::nullopt;
  }
};

/// The products of one function, in the order of the matrices that their rows choose.
class ProductGrouper {
public:
  explicit ProductGrouper(func::FuncOp function) : builder(function.getContext()) {}

  void group(GatheredProduct found) {
    builder.setInsertionPoint(found.product);
    loc = found.product.getLoc();
    rows = tensorOf(found.product).getDimSize(0);
    Route &route = routeOf(found);
    Value x = inOrder(reshapeTo(builder, loc, found.rows, {rows, found.inputs}), route);
    SmallVector<int64_t> shape{found.count, found.outputs, found.inputs};
    if (!found.outputsFirst)
      std::swap(shape[1], shape[2]);
    Value matrices = reshapeTo(builder, loc, found.lookup.getTable(), shape);
    auto type = RankedTensorType::get({rows, found.outputs}, tensorOf(found.product).getElementType());
    auto grouped =
        graph::GroupedMatmulOp::create(builder, loc, type, x, matrices, route.op.getStarts(), found.outputsFirst);
    grouped->setDiscardableAttrs(found.product->getDiscardableAttrDictionary());
    Value back = graph::CombineOp::create(builder, loc, type, grouped, route.op.getOrder(), route.op.getPlaces());
    Operation *product = found.product;
    product->getResult(0).replaceAllUsesWith(reshapeTo(builder, loc, back, tensorOf(product->getResult(0)).getShape()));
  }

private:
  struct Route {
    Value indices;
    int64_t count = 0;
    graph::RouteOp op;
    llvm::DenseMap<Value, bool> isMade;   ///< what is known of values: see isMadeInOrder
    llvm::DenseMap<Value, Value> ordered; ///< their rows in the order
  };

  /// The order by these indices: one for all products with equal ones.
  Route &routeOf(GatheredProduct found) {
    Value indices = found.lookup.getIndices();
    for (Route &route : routes)
      if (route.count == found.count && areEquivalent(route.indices, indices))
        return route;
    Route &made = routes.emplace_back();
    made.indices = indices;
    made.count = found.count;
    made.op = routeChoices(builder, loc, reshapeTo(builder, loc, indices, {rows, 1}), found.count);
    return made;
  }

  /// Whether rows of `value` are made of rows that a product of this order gives, one by one.
  bool isMadeInOrder(Value value, Route &route) {
    if (auto known = route.isMade.find(value); known != route.isMade.end())
      return known->second;
    const bool isMade = findMadeInOrder(value, route);
    route.isMade[value] = isMade;
    return isMade;
  }

  bool findMadeInOrder(Value value, Route &route) {
    Operation *op = value.getDefiningOp();
    if (!op || tensorOf(value).getRank() == 0 || tensorOf(value).getDimSize(0) != rows)
      return false;
    if (auto constant = dyn_cast<graph::ConstantOp>(op))
      return isa<SplatElementsAttr>(constant.getValue());
    if (auto combine = dyn_cast<graph::CombineOp>(op))
      return combine.getPlaces() == route.op.getPlaces();
    if (auto slice = dyn_cast<graph::SliceOp>(op))
      return tensorOf(slice.getX()).getDimSize(0) == rows && isMadeInOrder(slice.getX(), route);
    return (isa<graph::ReshapeOp, graph::SoftmaxOp>(op) || isByElement(op)) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return isMadeInOrder(operand, route); });
  }

  /// The rows (T, D) each of which `value` (T K, D) has K times, one after the other; null where it has others.
  Value repeatedRows(Value value) {
    const int64_t width = tensorOf(value).getDimSize(1);
    auto broadcast = withoutReshapes(value).getDefiningOp<graph::BroadcastOp>();
    if (!broadcast)
      return {};
    const RankedTensorType from = tensorOf(broadcast.getX()), to = tensorOf(broadcast);
    const int64_t rank = to.getRank(), tokens = from.getNumElements() / width;
    // (T, 1, D) to (T, K, D), whatever dimensions T has.
    const bool isRepeated = from.getRank() == rank && rank >= 2 && to.getDimSize(rank - 1) == width &&
                            from.getDimSize(rank - 1) == width && from.getDimSize(rank - 2) == 1 &&
                            from.getShape().drop_back(2) == to.getShape().drop_back(2);
    return isRepeated ? reshapeTo(builder, loc, broadcast.getX(), {tokens, width}) : Value();
  }

  /// The rows of `value` (R, D) in the order of the matrices.
  Value inOrder(Value value, Route &route) {
    if (!isMadeInOrder(value, route)) {
      // A token's row that is repeated for each of its choices is taken for each.
      Value tokens = value, places = route.op.getPlaces();
      if (Value few = repeatedRows(value)) {
        tokens = few;
        places = reshapeTo(builder, loc, places, {tensorOf(few).getDimSize(0), rows / tensorOf(few).getDimSize(0)});
      }
      return graph::DispatchOp::create(builder, loc, value.getType(), tokens, route.op.getOrder(), places);
    }
    if (auto combine = value.getDefiningOp<graph::CombineOp>())
      return combine.getX();
    Operation *op = value.getDefiningOp();
    if (isa<graph::ConstantOp>(op))
      return value;
    if (Value known = route.ordered.lookup(value))
      return known;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(inOrder(operand, route));
    Operation *ordered = builder.clone(*op);
    ordered->setOperands(operands);
    return route.ordered[value] = ordered->getResult(0);
  }

  OpBuilder builder;
  Location loc = builder.getUnknownLoc();
  int64_t rows = 0;
  std::deque<Route> routes; ///< references to its elements stay
};

struct GroupGatheredProducts : impl::GroupGatheredProductsBase<GroupGatheredProducts> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      ProductGrouper grouper(function);
      unsigned grouped = 0;
      for (auto product : llvm::make_early_inc_range(block.getOps<graph::MatmulOp>()))
        if (std::optional<GatheredProduct> found = GatheredProduct::of(product)) {
          grouper.group(*found);
          ++grouped;
        }
      if (grouped == 0)
        continue;
      eraseDeadOps(block);
      remark::passed(function.getLoc(),
                     remark::RemarkOpts::name("products").category(DEBUG_TYPE).function(function.getName()))
          << std::to_string(grouped) << " products with matrices that were looked up for each row";
    }
  }
};
} // namespace
} // namespace ztc
