#include "passes/Kernels/Passes.h"
#include "passes/Kernels/Selection.h"

#define DEBUG_TYPE "ztc-select-kernels"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_SELECTKERNELS
#include "passes/Kernels/Passes.h.inc"

namespace {
struct SelectKernels : impl::SelectKernelsBase<SelectKernels> {
  void runOnOperation() override {
    KernelModule kernels;
    if (failed(selectKernels(getOperation(), kernels)))
      signalPassFailure();
  }
};
} // namespace
} // namespace ztc
