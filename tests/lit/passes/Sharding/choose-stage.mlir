// RUN: ztc-opt %s --ztc-choose-stage=zero=2 | FileCheck %s
// RUN: ztc-opt %s --ztc-choose-stage | FileCheck %s --check-prefix=DEFAULT

// The stage is an attribute of the module, the ranks are a mesh with one axis; no number of ranks stands anywhere.
// CHECK:      module attributes {dist.zero = 2 : i64} {
// CHECK-NEXT:   dist.mesh @mesh ["data"]
// DEFAULT:    module attributes {dist.zero = 0 : i64} {
module {
  func.func @eval() attributes {graph.entry = #graph.entry<eval>} {
    return
  }
}
