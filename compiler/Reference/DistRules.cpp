// Reference rules of buckets: views are slices, packs put parts at their places.
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Reference/Interpreter.h"

using namespace mlir;

namespace ztc {
namespace {

void runView(dist::ViewOp op, Operands operands, Results results) {
  auto first = operands[0]->reals.begin() + static_cast<int64_t>(op.getOffset());
  std::copy_n(first, results[0].count(), results[0].reals.begin());
}

void runPack(dist::PackOp op, Operands operands, Results results) {
  for (auto [part, offset] : llvm::zip(operands, op.getOffsets()))
    llvm::copy(part->reals, results[0].reals.begin() + offset);
}

} // namespace

void addDistRules(RuleTable &table) {
  table.add<dist::ViewOp>(runView);
  table.add<dist::PackOp>(runPack);
  table.add<dist::CopyOp>([](dist::CopyOp, Operands operands, Results results) { results[0] = *operands[0]; });
}

} // namespace ztc
