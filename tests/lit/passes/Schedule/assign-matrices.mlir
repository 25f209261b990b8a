// RUN: ztc-opt %s --ztc-assign-matrices --split-input-file --verify-diagnostics | FileCheck %s

dist.bucket @b {decayed = 32 : i64, elements = 32 : i64, trainable,
  parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4, 4>}, {name = "c", offset = 16 : i64, shape = array<i64: 4, 4>}]}
dist.mesh @mesh ["data"]

// What is made of a matrix belongs to its owner, up to the pack of all.
// CHECK-LABEL: func.func @update
// CHECK:         dist.view
// CHECK-NOT:     owned_parameter
// CHECK:         dist.own_matrix {{.*}} of "a" in @b
// CHECK-NEXT:    graph.matmul {{.*}} {dist.owned_parameter = "a"}
// CHECK-NEXT:    graph.neg {{.*}} {dist.owned_parameter = "a"}
// CHECK:         graph.neg {{.*}} {dist.owned_parameter = "c"}
// CHECK-NEXT:    dist.pack
// CHECK-NOT:     owned_parameter
// CHECK:         return
func.func @update(%u: tensor<?xbf16, #dist.full<@b>>) -> tensor<?xbf16, #dist.shard<@b>> {
  %0 = dist.view %u[0] : tensor<?xbf16, #dist.full<@b>> -> tensor<4x4xbf16>
  %1 = dist.own_matrix %0 of "a" in @b : tensor<4x4xbf16>
  %2 = graph.matmul %1, %1 : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xbf16>
  %3 = graph.neg %2 : tensor<4x4xbf16>
  %4 = dist.view %u[16] : tensor<?xbf16, #dist.full<@b>> -> tensor<4x4xbf16>
  %5 = dist.own_matrix %4 of "c" in @b : tensor<4x4xbf16>
  %6 = graph.neg %5 : tensor<4x4xbf16>
  %7 = dist.pack %3, %6 at [0, 16] : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<?xbf16, #dist.full<@b>>
  %8 = dist.reduce_scatter %7 axis "data" : tensor<?xbf16, #dist.full<@b>> -> tensor<?xbf16, #dist.shard<@b>>
  return %8 : tensor<?xbf16, #dist.shard<@b>>
}

// -----

dist.bucket @b {decayed = 32 : i64, elements = 32 : i64, trainable,
  parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4, 4>}, {name = "c", offset = 16 : i64, shape = array<i64: 4, 4>}]}

func.func @mixed(%x: tensor<4x4xbf16>, %y: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  %0 = dist.own_matrix %x of "a" in @b : tensor<4x4xbf16>
  %1 = dist.own_matrix %y of "c" in @b : tensor<4x4xbf16>
  // expected-error @+1 {{is made of the matrices of "a" and "c", which may be of two ranks}}
  %2 = graph.add %0, %1 : tensor<4x4xbf16>
  %3 = dist.pack %2 at [0] : tensor<4x4xbf16> -> tensor<32xbf16>
  %4 = dist.view %3[0] : tensor<32xbf16> -> tensor<4x4xbf16>
  return %4 : tensor<4x4xbf16>
}

// -----

dist.bucket @b {decayed = 16 : i64, elements = 16 : i64, trainable, parameters = [{name = "a", offset = 0 : i64, shape = array<i64: 4, 4>}]}

func.func @leaves(%x: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  // expected-error @+1 {{leaves the function without a dist.pack}}
  %0 = dist.own_matrix %x of "a" in @b : tensor<4x4xbf16>
  return %0 : tensor<4x4xbf16>
}
