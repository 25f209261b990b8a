#include "frontends/onnx/ImportGraph.h"
#include "frontends/onnx/Emitter.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace ztc::importer {

FailureOr<OwningOpRef<ModuleOp>> importGraph(MLIRContext &context, const Model &model, ImportReport &report) {
  context.loadDialect<graph::GraphDialect, func::FuncDialect>();
  auto fail = [&](const llvm::Twine &message) {
    return emitError(UnknownLoc::get(&context)) << model.path << ": " << message;
  };
  Liveness liveness;
  for (const GraphValue &input : model.inputs) {
    if (!elementBytes(input.type))
      return fail("input '" + input.name + "' has an element type that ztc does not read");
    if (llvm::any_of(input.shape, [](int64_t size) { return size < 0; }))
      return fail("input '" + input.name + "' has no static shape");
    liveness.roles[input.name].role = InputRole::Data;
    liveness.live.insert(input.name);
  }
  followLiveness(model, liveness);
  Names names(model);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  Emitter emitter(*module, model, names, liveness, Binding{}, /*isSymbolic=*/false, report);
  if (failed(emitter.runGraph()) || failed(verify(*module)))
    return failure();
  return module;
}

} // namespace ztc::importer
