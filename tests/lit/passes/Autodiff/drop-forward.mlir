// RUN: ztc-opt %s --ztc-drop-forward | FileCheck %s

// CHECK-NOT:   @forward
// CHECK:       func.func @eval
func.func @forward() {
  return
}
func.func @eval() {
  return
}
