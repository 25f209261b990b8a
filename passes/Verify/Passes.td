// Post-conditions of the phases.
#ifndef ZTC_PASSES_VERIFY
#define ZTC_PASSES_VERIFY
include "mlir/Pass/PassBase.td"

def VerifyImport : Pass<"ztc-verify-import", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `import`.";
  let description = [{
    (I1) the module holds one function, `@forward`, with a body of `graph` ops.
    (I2) `graph.batch`, `graph.seq`, `graph.vocabulary` are positive integers; tokens, one argument, is (batch, seq) of i32.
    (I3) every other argument is a parameter with a checkpoint name of its own, of static shape.
    (I4) all floats, in arguments and in the body, have one type, and no cast leads from float to float.
    (I5) the result is (batch, seq, vocabulary) logits.
  }];
}

def VerifyBackward : Pass<"ztc-verify-backward", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `backward`.";
  let description = [{
    (B1) the module holds `@microstep`, `@update`, `@eval` and `@generate`, no `@forward`, and only `graph` ops in them.
    (B2) `@microstep` takes tokens, targets, step, parameters; it returns the loss (rank 0) and then, per trainable parameter in order,
    a gradient of its name and type.
    (B3) `@update` takes step, and parameter, gradient, exp_avg, exp_avg_sq of each trainable parameter; it returns the new parameters and
    states, `gradient_norm` and `finite`.
    (B4) `@eval` takes tokens, targets and the parameters, and returns the loss.
    (B5) `@generate` takes tokens, position and the parameters, and returns (1, vocabulary) logits.
  }];
}
#endif
