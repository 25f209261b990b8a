// Which kernels run a group, and their machine code.
#ifndef ZTC_PASSES_KERNELS
#define ZTC_PASSES_KERNELS
include "mlir/Pass/PassBase.td"

def PlanKernels : Pass<"ztc-plan-kernels", "mlir::ModuleOp"> {
  let summary = "Every group knows its kernels and their workspace, every library call its service kernels.";
  let description = [{
    Afterwards a graph.fusion has `plan.launches`, one #kernel.schedule per kernel, and `plan.workspace_bytes` where they share workspace;
    attention and linear_cross_entropy have `plan.service_kernels`. No body is written: memory reports need no more than this.
    It runs before AssignSlots, which plans the workspace. Equal groups share kernels.
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
}

def KernelTargets : ListOption<"targets", "targets", "std::string", "host (both x86-64 levels), x86-64-v3, x86-64-v4, sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a, sm_120a, sm_121a, simt; empty: host">;

def FormKernels : Pass<"ztc-form-kernels", "mlir::ModuleOp"> {
  let summary = "Makes one function of tensors of all equal groups: what a kernel computes, for all targets.";
  let description = [{
    Before:

        %a = graph.fusion "scale"(%x) : (tensor<8x64xf32>) -> tensor<8x64xf32> {
        ^bb0(%v: tensor<8x64xf32>):
          %e = graph.mul %v, %v : tensor<8x64xf32>
          graph.yield %e : tensor<8x64xf32>
        }

    Afterwards the group stays at its call, where interpreter, costs and reports read it, and the step holds `@kernels` with the module `@forms`:

        kernel.func @scale(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {schedules = [#kernel.schedule<kernel = @scale, form = row, ...>]} {
          %e = graph.mul %x, %x : tensor<8x64xf32>
          kernel.return %e : tensor<8x64xf32>
        }

    From here on kernels are made of this function alone: what changes its body changes them on processors and on GPUs. There is a
    `plan.kernel` without images for each launch. The pass plans again, in the order of PlanKernels: names are a function of the module.
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
}

def FormLibraryKernels : Pass<"ztc-form-library-kernels", "mlir::ModuleOp"> {
  let summary = "Writes the kernels of library calls: rows of attention and of the loss for processors, whole calls for GPUs.";
  let description = [{
    Afterwards `@kernels` holds a module `@host` of functions (buffers, scalars, begin, end) where a target is a processor, and a module `@gpu`
    where one is a GPU, whose functions say their #kernel.launch: algorithms that are written for the one or the other, without a form for both.
    Library calls name them (`plan.service_kernels`, with `gpu_kernels` for GPUs), and there is a `plan.kernel` without images for each.
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
  let options = [KernelTargets];
}

def MapToHost : Pass<"ztc-map-to-host", "mlir::ModuleOp"> {
  let summary = "Writes the functions of `@forms` for the lanes of processors.";
  let description = [{
    Afterwards `@host` has a function (buffers, scalars, begin, end) for each launch of each kernel.func, and one for each variant that adds to
    its results: loops over rows and chunks of 16 columns. A body that takes other kernels than its schedules say is refused: phase `assign` has
    placed its buffers. `@forms` stays as it is.
  }];
}

def MapToGpu : Pass<"ztc-map-to-gpu", "mlir::ModuleOp"> {
  let summary = "Writes the functions of `@forms` for the threads of GPUs.";
  let description = [{
    Afterwards `@gpu` has a function for each launch of each kernel.func, and one for each variant that adds to its results, with a pointer per
    buffer, the scalars and the extent as parameters; each says its #kernel.launch. What is refused is what ztc-map-to-host refuses. `@forms`
    stays as it is.
  }];
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

def ReuseKernels : Pass<"ztc-reuse-kernels", "mlir::ModuleOp"> {
  let summary = "Takes machine code of earlier compilations for functions of `@kernels`.";
  let description = [{
    A function that was compiled before for all targets loses its body and is private; `kernel.objects` has its objects. What a GPU's image holds is kept as a
    whole, in `kernel.images` of `@gpu`: its functions lose their bodies where all that is wanted of all of them is known. Every function that is looked for gets
    `kernel.content`, under which ztc-compile-kernels keeps what it makes. Kernels from outside change nothing here: then nothing is taken.
  }];
  let options = [KernelTargets, Option<"cache", "cache", "std::string", "", "folder of machine code that earlier compilations made; empty: none">];
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
  let options = [KernelTargets, Option<"cache", "cache", "std::string", "", "folder of machine code that earlier compilations made; empty: none">];
}
#endif
