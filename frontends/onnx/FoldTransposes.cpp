// Transposes vanish: into the flags of products, through scalar factors and into each other.
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

/// reshape(transpose(reshape(x))) where the outer two merge and split leading dimensions only: one transpose of x.
Value mergedBatchTranspose(OpBuilder &builder, graph::ReshapeOp outer) {
  auto transpose = outer.getX().getDefiningOp<graph::TransposeOp>();
  auto inner = transpose ? transpose.getX().getDefiningOp<graph::ReshapeOp>() : nullptr;
  if (!inner || !swapsLastTwo(transpose.getPermutation()))
    return nullptr;
  ArrayRef<int64_t> from = shapeOf(inner.getX()), to = shapeOf(outer);
  int64_t rank = int64_t(from.size());
  if (rank < 2 || to.size() != from.size() || from.drop_back(2) != to.drop_back(2) || from[rank - 1] != to[rank - 2] || from[rank - 2] != to[rank - 1] ||
      shapeOf(inner).take_back(2) != from.take_back(2))
    return nullptr;
  return transposeTo(builder, outer.getLoc(), inner.getX(), swapOfLastTwo(rank));
}

/// transpose(x) * c => transpose(x * c).
Value scaledTranspose(OpBuilder &builder, graph::MulOp product) {
  Value result;
  eitherOrder(product, [&](Value x, Value factor) {
    auto transpose = x.getDefiningOp<graph::TransposeOp>();
    std::optional<double> value = splatValue(factor);
    if (!transpose || !value || !factor.getDefiningOp<graph::ConstantOp>())
      return false;
    Value scaled = graph::MulOp::create(builder, product.getLoc(), transpose.getX(), splatLike(builder, product.getLoc(), transpose.getX(), *value));
    result = transposeTo(builder, product.getLoc(), scaled, transpose.getPermutation());
    return true;
  });
  return result;
}

Value productOfTransposes(OpBuilder &builder, graph::MatmulOp product) {
  bool transposeA = product.getTransposeA(), transposeB = product.getTransposeB(), changed = false;
  auto operand = [&](Value x, bool &flag) {
    auto transpose = x.getDefiningOp<graph::TransposeOp>();
    if (!transpose || !swapsLastTwo(transpose.getPermutation()))
      return x;
    flag = !flag;
    changed = true;
    return Value(transpose.getX());
  };
  Value a = operand(product.getA(), transposeA), b = operand(product.getB(), transposeB);
  return changed ? graph::MatmulOp::create(builder, product.getLoc(), a, b, transposeA, transposeB).getResult() : Value();
}

Value composedTranspose(OpBuilder &builder, graph::TransposeOp outer) {
  if (!outer.getX().getDefiningOp<graph::TransposeOp>())
    return nullptr;
  return transposeTo(builder, outer.getLoc(), outer.getX(), outer.getPermutation());
}

} // namespace

unsigned foldTransposes(func::FuncOp function) {
  return forEachOp<graph::ReshapeOp>(function, mergedBatchTranspose) + forEachOp<graph::TransposeOp>(function, composedTranspose) +
         forEachOp<graph::MulOp>(function, scaledTranspose) + forEachOp<graph::MatmulOp>(function, productOfTransposes);
}

} // namespace ztc::importer
