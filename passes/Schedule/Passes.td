// The order of steps.
#ifndef ZTC_PASSES_SCHEDULE
#define ZTC_PASSES_SCHEDULE
include "mlir/Pass/PassBase.td"

def OrderSteps : Pass<"ztc-order-steps", "mlir::ModuleOp"> {
  let summary = "Puts the ops of each function into the order in which they run.";
  let description = [{
    Afterwards the textual order is the order of execution on one stream, the same on every machine. What differentiation emitted
    stays in its order, except that
    - a product that is only added to a gradient stands right behind the last of its operands, so that activations die early;
    - an accumulate stands right behind its addend, accumulates of one place in the order of their addends;
    - aliases (views, reshapes) and constants stand right before their first reader.
  }];
}
#endif
