// RUN: ztc-opt %s --ztc-drop-forward | FileCheck %s

// CHECK-NOT:   @forward
// CHECK:       func.func @eval
func.func @forward() attributes {graph.entry = #graph.entry<forward>} {
  return
}
func.func @eval() attributes {graph.entry = #graph.entry<eval>} {
  return
}
