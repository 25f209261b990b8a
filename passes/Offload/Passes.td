// What lies in the memory spaces below the device's, and how it gets to where steps compute.
#ifndef ZTC_PASSES_OFFLOAD
#define ZTC_PASSES_OFFLOAD
include "mlir/Pass/PassBase.td"

def PlaceBelow : Pass<"ztc-place-below", "mlir::ModuleOp"> {
  let summary = "Slots of buckets that the choice names lie in a lower space: `space` of `plan.slot`.";
  let description = [{
    The choice (OffloadChoice.h) counts buckets, for each kind of slot: the first in `host`, the next in `disk`. A slot stays on the device, with a
    remark, where a step needs it that no move can serve: anything but one launch of `@update` (or of `@microstep`, where it updates) over the bucket, and, of parameters, their gathers.
    Parameters that every rank keeps whole are left to `ztc-bring-parameters`.

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

def BringParameters : Pass<"ztc-bring-parameters", "mlir::ModuleOp"> {
  let summary = "Parameters that every rank keeps whole, and that the choice names, lie in a lower space, and come to a window for the steps that work on them.";
  let description = [{
    At stages 0 to 2 nothing is gathered before its use: a window of the bucket's size lives from a move to the last of the steps that follow one another
    closely, which are those between which fewer than two other blocks compute. A block has one for its forward and one for its backward; what stands around the
    turning point has one for both. It comes while the block before is computed.
    The update of a whole bucket (stage 0) works on them where they lie, piece by piece (`ztc-stream-update`, `ztc-update-on-host`); that of a shard, which a gather in
    place makes whole again (stages 1 and 2), in a window, which goes down while the next bucket is updated. What another slot shares stays on the device, with a remark.

        plan.slot @block0.parameter parameters full 4096 x bf16 {persistent}
        plan.gemm "layer 0 matmul" [..., #plan.operand<read @block0.parameter, 0, 8192>, ...]

    becomes

        plan.slot @block0.parameter parameters full 4096 x bf16 {persistent, space = #plan.space<host>}
        plan.slot @block0.parameter.brought gathered full 4096 x bf16
        plan.move "block0.parameter.brought in" [#plan.operand<read @block0.parameter, 0, 0>, #plan.operand<write @block0.parameter.brought, 0, 0>] {stream = 2}
        ...
        plan.wait "block0.parameter.brought in done" [#plan.operand<write @block0.parameter.brought, 0, 0>] ...
        plan.gemm "layer 0 matmul" [..., #plan.operand<read @block0.parameter.brought, 0, 8192>, ...]
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
  let options = [Option<"choice", "choice", "std::string", "\"none\"", "what lies below, e.g. parameters=12+0: host + disk, frozen buckets first">];
}

def UpdateOnHost : Pass<"ztc-update-on-host", "mlir::ModuleOp"> {
  let summary = "The update of buckets whose slots below lie in the host's memory is computed there, by its cores.";
  let description = [{
    Where the choice says so (OffloadChoice.h, `/update=host`), each such launch becomes, for each piece of the bucket, three steps of the stream of moves:
    what it reads on the device goes down into a window, the launch works in the host's memory, what it has written goes up. States stay where they are.
    The numbers are those of the device's kernel. A launch with a slot on the disk stays on the device, with a remark.

        plan.launch "block0 adamw" [#plan.operand<read @block0.gradient, 0, 0>, #plan.operand<read_write @block0.exp_avg, 0, 0>] {bucket = @block0, ...}

    becomes

        plan.move "block0 on the host piece 0 down" [#plan.operand<read @block0.gradient, 0, 0, piece 0 of 4194304>, #plan.operand<write @on_host.gradient, 0, 0>] {stream = 2}
        plan.launch "block0 adamw piece 0" [#plan.operand<read @on_host.gradient, 0, 0>, #plan.operand<read_write @block0.exp_avg, 0, 0, piece 0 of 4194304>]
          {bucket = @block0, piece = 0, piece_elements = 4194304, stream = 2, ...}
        plan.record ...
        plan.wait ...
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
  let options = [Option<"choice", "choice", "std::string", "\"none\"", "whether it does: with /update=host, e.g. states=12+0/update=host">,
                 Option<"pieceElements", "piece-elements", "uint64_t", "0", "elements of a piece, a multiple of 262144; 0: at least 4 Mi, and a 256th of the model's parameters">];
}

def StreamUpdate : Pass<"ztc-stream-update", "mlir::ModuleOp"> {
  let summary = "The update of buckets with slots below goes piece by piece through two windows on the device.";
  let description = [{
    Each launch of `@update`, or where updates are in the backward of `@microstep`, that works on slots below becomes one for each piece of the bucket (of the rank's shard, whatever that is), on windows
    of fixed size. While one piece is computed, the one before it moves out and the next but one moves in: moves are steps of stream 2, in one order,
    tied to the computation by events. In the backward a bucket of usual size is one piece: it comes during the backward of the block before, and
    leaves during the next one's.

        plan.launch "block0 adamw" [#plan.operand<read @block0.gradient, 0, 0>, #plan.operand<read_write @block0.exp_avg, 0, 0>] {bucket = @block0, ...}

    becomes

        plan.move "block0 piece 0 in" [#plan.operand<read @block0.exp_avg, 0, 0, piece 0 of 1048576>, #plan.operand<write @"window0.exp_avg", 0, 0>] {stream = 2}
        plan.wait ...
        plan.launch "block0 adamw piece 0" [#plan.operand<read @block0.gradient, 0, 0, piece 0 of 1048576>, #plan.operand<read_write @"window0.exp_avg", 0, 0>]
          {bucket = @block0, piece = 0, piece_elements = 1048576, ...}
        plan.move "block0 piece 0 out" [#plan.operand<read @"window0.exp_avg", 0, 0>, #plan.operand<write @block0.exp_avg, 0, 0, piece 0 of 1048576>] {stream = 2}
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
  let options = [Option<"pieceElements", "piece-elements", "uint64_t", "0", "elements of a piece, a multiple of 262144; 0: at least 4 Mi, and a 256th of the model's parameters, or in the backward a bucket">];
}

def StageSlots : Pass<"ztc-stage-slots", "mlir::ModuleOp"> {
  let summary = "Gradients and activations that the choice names lie in a lower space, and come to the device for the steps that work on them.";
  let description = [{
    The choice (OffloadChoice.h) counts buckets of gradients, and blocks, the first ones first, of activations that wait for the backward: all that a block
    keeps, or tensor by tensor, of the blocks that keep it (`activations.gate_proj.matmul=8+0`). Such a slot has another one below, and a place on the device for each group of steps that work on it: a micro-step's part of a gradient, its norm, its update; of an
    activation the forward and the backward. It comes back while the block before is computed, and leaves while the next one is. A gradient comes back for
    each addition, which one kernel does on the device whatever lies where.
    Gradients below stage 2, which ranks reduce where they add up, leave when that is done. What another slot shares stays on the device, with a remark.

        plan.launch "layer 0 add" [..., #plan.operand<write @h, 0, 0>]
        ...
        plan.launch "layer 0 rms_norm_grad" [#plan.operand<read @h, 0, 0>, ...]

    becomes

        plan.launch "layer 0 add" [..., #plan.operand<write @h, 0, 0>]
        plan.move "h out" [#plan.operand<read @h, 0, 0>, #plan.operand<write @h.below, 0, 0>] {stream = 2}
        ...
        plan.move "h again in" [#plan.operand<read @h.below, 0, 0>, #plan.operand<write @h.again, 0, 0>] {stream = 2}
        ...
        plan.launch "layer 0 rms_norm_grad" [#plan.operand<read @h.again, 0, 0>, ...]
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
  let options = [Option<"choice", "choice", "std::string", "\"none\"", "what lies below, e.g. gradients=4+0/activations=2+0/activations.gate_proj.matmul=8+0: host + disk">];
}

def NameMovedSlots : Pass<"ztc-name-moved-slots", "mlir::ModuleOp"> {
  let summary = "A wait for a move names every slot that has moved until then.";
  let description = [{
    Moves are in one order, so a wait for one is a wait for all before it, which other passes may have put there: their slots live until that wait.
    Runs last of the passes that write moves.
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
}
#endif
