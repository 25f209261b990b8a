#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Verification/Keeps.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"
#include "runtime/Format/StepParameters.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/xxhash.h"
#include <cmath>

#define DEBUG_TYPE "ztc-expand-dropout"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_EXPANDDROPOUT
#include "passes/Autodiff/Passes.h.inc"

namespace {
using graph::Expr;

/// Marks a mask that is drawn again for the backward part, so that CSE does not merge it with the first one, which
/// would have to be kept.
constexpr StringLiteral kDrawnAgain = "graph.drawn_again";

/// Which random numbers a module draws: of its name alone, the same in every plan.
int64_t streamOf(StringRef module) {
  return int64_t(llvm::xxh3_64bits(module) >> 33);
}

/// What the masks of a function are drawn from.
struct Draw {
  Value step, first; ///< the step parameters; tokens of the global batch before this micro-step's
};

class MaskDrawer {
public:
  explicit MaskDrawer(const Draw &draw) : draw(draw) {}

  void expand(graph::DropoutOp op) {
    OpBuilder builder(op);
    Expr x(builder, op.getLoc(), op.getX());
    const double probability = op.getProbability().convertToDouble();
    Expr bits = random(x, op.getModule());
    Expr least = graph::constantLike(bits, std::round(probability * 0x1p31));
    Expr kept = graph::select(bits >= least, x * (1 / (1 - probability)), graph::zeroLike(x));
    op.replaceAllUsesWith(kept.value());
    op.erase();
  }

private:
  /// One number for each element of `x`.
  Expr random(const Expr &x, StringRef module) {
    OpBuilder &builder = x.builder();
    auto field = [&](StepParameter parameter) {
      Expr step = x.with(draw.step);
      return graph::broadcastLike(graph::slice(step, {int64_t(parameter)}, {1}), x);
    };
    RankedTensorType places = x.type().clone(builder.getI64Type());
    Value row = graph::IotaOp::create(builder, x.loc(), places, 0);
    Value column = graph::IotaOp::create(builder, x.loc(), places, 1);
    Value first = graph::broadcast(x.with(draw.first), x.type().getShape()).value();
    Value seed = field(StepParameter::RandomSeed).value(), step = field(StepParameter::RandomStep).value();
    auto op = graph::RandomBitsOp::create(builder, x.loc(), x.type().clone(builder.getI32Type()), row, column, first,
                                          seed, step, builder.getI64IntegerAttr(x.dim(1)),
                                          builder.getI64IntegerAttr(streamOf(module)));
    if (!drawn.insert(module).second)
      op->setAttr(kDrawnAgain, builder.getUnitAttr());
    return x.with(op);
  }

  Draw draw;
  llvm::StringSet<> drawn;
};

struct ExpandDropout : impl::ExpandDropoutBase<ExpandDropout>, SaysWhatItKeeps {
  /// Up to here nothing was dropped.
  Keeps keeps() const override { return Keeps::Changes; }

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      SmallVector<graph::DropoutOp> dropouts;
      function.walk([&](graph::DropoutOp op) { dropouts.push_back(op); });
      if (dropouts.empty())
        continue;
      if (!graph::isEntry(function, graph::Entry::Microstep)) {
        for (graph::DropoutOp op : dropouts) {
          op.replaceAllUsesWith(op.getX());
          op.erase();
        }
        continue;
      }
      SmallVector<unsigned> steps = graph::argumentsWithRole(function, graph::Role::Step);
      if (steps.size() != 1) {
        function.emitOpError("has ") << steps.size() << " arguments with the role step, expected one";
        return signalPassFailure();
      }
      auto index = RankedTensorType::get({1}, IntegerType::get(&getContext(), 64));
      Value first = insertArgument(function, steps[0] + 1, index, graph::Role::FirstToken);
      MaskDrawer drawer({function.getArgument(steps[0]), first});
      for (graph::DropoutOp op : dropouts)
        drawer.expand(op);
    }
  }
};
} // namespace
} // namespace ztc
