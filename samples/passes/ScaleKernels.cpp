// A pass over the forms of kernels: it multiplies what kernels compute by a factor, once for processors and GPUs.
//   ztc compile MODEL --load-pass-plugin=ScaleKernels.so --pass-option=scale-kernels.kernel=swiglu
//     --pass-option=scale-kernels.by=0.5 -o plan.bin
// Equal groups share a kernel: with `call=N` the N-th of those that launch it gets one of its own first.
#include "compiler/Codegen/OwnKernel.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

namespace {

struct ScaleKernels : mlir::PassWrapper<ScaleKernels, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ScaleKernels)
  ScaleKernels() = default;
  ScaleKernels(const ScaleKernels &other) : PassWrapper(other) {}
  llvm::StringRef getArgument() const override { return "scale-kernels"; }
  llvm::StringRef getDescription() const override { return "multiplies the results of kernels by a factor"; }

  void runOnOperation() override {
    llvm::SetVector<mlir::Operation *> forms;
    int number = 0;
    getOperation().walk([&](ztc::graph::FusionOp group) {
      ztc::kernel::FuncOp form = ztc::kernel::formOf(group);
      if (!form || form.getSymName() != kernel)
        return;
      const bool isMeant = call < 0 || call == number;
      ++number;
      if (isMeant && call >= 0)
        form = ztc::kernel::makeOwn(group);
      if (isMeant)
        forms.insert(form);
    });
    for (mlir::Operation *form : forms)
      for (mlir::OpOperand &result :
           mlir::cast<ztc::kernel::FuncOp>(form).getBody().front().getTerminator()->getOpOperands())
        scale(result);
    mlir::remark::passed(getOperation().getLoc(), mlir::remark::RemarkOpts::name("scaled").category(getArgument()))
        << std::to_string(forms.size()) + " kernels are scaled";
  }

  /// Multiplies what `use` reads. Phase assign has chosen loops for what stands before trailing reshapes, and for each
  /// part of what is joined: there the product goes.
  void scale(mlir::OpOperand &use) {
    mlir::Value value = use.get();
    auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
    if (!mlir::isa<mlir::FloatType>(type.getElementType()))
      return;
    mlir::OpBuilder builder(use.getOwner());
    if (mlir::isa_and_nonnull<ztc::graph::ReshapeOp, ztc::graph::ConcatOp>(value.getDefiningOp())) {
      mlir::Operation *copy = builder.clone(*value.getDefiningOp()); // others may read the old one
      use.set(copy->getResult(0));
      for (mlir::OpOperand &part : copy->getOpOperands())
        scale(part);
      return;
    }
    auto number = mlir::DenseElementsAttr::get(mlir::RankedTensorType::get({}, type.getElementType()),
                                               mlir::Attribute(builder.getFloatAttr(type.getElementType(), by)));
    mlir::Value factor = ztc::graph::ConstantOp::create(builder, value.getLoc(), number);
    if (type.getRank())
      factor = ztc::graph::BroadcastOp::create(builder, value.getLoc(), type, factor);
    use.set(ztc::graph::MulOp::create(builder, value.getLoc(), value, factor));
  }

  Option<std::string> kernel{*this, "kernel", llvm::cl::desc("name of the kernel, as ztc inspect --kernels has it")};
  Option<double> by{*this, "by", llvm::cl::desc("the factor"), llvm::cl::init(1.0)};
  Option<int> call{*this, "call", llvm::cl::desc("which of the kernel's calls; -1: all"), llvm::cl::init(-1)};
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "scale-kernels", "1.0", [] { mlir::PassRegistration<ScaleKernels>(); }};
}

extern "C" void ztcRegisterPhaseHooks(ztc::PhaseHooks &hooks) {
  hooks.after(ztc::KernelLevel::Forms, [] { return std::make_unique<ScaleKernels>(); }, ztc::Keeps::Changes);
}
