// The order of steps.
#ifndef ZTC_PASSES_SCHEDULE
#define ZTC_PASSES_SCHEDULE
include "mlir/Pass/PassBase.td"

def UpdateInBackward : Pass<"ztc-update-in-backward", "mlir::ModuleOp"> {
  let summary = "@microstep is the whole step: it updates each bucket.";
  let description = [{
    In a module with `graph.update_in_backward`, whose buckets are reduced, the ops of `@update` stand after those of `@microstep`, and there is no
    `@update`: the gradient that an update reads is what the reduction gives, and is no longer returned; states and masters are
    arguments and results of `@microstep`. Other modules stay as they are.

        func.func @microstep(..., %p, %g) { ... %own = dist.reduce_scatter %pack ...; %sum = graph.accumulate %g, %own {first_writes}; return %loss, %sum }
        func.func @update(%step, %p, %g, %m) { ...; return %new, %new_m, %norm, %finite }

    becomes

        func.func @microstep(..., %p, %m) { ... %own = dist.reduce_scatter %pack ...; ...; return %loss, %new, %new_m, %norm, %finite }
  }];
}

def OrderSteps : Pass<"ztc-order-steps", "mlir::ModuleOp"> {
  let summary = "Puts the ops of each function into the order in which they run.";
  let description = [{
    Afterwards the textual order is the order of execution on one stream, the same on every machine. What differentiation emitted
    stays in its order, except that
    - a product that is only added to a gradient, or is one, stands right after the last of its operands, so that activations die early;
    - an accumulate stands right after its addend, accumulates of one place in the order of their addends;
    - aliases (views, reshapes) and constants stand right before their first reader.
  }];
}

def OverlapCollectives : Pass<"ztc-overlap-collectives", "mlir::ModuleOp"> {
  let summary = "Collectives run beside the computation: each becomes a start and a done, apart from one another.";
  let description = [{
    - all_gather of what a function takes: the done stands right before the first use; the start where the gather `prefetch` places before it in the
      order of first uses is first used (buckets of less than a sixteenth of its size do not count: their computation hides nothing; those of one
      block count as one). At most prefetch + 1 blocks have gathered parameters (`dist.prefetch` on the module).
    - all_gather of what is computed: start right after that, done before the first use, or at the function's end.
    - reduce_scatter: start right after the gradient's last part; the done, and what keeps the result, right before the start of the next one that has at
      least a sixteenth of its elements, the last at the function's end: one is in flight, and small ones beside it.
    - all_reduce: start and done where it stands.

        %f = dist.all_gather %s axis "data" : ...

    becomes

        %p = dist.all_gather_start %s axis "data" : ... -> !dist.pending<...>
        ... the computation of the block before ...
        %f = dist.all_gather_done %p : !dist.pending<...>
  }];
  let dependentDialects = ["::ztc::dist::DistDialect"];
  let options = [Option<"prefetch", "prefetch", "unsigned", "1", "gathers that run ahead of the one that is used">];
}

def PlaceUpdates : Pass<"ztc-place-updates", "mlir::ModuleOp"> {
  let summary = "A bucket's update in @microstep stands as early as it may: no gradient waits for another.";
  let description = [{
    Where updates are in the backward, what is made of a bucket's reduced gradient (its norm, the new parameters and states, at stages 1 and 2 the start of
    the gather of the parameters) stands right after the reduction and the last op that reads the bucket's old parameters, and a
    gather of new parameters is done at the function's end. What needs several buckets, the norm of all gradients, stands after the last of them.
  }];
}

def OrderCollectives : Pass<"ztc-order-collectives", "mlir::ModuleOp"> {
  let summary = "Numbers the starts of collectives in the order of the text: the one order in which all ranks launch them.";
  let description = [{ Function by function, from 0 on. The order is that of the program on every rank, whatever communicators there are. }];
  let dependentDialects = ["::ztc::dist::DistDialect"];
}

def AssignMatrices : Pass<"ztc-assign-matrices", "mlir::ModuleOp"> {
  let summary = "What is computed of one rank's matrix is executed by that rank alone.";
  let description = [{
    Afterwards every op that reads what a `dist.own_matrix` gives, or what is made of that, up to the `dist.pack`, carries the parameter's name as
    `dist.owned_parameter`: the steps that it becomes are left out by all ranks but the matrix' owner, who fill its place with zeros. An op that is made of two
    matrices is an error: these may be of two ranks.
  }];
  let dependentDialects = ["::ztc::dist::DistDialect"];
}
#endif
