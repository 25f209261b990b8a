// Phases run by name, with the options of `ztc compile` that they read, and check what is true afterwards.
// RUN: ztc-opt %inputs/llama2.mlir --ztc-phase="backward precision shard precision-type=bf16 zero=2" | FileCheck %s --check-prefix=SHARD
// RUN: ztc-opt %inputs/llama2.mlir --ztc-phase=backward | ztc-opt --ztc-phase="precision shard recompute fuse schedule assign codegen plan targets=x86-64-v3" | FileCheck %s --check-prefix=PLAN
// RUN: not ztc-opt %inputs/llama2.mlir --ztc-phase=plan 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not ztc-opt %inputs/llama2.mlir --ztc-phase=fusion 2>&1 | FileCheck %s --check-prefix=NAME

// SHARD: dist.zero = 2
// SHARD: func.func @microstep
// PLAN:  plan.image @"image.x86-64-v3"
// PLAN:  plan.program @microstep
// EARLY: error: {{.*}}where only plan ops belong
// NAME:  no such option fusion
