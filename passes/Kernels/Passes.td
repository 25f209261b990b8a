// Which kernels run a group, and their machine code.
#ifndef ZTC_PASSES_KERNELS
#define ZTC_PASSES_KERNELS
include "mlir/Pass/PassBase.td"

def PlanKernels : Pass<"ztc-plan-kernels", "mlir::ModuleOp"> {
  let summary = "Every group knows its kernels and their workspace, every library call its service kernels.";
  let description = [{
    Afterwards a graph.fusion has `plan.launches`, one #plan.launch_spec per kernel, and `plan.workspace_bytes` where they share workspace;
    attention and linear_cross_entropy have `plan.service_kernels`. No body is written: memory reports need no more than this.
    It runs before AssignSlots, which plans the workspace. Equal groups share kernels.
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
}

def KernelTargets : ListOption<"targets", "targets", "std::string", "host (both x86-64 levels), x86-64-v3, x86-64-v4, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_120a, sm_121a, simt; empty: host">;

def MapKernels : Pass<"ztc-map-kernels", "mlir::ModuleOp"> {
  let summary = "Writes the bodies of all kernels: lanes of a processor, threads of a GPU.";
  let description = [{
    Afterwards the step holds the module `@kernels`, with a module `@host` of functions (buffers, scalars, begin, end) where a target is a
    processor, and a module `@gpu` where one is a GPU, whose functions say their #kernel.launch. There is a `plan.kernel` without images for
    each kernel that PlanKernels chose. The pass chooses again, in the same order: names are a function of the module and the kinds of
    targets. Library calls get `gpu_kernels` where one of the targets is a GPU, service kernels of the host where one is a processor.
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
  let options = [KernelTargets];
}

def ExpandMath : Pass<"ztc-expand-math", "mlir::ModuleOp"> {
  let summary = "Makes arithmetic of the elementary functions in `@kernels`: the same bits on every target, no libm.";
  let description = [{
    Before, of a function in `@kernels`:

        %y = math.exp %x : vector<16xf32>

    Afterwards a polynomial in its place, of `arith`, `math.fma` and bits of the exponent. What IEEE 754 rounds correctly stays: math.sqrt,
    math.fma, rounding to whole numbers. Functions of other types than f32 are refused, but for math.rsqrt and for a power by a constant of 64 bits
    that is rounded to f32. Nothing that folds may run before: upstream folds math.exp of a constant with the libm of the machine that compiles.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def LowerKernels : Pass<"ztc-lower-kernels", "mlir::ModuleOp"> {
  let summary = "Takes the functions of `@kernels` to the LLVM dialect.";
  let description = [{
    Upstream conversions, in this order: scf, vector, math, arith, cf, func. Afterwards a #kernel.launch is said by attributes of NVVM too.
    Elementary functions are refused: ztc-expand-math makes arithmetic of them first.
    A module without `@kernels` stays as it is.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect"];
}

def CompileKernels : Pass<"ztc-compile-kernels", "mlir::ModuleOp"> {
  let summary = "Compiles the lowered kernels, once per target.";
  let description = [{
    Afterwards the module holds a `plan.image` per target, every `plan.kernel` names the images that hold it, and `@kernels` is gone.
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
  let options = [KernelTargets];
}
#endif
