// Which kernels run a group, and their machine code.
#ifndef ZTC_PASSES_KERNELS
#define ZTC_PASSES_KERNELS
include "mlir/Pass/PassBase.td"

def SelectKernels : Pass<"ztc-select-kernels", "mlir::ModuleOp"> {
  let summary = "Every group knows its kernels and their workspace, every library call its service kernels.";
  let description = [{
    Afterwards a graph.fusion has `plan.launches`, one #plan.launch_spec per kernel, and `plan.workspace_bytes` where they share workspace;
    attention and linear_cross_entropy have `plan.service_kernels`. Nothing is compiled: memory reports need no more than this.
    It runs before AssignSlots, which plans the workspace. Equal groups share kernels.
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
}

def EmitKernels : Pass<"ztc-emit-kernels", "mlir::ModuleOp"> {
  let summary = "Compiles all kernels, once per target.";
  let description = [{
    Afterwards the module holds a `plan.image` per target and a `plan.kernel` for each kernel that SelectKernels chose. It chooses again, in
    the same order: names are a function of the module and the kinds of targets. Library calls get `gpu_kernels` where one of the targets is a
    GPU, service kernels of the host where one is a host.
  }];
  let dependentDialects = ["::ztc::plan_ir::PlanDialect"];
  let options = [ListOption<"targets", "targets", "std::string", "host (both x86-64 levels), x86-64-v3, x86-64-v4, sm_80, sm_90a, sm_100a, simt; empty: host">];
}
#endif
