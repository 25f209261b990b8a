#include "compiler/Dialect/Graph/Graph.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"

#define DEBUG_TYPE "ztc-pack-documents"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_PACKDOCUMENTS
#include "passes/Autodiff/Passes.h.inc"

namespace {
struct PackDocuments : impl::PackDocumentsBase<PackDocuments> {
  void runOnOperation() override {
    if (func::FuncOp eval = findFunction(getOperation(), graph::Entry::Eval))
      eval.emitOpError("is not made for several documents in a row yet");
    signalPassFailure();
  }
};
} // namespace
} // namespace ztc
