// The graph dialect: tensors in SSA form, pure, static shapes.
#ifndef ZTC_GRAPH_BASE
#define ZTC_GRAPH_BASE
include "compiler/Interfaces/Cost.td"
include "compiler/Interfaces/Decomposable.td"
include "compiler/Interfaces/Differentiable.td"
include "compiler/Interfaces/LibraryCall.td"
include "compiler/Interfaces/Optimizer.td"
include "compiler/Interfaces/Precision.td"
include "compiler/Interfaces/StorageAlias.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Graph_Dialect : Dialect {
  let name = "graph";
  let cppNamespace = "::ztc::graph";
  let summary = "A training step as pure operations on static tensors.";
  let description = [{
    Roles of function arguments are argument attributes, see RationaleGraph.md. Every op is pure; effects
    (slots, accumulation in place) appear only in later phases. Constraints are numbered (C1, C2, ...):
    the number stands in the op's description, in its verifier and in its test.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

include "compiler/Dialect/Graph/GraphEnums.td"

/// An element of an optimizer's state in 8 bits.
def Graph_Block8Type : TypeDef<Graph_Dialect, "Block8"> {
  let mnemonic = "block8";
  let summary = "8-bit code in a block with one scale";
  let description = [{
    `tensor<?x!graph.block8<signed>, ...>` is a bucket's state in records of 260 bytes: 256 codes, then the largest magnitude among the 256 as
    f32 (runtime/Format/BlockState.h). Code c stands for map[c] * magnitude, where map is bitsandbytes' dynamic map: `signed` or, for what is
    never negative, `unsigned`. Block k holds the elements from 256 k on.
  }];
  let parameters = (ins "bool":$isSigned);
  let hasCustomAssemblyFormat = 1;
}

def Graph_Float : AnyTypeOf<[F16, BF16, F32, F64]>;
def Graph_Integer : AnyTypeOf<[I1, I16, I32, I64]>;
def Graph_FloatTensor : StaticShapeTensorOf<[Graph_Float]>;
def Graph_IntegerTensor : StaticShapeTensorOf<[Graph_Integer]>;
def Graph_PlacesTensor : StaticShapeTensorOf<[I32]>; // numbers of rows or positions
def Graph_BoolTensor : StaticShapeTensorOf<[I1]>;
def Graph_Tensor : StaticShapeTensorOf<[Graph_Float, Graph_Integer]>;
/// Inside graph.fusion and on flat buckets the size may depend on the world size.
def Graph_AnyTensor : RankedTensorOf<[Graph_Float, Graph_Integer]>;
/// Codes of 8 bits: operands of products (GraphFp8.td).
def Graph_Fp8 : AnyTypeOf<[F8E4M3FN, F8E5M2]>;
/// Bytes are those of a weight in fewer bits.
def Graph_StoredTensor : RankedTensorOf<[Graph_Float, Graph_Integer, I8, Graph_Fp8]>;

/// What moves of elements and groups give may be such codes too.
def Graph_MovedTensor : StaticShapeTensorOf<[Graph_Float, Graph_Integer, Graph_Fp8]>;

/// What an optimizer keeps of a flat tensor.
def Graph_KeptTensor : RankedTensorOf<[Graph_Float, Graph_Integer, Graph_Block8Type]>;
def Graph_KernelTensor : RankedTensorOf<[Graph_Float, Graph_Integer, Graph_Block8Type, Graph_Fp8]>;
def Graph_BlockTensor : RankedTensorOf<[Graph_Block8Type]>;

class Graph_Op<string mnemonic, list<Trait> traits = []> : Op<Graph_Dialect, mnemonic, !listconcat([Pure], traits)>;

def Differentiable : DeclareOpInterfaceMethods<DifferentiableOpInterface, ["buildVjp"]>;
def DifferentiableWithResiduals : DeclareOpInterfaceMethods<DifferentiableOpInterface, ["buildVjp", "withResiduals"]>;
def Decomposable : DeclareOpInterfaceMethods<DecomposableOpInterface>;
def Costed : DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>;
def LibraryCall : DeclareOpInterfaceMethods<LibraryCallOpInterface>;
def Accumulating : DeclareOpInterfaceMethods<LibraryCallOpInterface, ["canAccumulate"]>;
def WithWorkspace : DeclareOpInterfaceMethods<LibraryCallOpInterface, ["getWorkspace"]>;
def AccumulatingWithWorkspace : DeclareOpInterfaceMethods<LibraryCallOpInterface, ["canAccumulate", "getWorkspace"]>;
def Transient : DeclareOpInterfaceMethods<LibraryCallOpInterface, ["getTransientResult"]>;
def Aliasing : DeclareOpInterfaceMethods<StorageAliasOpInterface>;
def WholeAlias : DeclareOpInterfaceMethods<StorageAliasOpInterface, ["isWholeAlias"]>;
def Mixed : DeclareOpInterfaceMethods<PrecisionOpInterface>;
#endif
