// An op of one's own, with a verifier, a gradient and, by decompose(), a kernel; and a pass that puts it in the place
// of graph.swiglu before the graph is differentiated.
//   ztc compile MODEL --load-pass-plugin=GatedSilu.so -o plan.bin
//   ztc-opt --load-dialect-plugin=GatedSilu.so --load-pass-plugin=GatedSilu.so \
//     --pass-pipeline='builtin.module(gate-silu)' step.mlir
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

#include "GatedSiluDialect.h.inc"
#define GET_OP_CLASSES
#include "GatedSilu.h.inc"

#include "GatedSiluDialect.cpp.inc"
#define GET_OP_CLASSES
#include "GatedSilu.cpp.inc"

using namespace ztc::graph;

void sample::SampleDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "GatedSilu.cpp.inc"
      >();
}

llvm::LogicalResult sample::GatedSiluOp::verify() {
  // (C1)
  if (mlir::Type element = mlir::getElementTypeOrSelf(getY().getType()); !mlir::isa<mlir::FloatType>(element))
    return emitOpError("is not of floats: ") << element;
  return mlir::success();
}

/// Of narrow floats as every op of graph: computed in f32, rounded once.
llvm::FailureOr<llvm::SmallVector<mlir::Value>> sample::GatedSiluOp::decompose(mlir::OpBuilder &builder) {
  Expr stored(builder, getLoc(), getGate()), gate = widen(stored), up = widen(stored.with(getUp()));
  return llvm::SmallVector<mlir::Value>{castTo(gate * sigmoid(gate) * up, stored.elementType()).value()};
}

/// d silu = s (1 + x (1 - s)), with s = sigmoid(x).
llvm::LogicalResult sample::GatedSiluOp::buildVjp(mlir::OpBuilder &builder, ztc::VjpContext &context) {
  mlir::Value cotangent = context.cotangent(0);
  if (!cotangent)
    return mlir::success();
  Expr dy(builder, getLoc(), cotangent), gate = dy.with(context.operand(0)), up = dy.with(context.operand(1));
  Expr s = sigmoid(gate);
  if (context.wants(0))
    context.accumulate(0, (dy * up * (s * (1.0 + gate * (1.0 - s)))).value());
  if (context.wants(1))
    context.accumulate(1, (dy * (gate * s)).value());
  return mlir::success();
}

namespace {

struct GateSilu : mlir::PassWrapper<GateSilu, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GateSilu)
  llvm::StringRef getArgument() const override { return "gate-silu"; }
  llvm::StringRef getDescription() const override { return "writes graph.swiglu as sample.gated_silu"; }
  void getDependentDialects(mlir::DialectRegistry &registry) const override {
    registry.insert<sample::SampleDialect>();
  }

  void runOnOperation() override {
    getOperation().walk([&](SwigluOp op) {
      mlir::OpBuilder builder(op);
      auto gated = sample::GatedSiluOp::create(builder, op.getLoc(), op.getType(), op.getGate(), op.getUp());
      mlir::remark::passed(op.getLoc(), mlir::remark::RemarkOpts::name("gated").category(getArgument()))
          << "swiglu is an op of the plugin";
      op.replaceAllUsesWith(gated.getResult());
      op.erase();
    });
  }
};

void addDialect(mlir::DialectRegistry *registry) {
  registry->insert<sample::SampleDialect>();
}

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::DialectPluginLibraryInfo mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "gated-silu", "1.0", addDialect};
}

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "gated-silu", "1.0", [] { mlir::PassRegistration<GateSilu>(); }};
}

extern "C" void ztcRegisterPhaseHooks(ztc::PhaseHooks &hooks) {
  hooks.after(ztc::Phase::Import, [] { return std::make_unique<GateSilu>(); });
}
