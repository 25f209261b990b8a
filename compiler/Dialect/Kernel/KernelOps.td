// The kernel dialect: what functions of kernels say of themselves.
#ifndef ZTC_KERNEL_OPS
#define ZTC_KERNEL_OPS
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::ztc::kernel";
  let summary = "Kernels before they are machine code.";
  let description = [{
    Phase `codegen` writes the bodies of kernels into the module `@kernels` of the step: `@host` holds those for processors, `@gpu` those for
    GPUs, functions of upstream dialects. `ztc-map-kernels` writes them, `ztc-lower-kernels` takes them to the LLVM dialect,
    `ztc-compile-kernels` makes machine code and removes the module.

    (C1) `kernel.launch` stands on functions alone and is a #kernel.launch.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

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
#endif
