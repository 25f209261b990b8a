// What lies in the memory spaces below the device's, and how it gets to where steps compute.
#ifndef ZTC_PASSES_OFFLOAD
#define ZTC_PASSES_OFFLOAD
include "mlir/Pass/PassBase.td"

def PlaceBelow : Pass<"ztc-place-below", "mlir::ModuleOp"> {
  let summary = "Slots of buckets that the choice names lie in a lower space: `space` of `plan.slot`.";
  let description = [{
    The choice (OffloadChoice.h) counts buckets, for each kind of slot: the first in `host`, the next in `disk`. A slot stays on the device, with a
    remark, where a step needs it that no move can serve: anything but one launch of `@update` over the bucket, and, of parameters, their gathers.

        plan.slot @block0.exp_avg optimizer shard 4096 x f32 {persistent}

    becomes

        plan.slot @block0.exp_avg optimizer shard 4096 x f32 {persistent, space = #plan.space<disk>}
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
  let options = [Option<"choice", "choice", "std::string", "\"none\"", "buckets by kind, e.g. states=0+12/masters=0+12/parameters=0+0: host + disk">];
}

def MoveGathers : Pass<"ztc-move-gathers", "mlir::ModuleOp"> {
  let summary = "A gather of parameters that lie below begins with a move of the rank's shard to where the whole bucket will be.";
  let description = [{
    The move stands where the gather before it begins, so that it runs beside the computation between them; the first stands right before its own.
    From there on the gather is in place, and at one rank it does nothing.

        plan.collective "all_gather block0" [#plan.operand<read @block0.parameter, 0, 0>, #plan.operand<write @block0.gathered, 0, 0>] {stream = 1, ...}

    becomes

        plan.move "block0 in" [#plan.operand<read @block0.parameter, 0, 0>, #plan.operand<write @block0.gathered, 0, 0, own_shard>] {stream = 2}
        ...
        plan.collective "all_gather block0" [#plan.operand<read @block0.gathered, 0, 0, own_shard>, #plan.operand<write @block0.gathered, 0, 0>] {stream = 1, ...}
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
}

def StreamUpdate : Pass<"ztc-stream-update", "mlir::ModuleOp"> {
  let summary = "The update of buckets with slots below goes piece by piece through two windows on the device.";
  let description = [{
    Each launch of `@update` that works on slots below becomes one for each piece of the bucket (of the rank's shard, whatever that is), on windows
    of fixed size. While one piece is computed, the one before it moves out and the next but one moves in: moves are steps of stream 2, in one order,
    tied to the computation by events.

        plan.launch "block0 adamw" [#plan.operand<read @block0.gradient, 0, 0>, #plan.operand<read_write @block0.exp_avg, 0, 0>] {bucket = @block0, ...}

    becomes

        plan.move "block0 piece 0 in" [#plan.operand<read @block0.exp_avg, 0, 0, piece 0 of 1048576>, #plan.operand<write @"window0.exp_avg", 0, 0>] {stream = 2}
        plan.wait ...
        plan.launch "block0 adamw piece 0" [#plan.operand<read @block0.gradient, 0, 0, piece 0 of 1048576>, #plan.operand<read_write @"window0.exp_avg", 0, 0>]
          {bucket = @block0, piece = 0, piece_elements = 1048576, ...}
        plan.move "block0 piece 0 out" [#plan.operand<read @"window0.exp_avg", 0, 0>, #plan.operand<write @block0.exp_avg, 0, 0, piece 0 of 1048576>] {stream = 2}
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
  let options = [Option<"pieceElements", "piece-elements", "uint64_t", "0", "elements of a piece, a multiple of 262144; 0: at least 4 Mi, and a 256th of the model's parameters">];
}
#endif
