// RUN: split-file %s %t
// RUN: ztc-opt %t/step.mlir --ztc-apply-patterns=file=%t/root.pdll | FileCheck %t/step.mlir
// RUN: ztc-opt %t/step.mlir --ztc-apply-patterns=file=%t/root.pdl.mlir | FileCheck %t/step.mlir
// RUN: ztc-opt %t/halves.mlir --ztc-apply-patterns=file=%t/halves.pdll | FileCheck %t/halves.mlir

//--- root.pdll
#include "compiler/Dialect/Graph/GraphOps.td"

Pattern ReciprocalRoot => replace op<graph.reciprocal>(op<graph.sqrt>(x: Value)) with op<graph.rsqrt>(x);

//--- root.pdl.mlir
pdl.pattern @reciprocal_root : benefit(1) {
  %x = pdl.operand
  %type = pdl.type
  %root = pdl.operation "graph.sqrt"(%x : !pdl.value) -> (%type : !pdl.type)
  %value = pdl.result 0 of %root
  %inverse = pdl.operation "graph.reciprocal"(%value : !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %inverse {
    %new = pdl.operation "graph.rsqrt"(%x : !pdl.value) -> (%type : !pdl.type)
    pdl.replace %inverse with %new
  }
}

//--- step.mlir
// What nobody reads goes; what somebody reads stays; nothing else is folded.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>
// CHECK-NEXT: %[[FIRST:.*]] = graph.rsqrt %[[X]]
// CHECK-NEXT: %[[ROOT:.*]] = graph.sqrt %[[FIRST]]
// CHECK-NEXT: %[[SECOND:.*]] = graph.rsqrt %[[FIRST]]
// CHECK-NEXT: graph.add %[[ROOT]], %[[SECOND]]
func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = graph.sqrt %x : tensor<8xf32>
  %1 = graph.reciprocal %0 : tensor<8xf32>
  %2 = graph.sqrt %1 : tensor<8xf32>
  %3 = graph.reciprocal %2 : tensor<8xf32>
  %4 = graph.add %2, %3 : tensor<8xf32>
  return %4 : tensor<8xf32>
}

//--- halves.pdll
#include "passes/Patterns/Native.pdll"

// x / 2 of which x is read nowhere else.
Pattern {
  let two: Value;
  let quotient = op<graph.div>(x: Value, two) -> (type: Type);
  IsSplat(two, attr<"2.0 : f64">);
  HasOneUse(x);
  rewrite quotient with {
    let half = SplatLike(two, attr<"0.5 : f64">);
    replace quotient with op<graph.mul>(x, half) -> (type);
  };
}

//--- halves.mlir
// CHECK-LABEL: func.func @forward
// CHECK: %[[ONCE:.*]] = graph.exp
// CHECK: %[[HALF:.*]] = graph.constant dense<5.000000e-01>
// CHECK: graph.mul %[[ONCE]], %[[HALF]]
// CHECK-NOT: graph.mul
func.func @forward(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %two = graph.constant dense<2.0> : tensor<8xf32>
  %three = graph.constant dense<3.0> : tensor<8xf32>
  %0 = graph.exp %x : tensor<8xf32>
  %1 = graph.div %0, %two : tensor<8xf32>
  %2 = graph.exp %1 : tensor<8xf32>
  %3 = graph.div %2, %three : tensor<8xf32>
  %4 = graph.div %x, %two : tensor<8xf32>
  return %3, %4, %x : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
