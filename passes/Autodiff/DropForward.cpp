#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/Passes.h"

#define DEBUG_TYPE "ztc-drop-forward"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_DROPFORWARD
#include "passes/Autodiff/Passes.h.inc"

namespace {
struct DropForward : impl::DropForwardBase<DropForward> {
  void runOnOperation() override {
    if (auto forward = graph::findEntry(getOperation(), graph::Entry::Forward))
      forward.erase();
  }
};
} // namespace
} // namespace ztc
