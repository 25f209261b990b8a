// The plan dialect: flat records, one to one with runtime/Format/plan.proto.
#ifndef ZTC_PLAN_BASE
#define ZTC_PLAN_BASE
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::ztc::plan_ir";
  let summary = "Steps with slots: what the plan file says.";
  let description = [{ See RationalePlan.md. The C++ namespace is plan_ir because ztc::plan belongs to the file format. }];
  let useDefaultAttributePrinterParser = 1;
}

class Plan_Enum<string name, list<I32EnumCase> cases> : I32Enum<name, "", cases> { let cppNamespace = "::ztc::plan_ir"; }

/// The numbers are those of plan.proto.
def Plan_SlotClass : Plan_Enum<"SlotClass", [
  I32EnumCase<"Parameters", 1, "parameters">, I32EnumCase<"Gathered", 2, "gathered">, I32EnumCase<"Gradients", 3, "gradients">,
  I32EnumCase<"Optimizer", 4, "optimizer">, I32EnumCase<"Activations", 5, "activations">, I32EnumCase<"Workspace", 6, "workspace">,
  I32EnumCase<"Communication", 7, "communication">, I32EnumCase<"Io", 8, "io">,
  I32EnumCase<"Cache", 9, "cache">]>;
def Plan_SizeKind : Plan_Enum<"SizeKind", [
  I32EnumCase<"Constant", 0, "constant">, I32EnumCase<"Shard", 1, "shard">, I32EnumCase<"Full", 2, "full">,
  I32EnumCase<"PerThread", 3, "per_thread">]>;
def Plan_Space : Plan_Enum<"Space", [I32EnumCase<"Device", 0, "device">, I32EnumCase<"Host", 1, "host">, I32EnumCase<"Disk", 2, "disk">]>;
def Plan_CollectiveKind : Plan_Enum<"CollectiveKind", [
  I32EnumCase<"AllGather", 0, "all_gather">, I32EnumCase<"ReduceScatter", 1, "reduce_scatter">, I32EnumCase<"AllReduce", 2, "all_reduce">,
  I32EnumCase<"AllReduceMax", 3, "all_reduce_max">]>;
def Plan_Access : Plan_Enum<"Access", [I32EnumCase<"Read", 0, "read">, I32EnumCase<"Write", 1, "write">, I32EnumCase<"ReadWrite", 2, "read_write">]>;
def Plan_Accumulate : Plan_Enum<"Accumulate", [
  I32EnumCase<"Overwrite", 0, "overwrite">, I32EnumCase<"Add", 1, "add">, I32EnumCase<"AddUnlessFirst", 2, "add_unless_first">]>;
def Plan_WeightFormat : Plan_Enum<"WeightFormat", [I32EnumCase<"Plain", 0, "plain">, I32EnumCase<"Nf4", 1, "nf4">, I32EnumCase<"Int8", 2, "int8">, I32EnumCase<"Nf4Single", 3, "nf4_single">,
  I32EnumCase<"Mxfp4", 4, "mxfp4">]>;

class Plan_Attr<string name, string attrMnemonic> : AttrDef<Plan_Dialect, name> { let mnemonic = attrMnemonic; }
def Plan_SlotClassAttr : EnumAttr<Plan_Dialect, Plan_SlotClass, "slot_class">;
def Plan_SizeKindAttr : EnumAttr<Plan_Dialect, Plan_SizeKind, "size_kind">;
def Plan_SpaceAttr : EnumAttr<Plan_Dialect, Plan_Space, "space"> { let assemblyFormat = "`<` $value `>`"; }
def Plan_CollectiveKindAttr : EnumAttr<Plan_Dialect, Plan_CollectiveKind, "collective"> { let assemblyFormat = "`<` $value `>`"; }
def Plan_AccumulateAttr : EnumAttr<Plan_Dialect, Plan_Accumulate, "accumulate"> { let assemblyFormat = "`<` $value `>`"; }
def Plan_WeightFormatAttr : EnumAttr<Plan_Dialect, Plan_WeightFormat, "weight_format"> { let assemblyFormat = "`<` $value `>`"; }

def Plan_PlaceAttr : Plan_Attr<"Place", "place"> {
  let summary = "Where a value lies: a slot, and an offset in bytes; or the rank's own shard of a slot that holds a whole bucket.";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$slot, "uint64_t":$offset, "bool":$own_shard);
  let assemblyFormat = "`<` $slot `,` $offset `` custom<OwnShard>($own_shard) `>`";
}
def Plan_OperandAttr : Plan_Attr<"Operand", "operand"> {
  let summary = "One operand of a step: access, slot, offset and length in bytes (0: the rest of the slot, or its own shard); or of that a piece of so many elements.";
  let parameters = (ins EnumParameter<Plan_Access>:$access, "::mlir::FlatSymbolRefAttr":$slot, "uint64_t":$offset, "uint64_t":$bytes, "bool":$own_shard,
                        "uint64_t":$piece, "uint64_t":$piece_elements);
  let builders = [AttrBuilder<(ins "Access":$access, "::mlir::FlatSymbolRefAttr":$slot, "uint64_t":$offset, "uint64_t":$bytes, "bool":$ownShard),
                              [{ return $_get($_ctxt, access, slot, offset, bytes, ownShard, 0, 0); }]>];
  let assemblyFormat = "`<` $access $slot `,` $offset `,` $bytes `` custom<OwnShardAndPiece>($own_shard, $piece, $piece_elements) `>`";
}
def Plan_OperandArrayAttr : TypedArrayAttrBase<Plan_OperandAttr, "operands of a step">;

def Plan_StateAttr : Plan_Attr<"State", "state"> {
  let summary = "A state of the optimizer: its name in checkpoints, and the slot that holds a bucket of it.";
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::FlatSymbolRefAttr":$slot);
  let assemblyFormat = "`<` $name `,` $slot `>`";
}
def Plan_StateArrayAttr : TypedArrayAttrBase<Plan_StateAttr, "states of a bucket">;

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;
#endif
