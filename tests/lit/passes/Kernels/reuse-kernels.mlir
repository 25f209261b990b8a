// RUN: rm -rf %t && mkdir %t
// The first time nothing is known: functions keep their bodies, and what is made of them is kept under their content.
// RUN: ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=x86-64-v3,simt" --ztc-map-to-host --ztc-map-to-gpu --ztc-expand-math --ztc-reuse-kernels="targets=x86-64-v3,simt cache=%t" -o %t.first.mlir
// RUN: FileCheck %s --check-prefix=FIRST < %t.first.mlir
// RUN: ztc-opt %t.first.mlir --ztc-lower-kernels --ztc-compile-kernels="targets=x86-64-v3,simt cache=%t" --ztc-verify-codegen -o /dev/null
// Then they are declarations with objects, and the plan is whole all the same.
// RUN: ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=x86-64-v3,simt" --ztc-map-to-host --ztc-map-to-gpu --ztc-expand-math --ztc-reuse-kernels="targets=x86-64-v3,simt cache=%t" -o %t.then.mlir
// RUN: FileCheck %s --check-prefix=THEN < %t.then.mlir
// RUN: ztc-opt %t.then.mlir --ztc-lower-kernels --ztc-compile-kernels="targets=x86-64-v3,simt cache=%t" --ztc-verify-codegen | FileCheck %s --check-prefix=PLAN
// Another target is not known: what has to be made keeps its body.
// RUN: ztc-opt %s --ztc-form-kernels --ztc-form-library-kernels="targets=x86-64-v4,simt" --ztc-map-to-host --ztc-map-to-gpu --ztc-expand-math --ztc-reuse-kernels="targets=x86-64-v4,simt cache=%t" | FileCheck %s --check-prefix=OTHER
// Without a folder the pass does nothing.
// RUN: ztc-opt %s --ztc-form-kernels --ztc-map-to-host --ztc-expand-math --ztc-reuse-kernels="targets=x86-64-v3" | FileCheck %s --check-prefix=NONE

// FIRST-DAG: func.func @exp(%arg0: !llvm.ptr{{.*}} attributes {kernel.content = "{{[0-9a-f]+}}"} {
// FIRST-DAG: func.func @exp({{.*}} attributes {kernel.content = "{{[0-9a-f]+}}", kernel.launch = {{.*}}} {

// THEN-DAG: func.func private @exp({{.*}}) attributes {kernel.content = "{{[0-9a-f]+}}", kernel.objects = {"x86-64-v3" = "{{.*}}
// THEN-DAG: func.func private @exp({{.*}}) attributes {kernel.content = "{{[0-9a-f]+}}", kernel.launch = {{.*}}, kernel.objects = {simt = "{{.*}}

// PLAN: plan.image @"image.x86-64-v3" "x86-64-v3"
// PLAN: plan.kernel @exp "row" [@"image.x86-64-v3", {block_threads = 128 : i64, image = @image.simt,

// OTHER-DAG: func.func @exp(%arg0: !llvm.ptr{{.*}} attributes {kernel.content = "{{[0-9a-f]+}}"} {
// OTHER-DAG: func.func private @exp({{.*}}) attributes {kernel.content = "{{[0-9a-f]+}}", kernel.launch = {{.*}}, kernel.objects = {simt = "{{.*}}

// NONE-NOT: kernel.content
func.func @eval(%x: tensor<8x4xf32>) -> tensor<8x4xf32> attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.fusion "exp"(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%v: tensor<8x4xf32>):
    %e = graph.exp %v : tensor<8x4xf32>
    graph.yield %e : tensor<8x4xf32>
  }
  return %a : tensor<8x4xf32>
}
