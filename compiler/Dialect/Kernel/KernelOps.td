// The kernel dialect: what kernels are before they are mapped to a target, and what functions of kernels say of themselves.
#ifndef ZTC_KERNEL_OPS
#define ZTC_KERNEL_OPS
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::ztc::kernel";
  let summary = "Kernels before they are machine code.";
  let description = [{
    Phase `codegen` keeps kernels in the module `@kernels` of the step. `@forms` holds what the kernels of groups compute, once for all targets
    (`ztc-form-kernels`); `@host` holds functions for processors and `@gpu` functions for GPUs, of upstream dialects (`ztc-map-to-host`,
    `ztc-map-to-gpu`, and `ztc-form-library-kernels` for library calls). `ztc-lower-kernels` takes them to the LLVM dialect,
    `ztc-compile-kernels` makes machine code and removes the module.

    (C1) `kernel.launch` stands on functions alone and is a #kernel.launch.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

def Kernel_Form : I32Enum<"Form", "The loops of a kernel: compiler/Codegen/README.md, Forms.", [
  I32EnumCase<"Row", 0, "row">, I32EnumCase<"Scalar", 1, "scalar">, I32EnumCase<"ColumnReduce", 2, "column_reduce">,
  I32EnumCase<"RowColumnReduce", 3, "row_column_reduce">, I32EnumCase<"Fold", 4, "fold">, I32EnumCase<"Flat", 5, "flat">,
  I32EnumCase<"FlatReduce", 6, "flat_reduce">]> { let cppNamespace = "::ztc::kernel"; }

def Kernel_LaunchAttr : AttrDef<Kernel_Dialect, "Launch"> {
  let mnemonic = "launch";
  let summary = "How a function of `@gpu` is launched: over ceil(extent / units) blocks of a one-dimensional grid.";
  let description = [{
    `threads` of a block, `units` of the parallel range that a block takes, `shared` bytes of static shared memory, and `blocks` for which the
    registers of a multiprocessor must suffice (0: the assembler decides).

    (C1) threads is positive and at most 1024. (C2) units is positive. (C3) shared and blocks are not negative.
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$units, "int64_t":$shared, "int64_t":$blocks);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_ScheduleAttr : AttrDef<Kernel_Dialect, "Schedule"> {
  let mnemonic = "schedule";
  let summary = "One launch of a kernel of a group: its form, its parallel range, its buffers.";
  let description = [{
    `kernel` is the symbol in every image, with `_add` appended for the variant that adds to its results, which exists where `has_add` is 1.
    `buffers` are the kernel's buffers in order, three numbers each: kind (0 operand, 1 result, 2 workspace), index, written (0 or 1).
    `extent` and `scalars` are those of a static range, `grain` is the fewest units that a worker takes at a time. A flat kernel over a bucket gets
    its length when the world size is known: it has no scalars, and its range counts blocks of `flat_block` elements where `extent` is 0.

    (C1) buffers come in threes: a kind up to 2, an index that is not negative, 0 or 1. (C2) an operand is not written, a result is. (C3) grain
    is positive, and so is extent or flat_block. (C4) scalars are none, or two where flat_block is not 0.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$kernel, EnumParameter<Kernel_Form>:$form, "uint64_t":$extent, "uint64_t":$grain,
                        "uint64_t":$flat_block, "uint64_t":$has_add, "::mlir::DenseI64ArrayAttr":$scalars, "::mlir::DenseI64ArrayAttr":$buffers);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}
def Kernel_ScheduleArrayAttr : TypedArrayAttrBase<Kernel_ScheduleAttr, "launches of a kernel">;

def Kernel_ObjectKind : I32Enum<"ObjectKind", "What machine code from outside is.", [
  I32EnumCase<"Host", 0, "host">, I32EnumCase<"Ptx", 1, "ptx">, I32EnumCase<"Cubin", 2, "cubin">, I32EnumCase<"Simt", 3, "simt">]> { let cppNamespace = "::ztc::kernel"; }

def Kernel_ObjectAttr : AttrDef<Kernel_Dialect, "Object"> {
  let mnemonic = "object";
  let summary = "Machine code of a kernel from outside, for processors or for GPUs.";
  let description = [{
    `host`: an ELF object for x86-64, which is linked into the images of all processors: it must run on each of them, and need no library.
    `ptx`: text of PTX, which becomes part of the modules of all GPUs. `cubin`: a linked image for the GPU that `architecture` names (sm_90a),
    which stands in the plan as it is; it comes before `ptx` there. `simt`: an ELF object for x86-64 that the engine of the target simt runs in
    their place (compiler/Codegen/EmitSimt.h says how it is called); without one it runs what is generated of the body. `launches` says for each
    schedule how it is launched on a GPU, its variant that adds alike. All define the symbols of the schedules, and those with `_add` appended
    where has_add is 1, with the parameters that compiler/Codegen/README.md names. `data` is bytes.

    (C1) data is bytes. (C2) an object for processors has no launches. (C3) a cubin has an architecture, sm_ and a number, nothing else has one.
  }];
  let parameters = (ins EnumParameter<Kernel_ObjectKind>:$kind, "::mlir::DenseResourceElementsAttr":$data, "::mlir::ArrayAttr":$launches,
                        OptionalParameter<"::mlir::StringAttr">:$architecture);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}
def Kernel_ObjectArrayAttr : TypedArrayAttrBase<Kernel_ObjectAttr, "machine code from outside">;

def Kernel_FuncOp : Op<Kernel_Dialect, "func", [FunctionOpInterface, IsolatedFromAbove, HasParent<"::mlir::ModuleOp">]> {
  let summary = "What the kernels of a group compute, for all targets.";
  let description = [{
    A function of tensors: operands and results are the buffers of its launches, its body is the group (ops of `graph`), `schedules` are its
    launches in order. Every call of an equal group has the same function. Both mappings read it and nothing else: a rewrite of its body reaches
    processors and GPUs.

        kernel.func @scale(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {schedules = [#kernel.schedule<kernel = @scale, form = row, ...>]} {
          %y = graph.mul %x, %x : tensor<8x64xf32>
          kernel.return %y : tensor<8x64xf32>
        }

    `classes` has a number per result: results of different numbers are written by different launches. Launches share `workspace_bytes`, and
    `workspace_bytes_per_flat_block` for each block of a flat range. What `objects` hold is not written for that kind of target: the body then
    says what the machine code from outside means, and `ztc compile --verify` holds it to that.

    (C1) the body has one block with the function's operands, and kernel.return gives its results. (C2) there is a launch. (C3) buffers name
    operands and results that there are. (C4) every result is written by some launch. (C5) classes has a number per result. (C6) there is one
    object of a kind at most, of cubins one for each architecture, and those for GPUs have a launch per schedule.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, Kernel_ScheduleArrayAttr:$schedules,
                       OptionalAttr<DenseI64ArrayAttr>:$classes, OptionalAttr<I64Attr>:$workspace_bytes,
                       OptionalAttr<I64Attr>:$workspace_bytes_per_flat_block, OptionalAttr<Kernel_ObjectArrayAttr>:$objects,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// What comes from outside as `kind`, a cubin for one `architecture`; null: nothing.
    ObjectAttr getObject(ObjectKind kind, ::llvm::StringRef architecture = "");
  }];
}

def Kernel_ReturnOp : Op<Kernel_Dialect, "return", [Pure, Terminator, ReturnLike, HasParent<"FuncOp">]> {
  let summary = "The results of a kernel.func.";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}
#endif
