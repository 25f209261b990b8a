#include "frontends/onnx/EvaluateByGraph.h"
#include "compiler/Reference/Interpreter.h"
#include "frontends/onnx/Emitter.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace ztc::importer {

void evaluateByGraph(KernelContext &c) {
  MLIRContext context;
  context.disableMultithreading();
  context.loadDialect<graph::GraphDialect, func::FuncDialect>();
  std::string text;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    text = text.empty() ? diagnostic.str() : text;
    return success();
  });
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  Names names(c.evaluator.model());
  ImportReport report;
  Emitter emitter(*module, c.evaluator.model(), names, c.evaluator, report);
  FailureOr<SmallVector<Tensor>> results = failure();
  if (succeeded(emitter.runNode(c.node)))
    results = interpret(emitter.function(), {});
  if (failed(results)) {
    c.fail(text);
    return;
  }
  unsigned next = 0;
  for (unsigned i = 0; i < c.node.outputs.size(); ++i) {
    if (c.node.outputs[i].empty())
      continue;
    const KnownValue &known = c.out(i);
    HostTensor *y = c.result(i, known.type, known.shape);
    const Tensor &tensor = (*results)[next++];
    if (!y || y->count() != tensor.count())
      return;
    for (int64_t e = 0, n = y->count(); e < n; ++e)
      tensor.isReal() && y->storage() == HostTensor::Storage::Reals ? y->setReal(e, tensor.reals[e])
      : tensor.isReal()                                             ? y->setInteger(e, int64_t(tensor.reals[e]))
                                                                    : y->setInteger(e, tensor.integers[e]);
  }
}

} // namespace ztc::importer
