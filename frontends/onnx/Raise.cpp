#include "frontends/onnx/Raise.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace ztc::importer {

void eraseDead(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

void raiseIdioms(func::FuncOp function, std::map<std::string, unsigned> &counts) {
  auto run = [&](const char *name, unsigned (*idiom)(func::FuncOp)) {
    if (unsigned matches = idiom(function); matches && *name)
      counts[name] += matches;
    eraseDead(function);
  };
  run("", foldTransposes);
  run("rms_norm", raiseRmsNorm);
  run("swiglu", raiseSwiglu);
  run("rope", raiseRope);
  run("attention", raiseAttention);
  run("", foldTransposes);
  run("", flattenRows);
}

} // namespace ztc::importer
