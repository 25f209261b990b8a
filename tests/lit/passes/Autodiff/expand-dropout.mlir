// RUN: ztc-opt %s --ztc-expand-dropout | FileCheck %s

// A mask of its own for each module, drawn again for the cotangent; elsewhere nothing is dropped.
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:    %[[STEP:.*]]: tensor<16xf32> {graph.role = #graph.role<step>}, %[[FIRST:.*]]: tensor<1xi64> {graph.role = #graph.role<first_token>}
// CHECK-SAME:    %[[X:.*]]: tensor<4x8xf32>
// CHECK:       %[[ROW:.*]] = graph.iota 0 : tensor<4x8xi64>
// CHECK:       %[[COLUMN:.*]] = graph.iota 1 : tensor<4x8xi64>
// CHECK:       %[[BEFORE:.*]] = graph.broadcast %[[FIRST]] : tensor<1xi64> -> tensor<4x8xi64>
// CHECK-DAG:   graph.slice %[[STEP]], [13] : tensor<16xf32> -> tensor<1xf32>
// CHECK-DAG:   graph.slice %[[STEP]], [14] : tensor<16xf32> -> tensor<1xf32>
// CHECK:       %[[BITS:.*]] = graph.random_bits %[[ROW]], %[[COLUMN]], %[[BEFORE]], %{{.*}}, %{{.*}} columns 8 stream [[A:[0-9]+]] : {{.*}} -> tensor<4x8xi32>
// CHECK:       %[[LEAST:.*]] = graph.constant dense<536870912> : tensor<4x8xi32>
// CHECK:       %[[KEPT:.*]] = graph.compare {{"?ge"?}}, %[[BITS]], %[[LEAST]]
// CHECK:       graph.select %[[KEPT]]
// CHECK:       graph.random_bits {{.*}} stream [[B:[0-9]+]] :
// CHECK:       graph.random_bits {{.*}} stream [[A]] {graph.drawn_again} :
// CHECK-LABEL: func.func @eval(
// CHECK-NEXT:    return %{{.*}} : tensor<4x8xf32>
func.func @microstep(%s: tensor<16xf32> {graph.role = #graph.role<step>}, %x: tensor<4x8xf32> {graph.role = #graph.role<tokens>}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %a = graph.dropout %x {module = "a", probability = 0.25} : tensor<4x8xf32>
  %b = graph.dropout %x {module = "b", probability = 0.25} : tensor<4x8xf32>
  %g = graph.dropout %b {module = "a", probability = 0.25} : tensor<4x8xf32>
  return %a, %b, %g : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
func.func @eval(%x: tensor<4x8xf32> {graph.role = #graph.role<tokens>}) -> tensor<4x8xf32> attributes {graph.entry = #graph.entry<eval>} {
  %a = graph.dropout %x {module = "a", probability = 0.25} : tensor<4x8xf32>
  return %a : tensor<4x8xf32>
}
