// What steers the compiler, as attributes that the dialect verifies: see RationaleGraph.md.
#ifndef ZTC_GRAPH_ENUMS
#define ZTC_GRAPH_ENUMS
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Graph_Enum<string name, string summary, list<I32EnumCase> cases> : I32Enum<name, summary, cases> {
  let cppNamespace = "::ztc::graph";
}
/// An enum of an op: a bare word in its textual form.
class Graph_EnumAttr<I32Enum values, string mnemonic> : EnumAttr<Graph_Dialect, values, mnemonic>;
/// An enum in an attribute dictionary: #graph.MNEMONIC<word>.
class Graph_MarkAttr<I32Enum values, string mnemonic> : EnumAttr<Graph_Dialect, values, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

def Graph_Comparison : Graph_Enum<"Comparison", "predicate of a comparison", [
  I32EnumCase<"Equal", 0, "eq">, I32EnumCase<"NotEqual", 1, "ne">, I32EnumCase<"Less", 2, "lt">, I32EnumCase<"LessOrEqual", 3, "le">,
  I32EnumCase<"Greater", 4, "gt">, I32EnumCase<"GreaterOrEqual", 5, "ge">]>;
def Graph_ComparisonAttr : Graph_EnumAttr<Graph_Comparison, "comparison">;

def Graph_Logic : Graph_Enum<"Logic", "function of two bits", [
  I32EnumCase<"And", 0, "and">, I32EnumCase<"Or", 1, "or">, I32EnumCase<"Xor", 2, "xor">]>;
def Graph_LogicAttr : Graph_EnumAttr<Graph_Logic, "logic_function">;

def Graph_Rounding : Graph_Enum<"Rounding", "rounding mode", [
  I32EnumCase<"Floor", 0, "floor">, I32EnumCase<"Ceil", 1, "ceil">, I32EnumCase<"Even", 2, "even">, I32EnumCase<"Truncate", 3, "truncate">]>;
def Graph_RoundingAttr : Graph_EnumAttr<Graph_Rounding, "rounding">;

def Graph_FusionKind : Graph_Enum<"FusionKind", "kind of a fusion group", [
  I32EnumCase<"Single", 0, "single">,         // one op, with the widenings that it reads
  I32EnumCase<"Chain", 1, "chain">,           // ops that read each element once: (F4) of ztc-verify-fuse holds
  I32EnumCase<"Macro", 2, "macro">,           // macro ops, written out
  I32EnumCase<"Scalars", 3, "scalars">,       // the scalars of one function
  I32EnumCase<"ShardSum", 4, "shard_sum">,    // a rank's shard of a sum over ranks, added into its bucket
  I32EnumCase<"AddendCopy", 5, "addend_copy">, // a copy of an addend that has another reader
  I32EnumCase<"PartCopy", 6, "part_copy">,    // a copy of a local gradient that has another reader
  I32EnumCase<"Split", 7, "split">]>;         // one op of a group, where fusion is off
def Graph_FusionKindAttr : Graph_EnumAttr<Graph_FusionKind, "fusion_kind">;

def Graph_Entry : Graph_Enum<"Entry", "purpose of a function", [
  I32EnumCase<"Forward", 0, "forward">, I32EnumCase<"Microstep", 1, "microstep">, I32EnumCase<"Update", 2, "update">,
  I32EnumCase<"Eval", 3, "eval">, I32EnumCase<"Generate", 4, "generate">, I32EnumCase<"Decode", 5, "decode">,
  I32EnumCase<"DecodeRows", 6, "decode_rows">]>;
def Graph_EntryAttr : Graph_MarkAttr<Graph_Entry, "entry">;

/// A state is named by graph.state beside its role: which states there are is up to the optimizer.
def Graph_Role : Graph_Enum<"Role", "role of an argument", [
  I32EnumCase<"Tokens", 0, "tokens">, I32EnumCase<"Targets", 1, "targets">, I32EnumCase<"Step", 2, "step">,
  I32EnumCase<"Position", 3, "position">, I32EnumCase<"Cache", 4, "cache">, I32EnumCase<"Parameter", 5, "parameter">,
  I32EnumCase<"Gradient", 6, "gradient">, I32EnumCase<"State", 7, "state">, I32EnumCase<"Master", 8, "master">,
  I32EnumCase<"ParameterBucket", 9, "parameter_bucket">, I32EnumCase<"GradientBucket", 10, "gradient_bucket">,
  I32EnumCase<"StateBucket", 11, "state_bucket">, I32EnumCase<"MasterBucket", 12, "master_bucket">,
  I32EnumCase<"FirstToken", 13, "first_token">, I32EnumCase<"Data", 14, "data">, // an input besides the tokens, taken from the data as it is
  I32EnumCase<"DocumentStarts", 15, "document_starts">, // i32 (B, S): where in its row the document of each token starts
  I32EnumCase<"LossWeights", 16, "loss_weights">]>; // f32 (B, S): what the loss of each target is multiplied by
def Graph_RoleAttr : Graph_MarkAttr<Graph_Role, "role">;

def Graph_ResultKind : Graph_Enum<"ResultKind", "kind of a result", [
  I32EnumCase<"Logits", 0, "logits">, I32EnumCase<"Loss", 1, "loss">, I32EnumCase<"Gradient", 2, "gradient">,
  I32EnumCase<"ReducedGradient", 3, "reduced_gradient">, I32EnumCase<"Parameter", 4, "parameter">, I32EnumCase<"State", 5, "state">,
  I32EnumCase<"Master", 6, "master">, I32EnumCase<"Cache", 7, "cache">, I32EnumCase<"GradientNorm", 8, "gradient_norm">,
  I32EnumCase<"Finite", 9, "finite">]>;
def Graph_ResultKindAttr : Graph_MarkAttr<Graph_ResultKind, "result">;

/// The numbers are those of plan.proto's WeightFormat.
def Graph_WeightFormat : Graph_Enum<"WeightFormat", "format of a weight in fewer bits", [
  I32EnumCase<"Nf4", 1, "nf4">, I32EnumCase<"Int8", 2, "int8">, I32EnumCase<"Nf4Single", 3, "nf4_single">,
  I32EnumCase<"Mxfp4", 4, "mxfp4">]>;
def Graph_WeightFormatAttr : Graph_EnumAttr<Graph_WeightFormat, "weight_format"> {
  let assemblyFormat = "`<` $value `>`";
}

#endif
