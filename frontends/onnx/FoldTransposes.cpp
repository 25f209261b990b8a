// Transposes vanish: into the flags of products, through scalar factors and into each other.
#include "compiler/Dialect/Graph/Cache.h"
#include "frontends/onnx/Raise.h"

using namespace mlir;

namespace ztc::importer {
namespace {

bool swapsLastTwo(ArrayRef<int64_t> permutation) {
  int64_t rank = int64_t(permutation.size());
  for (int64_t i = 0; i < rank; ++i)
    if (permutation[i] != (i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i))
      return false;
  return rank >= 2;
}

SmallVector<int64_t> swapOfLastTwo(int64_t rank) {
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(permutation[rank - 1], permutation[rank - 2]);
  return permutation;
}

/// reshape(transpose(reshape(x))) where the outer reshape splits leading dimensions only: transpose(reshape(x)).
Value mergedBatchTranspose(OpBuilder &builder, graph::ReshapeOp outer) {
  auto transpose = outer.getX().getDefiningOp<graph::TransposeOp>();
  if (!transpose || !transpose.getX().getDefiningOp<graph::ReshapeOp>() || !swapsLastTwo(transpose.getPermutation()))
    return nullptr;
  SmallVector<int64_t> shape(shapeOf(outer));
  if (shape.size() < 3 || ArrayRef(shape).take_back(2) != shapeOf(transpose).take_back(2))
    return nullptr;
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  Value split = reshapeTo(builder, outer.getLoc(), transpose.getX(), shape);
  return transposeTo(builder, outer.getLoc(), split, swapOfLastTwo(int64_t(shape.size())));
}

/// transpose(x) * c => transpose(x * c).
Value scaledTranspose(OpBuilder &builder, graph::MulOp product) {
  Value result;
  eitherOrder(product, [&](Value x, Value factor) {
    auto transpose = x.getDefiningOp<graph::TransposeOp>();
    std::optional<double> value = splatValue(factor);
    if (!transpose || !value || !factor.getDefiningOp<graph::ConstantOp>())
      return false;
    Value scaled = graph::MulOp::create(builder, product.getLoc(), transpose.getX(),
                                        splatLike(builder, product.getLoc(), transpose.getX(), *value));
    result = transposeTo(builder, product.getLoc(), scaled, transpose.getPermutation());
    return true;
  });
  return result;
}

Value productOfTransposes(OpBuilder &builder, graph::MatmulOp product) {
  bool transposeA = product.getTransposeA(), transposeB = product.getTransposeB(), changed = false;
  auto operand = [&](Value x, bool &flag) {
    auto transpose = x.getDefiningOp<graph::TransposeOp>();
    size_t rank = transpose ? transpose.getPermutation().size() : 0;
    if (rank < 2 || transpose.getPermutation()[rank - 2] < transpose.getPermutation()[rank - 1])
      return x;
    SmallVector<int64_t> rest(transpose.getPermutation()); // what is left keeps the last two in order
    std::swap(rest[rank - 2], rest[rank - 1]);
    flag = !flag;
    changed = true;
    return transposeTo(builder, product.getLoc(), transpose.getX(), rest);
  };
  Value a = operand(product.getA(), transposeA), b = operand(product.getB(), transposeB);
  if (!changed)
    return nullptr;
  auto folded = graph::MatmulOp::create(builder, product.getLoc(), a, b, transposeA, transposeB);
  if (mlir::Attribute wide = product->getAttr(graph::kWide))
    folded->setAttr(graph::kWide, wide);
  return folded;
}

Value composedTranspose(OpBuilder &builder, graph::TransposeOp outer) {
  if (!outer.getX().getDefiningOp<graph::TransposeOp>())
    return nullptr;
  return transposeTo(builder, outer.getLoc(), outer.getX(), outer.getPermutation());
}

} // namespace

unsigned foldTransposes(func::FuncOp function) {
  return forEachOp<graph::ReshapeOp>(function, mergedBatchTranspose) +
         forEachOp<graph::TransposeOp>(function, composedTranspose) +
         forEachOp<graph::MulOp>(function, scaledTranspose) + forEachOp<graph::MatmulOp>(function, productOfTransposes);
}

} // namespace ztc::importer
