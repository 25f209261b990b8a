#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/MatmulAdd.h"
#include "compiler/Support/Location.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Sharding/Passes.h"
#include "llvm/ADT/MapVector.h"

#define DEBUG_TYPE "ztc-merge-products"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_MERGEPRODUCTS
#include "passes/Sharding/Passes.h.inc"

namespace {

RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// A product with a matrix that lies in a bucket, as its bias does where it adds one.
struct Member {
  Operation *product;
  Operation *view;           ///< of the matrix, (N, K)
  Operation *bias = nullptr; ///< the view of it, (N); null: none

  Value left() const { return product->getOperand(0); }
  Value result() const { return product->getResult(0); }
  dist::ViewOp weight() const { return cast<dist::ViewOp>(view); }
  int64_t rows() const { return typeOf(view->getResult(0)).getDimSize(0); }
  int64_t columns() const { return typeOf(view->getResult(0)).getDimSize(1); }
  int64_t begin() const { return weight().getOffset(); }
  int64_t end() const { return begin() + rows() * columns(); }
  /// Whether the bias of `next` begins where this one's ends, or neither has one.
  bool isFollowedByBias(const Member &next) const {
    if (!bias || !next.bias)
      return bias == next.bias;
    auto mine = cast<dist::ViewOp>(bias), other = cast<dist::ViewOp>(next.bias);
    return mine.getBucket() == other.getBucket() && int64_t(mine.getOffset()) + rows() == int64_t(other.getOffset());
  }
};
using Members = SmallVector<Member>;

/// `product` as a member, where its right factor, transposed or not, is a matrix in a bucket.
template <typename Op> std::optional<Member> memberOf(Op product, bool transposed) {
  if (product.getTransposeA() || product.getTransposeB() != transposed)
    return std::nullopt;
  auto weight = product.getB().template getDefiningOp<dist::ViewOp>();
  if (!weight || typeOf(weight).getRank() != 2)
    return std::nullopt;
  // Parts of a row begin at multiples of a GPU's widest access: they are read and written by vectors.
  constexpr int64_t kVectorBits = 128;
  if (typeOf(weight).getDimSize(0) * typeOf(weight).getElementTypeBitWidth() % kVectorBits != 0)
    return std::nullopt;
  return Member{product, weight};
}

/// `op` as a member, where it is an ordinary product of matrices.
std::optional<Member> asMember(Operation *op, bool transposed) {
  auto product = dyn_cast_or_null<graph::MatmulOp>(op);
  return product ? memberOf(product, transposed) : std::nullopt;
}

/// `op` as a member whose weight is transposed, with or without a bias.
std::optional<Member> asLayer(Operation *op) {
  auto product = dyn_cast<graph::MatmulBiasOp>(op);
  if (!product)
    return asMember(op, /*transposed=*/true);
  std::optional<Member> member = memberOf(product, /*transposed=*/true);
  auto bias = product.getBias().getDefiningOp<dist::ViewOp>();
  if (!member || !bias)
    return std::nullopt;
  member->bias = bias;
  return member;
}

/// Cuts members of one bucket into runs in which each weight begins where the one before ends, all of one width and
/// with equal attributes; runs of one are left out.
SmallVector<Members> adjacentRuns(Members members) {
  llvm::sort(members, [](const Member &a, const Member &b) { return a.begin() < b.begin(); });
  SmallVector<Members> runs;
  for (const Member &member : members) {
    auto follows = [&](const Member &last) {
      return last.end() == member.begin() && last.columns() == member.columns() &&
             last.product->getAttrs() == member.product->getAttrs() && last.isFollowedByBias(member) &&
             typeOf(last.result()).getElementType() == typeOf(member.result()).getElementType();
    };
    if (runs.empty() || !follows(runs.back().back()))
      runs.emplace_back();
    runs.back().push_back(member);
  }
  llvm::erase_if(runs, [](const Members &run) { return run.size() < 2; });
  return runs;
}

/// The module path of the members' parent, and their own names: layers.0.mlp.gate_proj_up_proj.
Location mergedLocation(const Members &run) {
  std::string name = scopeOf(run.front().product->getLoc());
  if (name.empty())
    return run.front().product->getLoc();
  for (const Member &member : ArrayRef(run).drop_front()) {
    std::string path = scopeOf(member.product->getLoc());
    name += "_" + StringRef(path).substr(StringRef(path).rfind('.') + 1).str();
  }
  return NameLoc::get(StringAttr::get(run.front().product->getContext(), name));
}

/// Whether a kernel that computes `value` can write it at another place: nobody else reads it in another shape, and the
/// kernel makes no sums over rows beside it.
bool isWrittenAnywhere(Value value) {
  for (; auto reshape = value.getDefiningOp<graph::ReshapeOp>(); value = reshape.getX())
    if (!reshape.getX().hasOneUse())
      return false;
  Operation *producer = value.getDefiningOp();
  return isComputed(producer) && llvm::all_equal(producer->getResultTypes());
}

/// Calls `visit` with each op that reads `value` or a reshaped form of it.
void forReaders(Value value, llvm::function_ref<void(Operation *)> visit) {
  for (Operation *user : value.getUsers()) {
    if (isa<graph::ReshapeOp>(user))
      forReaders(user->getResult(0), visit);
    else
      visit(user);
  }
}

class ProductMerger {
public:
  explicit ProductMerger(func::FuncOp function)
      : block(function.getBody().front()), lossOp(lossOpOf(function)), builder(function.getContext()) {}

  void run() {
    mergeSideBySide();
    SmallVector<graph::AddOp> sums(block.getOps<graph::AddOp>());
    llvm::SmallPtrSet<Operation *, 16> merged;
    for (graph::AddOp sum : llvm::reverse(sums))
      if (!merged.contains(sum))
        mergeSum(sum, merged);
  }

private:
  /// x W1^T and x W2^T are slices of x (W1 W2)^T.
  void mergeSideBySide();
  Members withoutCopies(Members run);
  /// dy1 W1 + dy2 W2 is (dy1 dy2) (W1 W2), and the gradients of W1 and W2 are pieces of one product.
  void mergeSum(graph::AddOp root, llvm::SmallPtrSetImpl<Operation *> &merged);
  Value joinedCotangents(const Members &run, ArrayRef<graph::MatmulOp> gradients);
  void mergeWeightGradients(const Members &run, Value cotangents, ArrayRef<graph::MatmulOp> gradients);
  /// The members' product with the cotangent's transpose, the gradients of their weights, where they lie side by side
  /// in one gradient bucket and all have one left factor; empty otherwise.
  SmallVector<graph::MatmulOp> weightGradients(const Members &run);

  /// The run's weights as one matrix.
  Value mergedWeight(const Members &run) {
    dist::ViewOp first = run.front().weight();
    int64_t rows = 0;
    for (const Member &member : run)
      rows += member.rows();
    OpBuilder::InsertionGuard back(builder);
    builder.setInsertionPoint(first);
    auto type = RankedTensorType::get({rows, typeOf(first).getDimSize(1)}, typeOf(first).getElementType());
    return dist::ViewOp::create(builder, mergedLocation(run), type, first.getBucket(), first.getOffsetAttr());
  }

  /// The run's biases as one vector; null where it has none.
  Value mergedBias(const Members &run) {
    auto first = cast_or_null<dist::ViewOp>(run.front().bias);
    if (!first)
      return {};
    int64_t count = 0;
    for (const Member &member : run)
      count += member.rows();
    OpBuilder::InsertionGuard back(builder);
    builder.setInsertionPoint(first);
    auto type = RankedTensorType::get({count}, typeOf(first).getElementType());
    return dist::ViewOp::create(builder, mergedLocation(run), type, first.getBucket(), first.getOffsetAttr());
  }

  /// The product x W^T of a run, with its bias where that is not null.
  Operation *mergedLayer(const Members &run, Value x, Value weight, Value bias) {
    auto type = RankedTensorType::get({typeOf(x).getDimSize(0), typeOf(weight).getDimSize(0)},
                                      typeOf(run.front().result()).getElementType());
    if (!bias)
      return graph::MatmulOp::create(builder, mergedLocation(run), type, x, weight, /*transpose_a=*/false,
                                     /*transpose_b=*/true);
    return graph::MatmulBiasOp::create(builder, mergedLocation(run), type, x, weight, bias, /*transpose_a=*/false,
                                       /*transpose_b=*/true);
  }

  Value slice(Location loc, Value matrix, int64_t column, RankedTensorType type) {
    return graph::SliceOp::create(builder, loc, type, matrix, builder.getDenseI64ArrayAttr({0, column}));
  }

  Block &block;
  Operation *lossOp;
  OpBuilder builder;
};

void ProductMerger::mergeSideBySide() {
  llvm::MapVector<std::pair<Value, Value>, Members> groups; // by left factor and bucket
  for (Operation &op : block)
    if (std::optional<Member> member = asLayer(&op))
      groups[{member->left(), member->weight().getBucket()}].push_back(*member);
  for (auto &[factors, members] : groups)
    for (Members &candidates : adjacentRuns(members))
      for (Members &run : adjacentRuns(withoutCopies(candidates))) {
        Member first = *llvm::min_element(
            run, [](const Member &a, const Member &b) { return a.product->isBeforeInBlock(b.product); });
        Value weight = mergedWeight(run), bias = mergedBias(run);
        builder.setInsertionPoint(first.product);
        Operation *product = mergedLayer(run, factors.first, weight, bias);
        product->setDiscardableAttrs(first.product->getDiscardableAttrDictionary());
        int64_t column = 0;
        for (const Member &member : run) {
          auto part = typeOf(member.result());
          member.result().replaceAllUsesWith(slice(member.product->getLoc(), product->getResult(0), column, part));
          column += part.getDimSize(1);
        }
        for (const Member &member : run)
          member.product->erase();
      }
}

/// A part that a library reads must be copied out of the merged result. That is worth it where the copies are little
/// beside the rest, and where the merged result, the part in it too, need not be kept for backward.
Members ProductMerger::withoutCopies(Members run) {
  int64_t copied = 0, all = 0;
  bool isKept = false;
  auto isCopied = [](const Member &member) {
    bool found = false;
    forReaders(member.result(),
               [&](Operation *reader) { found |= isLibraryCall(reader) || reader->hasTrait<OpTrait::IsTerminator>(); });
    return found;
  };
  for (const Member &member : run) {
    int64_t elements = typeOf(member.result()).getNumElements();
    all += elements;
    copied += isCopied(member) ? elements : 0;
    forReaders(member.result(), [&](Operation *reader) {
      isKept |= !isLibraryCall(reader) && lossOp && lossOp->isBeforeInBlock(reader);
    });
  }
  if (isKept || 2 * copied > all)
    llvm::erase_if(run, isCopied);
  return run;
}

void ProductMerger::mergeSum(graph::AddOp root, llvm::SmallPtrSetImpl<Operation *> &merged) {
  SmallVector<Value> terms{root};
  SmallVector<Operation *> sums;
  for (unsigned i = 0; i < terms.size();) {
    auto sum = terms[i].getDefiningOp<graph::AddOp>();
    if (!sum || (sum != root && !sum->hasOneUse()) || sum.getA() == sum.getB()) {
      ++i;
      continue;
    }
    sums.push_back(sum);
    terms[i] = sum.getA();
    terms.insert(terms.begin() + i + 1, sum.getB());
  }
  merged.insert(sums.begin(), sums.end());
  llvm::MapVector<Value, Members> groups; // by bucket
  for (Value term : terms)
    if (std::optional<Member> member = asMember(term.getDefiningOp(), /*transposed=*/false); member && term.hasOneUse())
      groups[member->weight().getBucket()].push_back(*member);
  bool changed = false;
  for (auto &[bucket, members] : groups)
    for (const Members &run : adjacentRuns(members)) {
      SmallVector<graph::MatmulOp> gradients = weightGradients(run);
      Value cotangents = joinedCotangents(run, gradients);
      if (!cotangents)
        continue;
      if (!gradients.empty())
        mergeWeightGradients(run, cotangents, gradients);
      Value weight = mergedWeight(run);
      builder.setInsertionPoint(root);
      auto product = graph::MatmulOp::create(builder, mergedLocation(run), root.getType(), cotangents, weight,
                                             /*transpose_a=*/false, /*transpose_b=*/false);
      product->setDiscardableAttrs(run.front().product->getDiscardableAttrDictionary());
      *llvm::find(terms, run.front().result()) = product;
      for (const Member &member : ArrayRef(run).drop_front())
        llvm::erase(terms, member.result());
      changed = true;
    }
  if (!changed)
    return;
  builder.setInsertionPoint(root);
  Value total = terms.front();
  for (Value term : ArrayRef(terms).drop_front())
    total = graph::AddOp::create(builder, root.getLoc(), total, term);
  root.replaceAllUsesWith(total);
  for (Operation *sum : sums) // each before what it reads
    sum->erase();
  for (auto &[bucket, members] : groups)
    for (Member &member : members)
      if (member.product->use_empty())
        member.product->erase();
}

/// (dy1 dy2), into which the kernels that compute the parts write them, at least the better half. What else reads a
/// part reads a slice. Null where this is not possible.
Value ProductMerger::joinedCotangents(const Members &run, ArrayRef<graph::MatmulOp> gradients) {
  int64_t columns = 0, written = 0;
  Operation *last = nullptr;
  for (const Member &member : run) {
    Value part = member.left();
    Operation *producer = withoutReshapes(part).getDefiningOp();
    if (!producer)
      return {};
    if (!last || last->isBeforeInBlock(producer))
      last = producer;
    columns += typeOf(part).getDimSize(1);
    written += isWrittenAnywhere(part) ? typeOf(part).getDimSize(1) : 0;
  }
  if (2 * written < columns)
    return {};
  auto isReplaced = [&](Operation *reader, const Member &member) {
    return reader == member.product || llvm::is_contained(gradients, reader);
  };
  for (const Member &member : run)
    for (Operation *reader : member.left().getUsers())
      if (!isReplaced(reader, member) && (isLibraryCall(reader) || !last->isBeforeInBlock(reader)))
        return {};
  builder.setInsertionPointAfter(last);
  SmallVector<Value> parts;
  for (const Member &member : run) {
    Value part = member.left(), source = withoutReshapes(part);
    parts.push_back(source == part ? part : graph::ReshapeOp::create(builder, part.getLoc(), part.getType(), source));
  }
  auto type = RankedTensorType::get({typeOf(run.front().left()).getDimSize(0), columns},
                                    typeOf(run.front().left()).getElementType());
  auto joined = graph::ConcatOp::create(builder, mergedLocation(run), type, parts, /*axis=*/1);
  int64_t column = 0;
  for (const Member &member : run) {
    Value part = member.left();
    auto others = [&](OpOperand &use) { return use.getOwner() != joined && !isReplaced(use.getOwner(), member); };
    if (llvm::any_of(part.getUses(), others))
      part.replaceUsesWithIf(slice(part.getLoc(), joined, column, typeOf(part)), others);
    column += typeOf(part).getDimSize(1);
  }
  return joined;
}

SmallVector<graph::MatmulOp> ProductMerger::weightGradients(const Members &run) {
  SmallVector<graph::MatmulOp> gradients;
  dist::PackOp pack;
  Value slots;
  int64_t part = 0;
  for (const Member &member : run) {
    graph::MatmulOp gradient;
    for (Operation *reader : member.left().getUsers())
      if (auto product = dyn_cast<graph::MatmulOp>(reader);
          product && product.getTransposeA() && !product.getTransposeB() && product.getA() == member.left())
        gradient = product;
    if (!gradient || !gradient->hasOneUse())
      return {};
    auto sum = dyn_cast<graph::AccumulateOp>(*gradient->user_begin());
    if (!sum || !sum.getFirstWrites() || sum.getX() != gradient || !sum->hasOneUse())
      return {};
    auto slot = sum.getAccumulator().getDefiningOp<dist::ViewOp>();
    auto owner = dyn_cast<dist::PackOp>(*sum->user_begin());
    if (!slot || !owner || int64_t(slot.getOffset()) != member.begin())
      return {};
    int64_t place = llvm::find(owner.getParts(), sum.getY()) - owner.getParts().begin();
    if (gradients.empty()) {
      pack = owner;
      slots = slot.getBucket();
    } else if (owner != pack || slot.getBucket() != slots || place != part + 1 ||
               gradient.getB() != gradients.front().getB() || gradient->getAttrs() != gradients.front()->getAttrs()) {
      return {};
    }
    part = place;
    gradients.push_back(gradient);
  }
  return gradients;
}

void ProductMerger::mergeWeightGradients(const Members &run, Value cotangents, ArrayRef<graph::MatmulOp> gradients) {
  graph::MatmulOp first = gradients.front();
  auto sum = cast<graph::AccumulateOp>(*first->user_begin());
  auto slot = sum.getAccumulator().getDefiningOp<dist::ViewOp>();
  auto pack = cast<dist::PackOp>(*sum->user_begin());
  Location loc = mergedLocation(run);
  auto type = RankedTensorType::get({typeOf(cotangents).getDimSize(1), typeOf(first.getB()).getDimSize(1)},
                                    typeOf(first).getElementType());
  builder.setInsertionPointAfterValue(cotangents);
  // After the left factor too, which a clone of the forward part could be.
  if (Operation *factor = first.getB().getDefiningOp(); factor && cotangents.getDefiningOp()->isBeforeInBlock(factor))
    builder.setInsertionPointAfter(factor);
  auto gradient = graph::MatmulOp::create(builder, loc, type, cotangents, first.getB(), /*transpose_a=*/true,
                                          /*transpose_b=*/false);
  gradient->setDiscardableAttrs(first->getDiscardableAttrDictionary());
  builder.setInsertionPoint(pack);
  Value place = dist::ViewOp::create(builder, loc, type, slot.getBucket(), slot.getOffsetAttr());
  Value added = graph::AccumulateOp::create(builder, loc, place, gradient, builder.getUnitAttr());
  SmallVector<Value> parts(pack.getParts());
  SmallVector<int64_t> offsets(pack.getOffsets());
  auto at = llvm::find(parts, sum.getY()) - parts.begin();
  parts[at] = added;
  parts.erase(parts.begin() + at + 1, parts.begin() + at + gradients.size());
  offsets.erase(offsets.begin() + at + 1, offsets.begin() + at + gradients.size());
  auto newPack =
      dist::PackOp::create(builder, pack.getLoc(), pack.getType(), parts, builder.getDenseI64ArrayAttr(offsets));
  pack.replaceAllUsesWith(newPack.getOperation());
  pack.erase();
  for (graph::MatmulOp old : gradients) {
    Operation *oldSum = *old->user_begin(), *oldSlot = oldSum->getOperand(0).getDefiningOp();
    oldSum->erase();
    oldSlot->erase();
    old.erase();
  }
}

struct MergeProducts : impl::MergeProductsBase<MergeProducts> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (graph::isEntry(function, graph::Entry::Update))
        continue;
      ProductMerger(function).run();
      eraseDeadOps(function.getBody().front());
    }
  }
};
} // namespace
} // namespace ztc
