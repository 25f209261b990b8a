#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Verification/Keeps.h"
#include "passes/Autodiff/DocumentPositions.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"
#include "passes/Autodiff/TokenRows.h"
#include "llvm/ADT/DenseSet.h"

#define DEBUG_TYPE "ztc-pack-documents"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_PACKDOCUMENTS
#include "passes/Autodiff/Passes.h.inc"

namespace {

/// The ops of @eval, whose rows come to hold several documents.
class DocumentRows : TokenRows {
public:
  DocumentRows(Value tokens, Value starts, Value positions, OpBuilder &builder)
      : starts_(starts), builder_(builder), table_(builder, positions) {
    ArrayRef<int64_t> shape = shapeOf(tokens);
    rows_[tokens] = {RowCount{shape[0], 1}, RowCount{1, shape[1]}};
  }

  LogicalResult run(Block &block) {
    bool attends = false;
    for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
      if (llvm::none_of(op.getOperands(), [&](Value value) { return dependsOnTokens(value); }))
        continue;
      attends |= isa<graph::AttentionOp, graph::LinearAttentionOp, graph::CausalConvolutionOp>(op);
      builder_.setInsertionPoint(&op);
      if (succeeded(visit(&op)))
        continue;
      return op.emitError("rows cannot hold several documents: ") << (reason_.empty() ? table_.reason() : reason_);
    }
    if (!attends)
      return block.getParentOp()->emitError("rows cannot hold several documents: no attention is in the model whose "
                                            "reach a document could bound");
    return success();
  }

private:
  int64_t sequences() const { return shapeOf(starts_)[0]; }
  int64_t positions() const { return shapeOf(starts_)[1]; }
  LogicalResult refuse(Operation *op, StringRef how) { return mixed(op, how), failure(); }

  LogicalResult visit(Operation *op) {
    if (auto attention = dyn_cast<graph::AttentionOp>(op))
      return visitAttention(attention);
    if (auto attention = dyn_cast<graph::LinearAttentionOp>(op))
      return visitLinearAttention(attention);
    if (auto convolution = dyn_cast<graph::CausalConvolutionOp>(op))
      return visitConvolution(convolution);
    if (isa<graph::CrossEntropyOp, graph::LinearCrossEntropyOp>(op)) {
      RowShape rows = rowsOf(op->getOperand(0));
      return rows[0].rows() == sequences() * positions() && rows[1].rows() == 1
                 ? success()
                 : refuse(op, "does not take a position a row");
    }
    if (op->getNumResults() != 1)
      return refuse(op, "has several results");
    if (isa<graph::ReshapeOp>(op)) {
      std::optional<RowShape> rows =
          reshapedRows(shapeOf(op->getOperand(0)), rowsOf(op->getOperand(0)), shapeOf(op->getResult(0)));
      return rows ? noteResult(op, *rows) : refuse(op, "joins positions with what stands before them");
    }
    if (auto lookup = dyn_cast<graph::EmbeddingOp>(op))
      return visitLookup(lookup);
    if (auto scatter = dyn_cast<graph::EmbeddingGradOp>(op))
      return visitScatter(scatter);
    if (auto rope = dyn_cast<graph::RopeOp>(op))
      return visitRope(rope);
    std::optional<OpRows> rows = rowsThrough(op);
    if (!rows)
      return failure();
    if (!rows->kept.empty())
      return refuse(op, "multiplies positions with positions: it is not an attention of a form that the import knows");
    for (auto [operand, expected] : llvm::zip_equal(op->getOpOperands(), rows->operands))
      if (failed(visitOperand(operand, expected)))
        return failure();
    return noteResult(op, rows->result);
  }

  /// Places in rows, by which rows are looked up, stay what they are; all else that positions decide follows the
  /// documents.
  LogicalResult visitOperand(OpOperand &operand, const RowShape &expected) {
    Operation *op = operand.getOwner();
    Value value = operand.get();
    if (dependsOnTokens(value))
      return rowsOf(value) == expected ? success()
                                       : refuse(op, "reads operands that count positions in different dimensions");
    auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(value.getType()));
    if (integer && integer.getWidth() > 1) {
      std::optional<Growth> growth = growthOf(value, expected);
      if (!growth || growth->ofPosition || growth->ofSequence)
        places_.insert(op->getResult(0));
      return success();
    }
    Value moved = table_.at(value, expected);
    if (!moved)
      return refuse(op, table_.reason());
    operand.set(moved);
    return success();
  }

  LogicalResult noteResult(Operation *op, const RowShape &rows) {
    Value result = op->getResult(0);
    rows_[result] = rows;
    if (llvm::none_of(op->getOperands(), [&](Value value) { return places_.contains(value); }) &&
        !places_.contains(result))
      return success();
    auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(result.getType()));
    if (!integer || integer.getWidth() == 1)
      return refuse(op, "computes with the number of a position");
    places_.insert(result);
    return success();
  }

  LogicalResult visitAttention(graph::AttentionOp attention) {
    ArrayRef<int64_t> shape = shapeOf(attention.getQ());
    const RowShape expected{RowCount{shape[0], 1}, RowCount{1, shape[1]}, RowCount(), RowCount()};
    if (!attention.getCausal())
      return refuse(attention, "sees later positions");
    if (attention.getDocumentStarts() || attention.getLse() || shape[0] != sequences() || shape[1] != positions())
      return refuse(attention, "is not over the rows of tokens");
    for (Value operand : {attention.getQ(), attention.getK(), attention.getV()})
      if (rowsOf(operand) != expected)
        return refuse(attention, "reads what no token has a part in");
    attention.getDocumentStartsMutable().assign(starts_);
    rows_[attention.getOut()] = expected;
    return success();
  }

  /// A state is zeros where a document starts.
  LogicalResult visitLinearAttention(graph::LinearAttentionOp attention) {
    ArrayRef<int64_t> shape = shapeOf(attention.getQ());
    const RowShape expected{RowCount{shape[0], 1}, RowCount{1, shape[1]}, RowCount(), RowCount()};
    if (attention.getPast() || attention.getDocumentStarts() || !attention.getState().use_empty() ||
        shape[0] != sequences() || shape[1] != positions())
      return refuse(attention, "begins with a past or hands on its last state, or is not over the rows of tokens");
    for (OpOperand &operand : attention->getOpOperands())
      if (failed(visitOperand(operand, expected)))
        return failure();
    attention.getDocumentStartsMutable().assign(starts_);
    rows_[attention.getY()] = expected;
    return success();
  }

  /// What is before a document's first position is zeros to it.
  LogicalResult visitConvolution(graph::CausalConvolutionOp convolution) {
    ArrayRef<int64_t> shape = shapeOf(convolution.getX());
    const RowShape expected{RowCount{shape[0], 1}, RowCount{1, shape[1]}, RowCount()};
    auto isGiven = [&](Value value) { return !value || !dependsOnTokens(value); };
    if (convolution.getPast() || convolution.getDocumentStarts() || shape[0] != sequences() ||
        shape[1] != positions() || rowsOf(convolution.getX()) != expected || !isGiven(convolution.getWeight()) ||
        !isGiven(convolution.getBias()))
      return refuse(convolution,
                    "begins with a past, has weights that tokens have a part in, or is not over the rows of "
                    "tokens");
    convolution.getDocumentStartsMutable().assign(starts_);
    rows_[convolution.getY()] = expected;
    return success();
  }

  LogicalResult visitLookup(graph::EmbeddingOp lookup) {
    RowShape rows = rowsOf(lookup.getIndices());
    if (!dependsOnTokens(lookup.getTable())) {
      if (places_.contains(lookup.getIndices()))
        return refuse(lookup, "looks up a table by the number of a position");
    } else if (rowsOf(lookup.getTable())[1].rows() > 1 ||
               !staysInRow(lookup.getIndices(), shapeOf(lookup.getTable())[0], rowsOf(lookup.getTable())[0])) {
      return refuse(lookup, "looks up rows of other positions");
    }
    rows.emplace_back();
    rows_[lookup.getY()] = std::move(rows);
    return success();
  }

  LogicalResult visitScatter(graph::EmbeddingGradOp scatter) {
    RowShape rows = rowsOf(scatter.getIndices()), sums(2);
    for (const RowCount &count : rows) {
      sums[0].sequences *= count.sequences;
      sums[0].positions *= count.positions;
    }
    if (!staysInRow(scatter.getIndices(), shapeOf(scatter.getDtable())[0], sums[0]))
      return refuse(scatter, "adds to rows of other positions");
    rows.emplace_back();
    if (failed(visitOperand(scatter.getDyMutable(), rows)))
      return failure();
    rows_[scatter.getDtable()] = std::move(sums);
    return success();
  }

  /// Whether each row's indices lie in the part that is its own of a table, or of sums, of `tableRows` rows.
  bool staysInRow(Value indices, int64_t tableRows, const RowCount &all) const {
    const RowShape rows = rowsOf(indices);
    int64_t counted = 1;
    for (const RowCount &count : rows)
      counted *= count.rows();
    const std::optional<Growth> growth = growthOf(indices, rows);
    const int64_t each = tableRows / all.rows();
    const Growth expected{all.sequences > 1 ? each * all.positions : 0, all.positions > 1 ? each : 0};
    return dependsOnTokens(indices) && counted == all.rows() && tableRows % all.rows() == 0 && growth &&
           *growth == expected;
  }

  /// All rows of the batch are to the op as the positions of one, each with angles of its own.
  LogicalResult visitRope(graph::RopeOp rope) {
    ArrayRef<int64_t> shape = shapeOf(rope.getX());
    const RowShape expected{RowCount{shape[0], 1}, RowCount{1, shape[1]}, RowCount(), RowCount()};
    if (rowsOf(rope.getX()) != expected || dependsOnTokens(rope.getCos()) || dependsOnTokens(rope.getSin()) ||
        shape[0] != sequences() || shape[1] != positions())
      return refuse(rope, "does not count positions in its second dimension");
    const Value cos = table_.rowsOfTable(rope.getCos()), sin = table_.rowsOfTable(rope.getSin());
    graph::Expr x(builder_, rope.getLoc(), rope.getX());
    x = graph::reshape(x, {1, shape[0] * shape[1], shape[2], shape[3]});
    auto turned = graph::RopeOp::create(builder_, rope.getLoc(), x.value(), cos, sin, rope.getInverse());
    turned->setDiscardableAttrs(rope->getDiscardableAttrDictionary());
    Value result = graph::reshape(x.with(turned), shape).value();
    rows_[result] = expected;
    rope.getY().replaceAllUsesWith(result);
    rope.erase();
    return success();
  }

  Value starts_;
  OpBuilder &builder_;
  DocumentPositions table_;
  llvm::DenseSet<Value> places_; ///< integers that depend on the position in the row
};

struct PackDocuments : impl::PackDocumentsBase<PackDocuments>, SaysWhatItKeeps {
  Keeps keeps() const override { return Keeps::Changes; }
  void runOnOperation() override {
    func::FuncOp eval = findFunction(getOperation(), graph::Entry::Eval);
    if (!eval)
      return signalPassFailure();
    SmallVector<unsigned> tokens = graph::argumentsWithRole(eval, graph::Role::Tokens),
                          targets = graph::argumentsWithRole(eval, graph::Role::Targets);
    if (tokens.size() != 1 || targets.size() != 1 || shapeOf(eval.getArgument(tokens[0])).size() != 2) {
      eval.emitOpError("has no tokens (B, S) and targets, one each");
      return signalPassFailure();
    }
    OpBuilder builder(&getContext());
    auto type = RankedTensorType::get(shapeOf(eval.getArgument(tokens[0])), builder.getI32Type());
    Value starts = insertArgument(eval, targets[0] + 1, type, graph::Role::DocumentStarts);
    Block &body = eval.getBody().front();
    builder.setInsertionPointToStart(&body);
    graph::Expr place(builder, eval.getLoc(), starts);
    graph::Expr position = place.with(graph::IotaOp::create(builder, eval.getLoc(), type, 1)) - place;
    DocumentRows rows(eval.getArgument(tokens[0]), starts, position.value(), builder);
    if (failed(rows.run(body)))
      return signalPassFailure();
    eraseDeadOps(body);
  }
};
} // namespace
} // namespace ztc
