// RUN: ztc-opt %s --ztc-clone-recomputed --ztc-verify-recompute | FileCheck %s
// Without their marks clones survive what merges and folds: the barriers alone keep them.
// RUN: ztc-opt %s --ztc-clone-recomputed | sed -E 's/ \{graph.recomput(ed|ation)\}//' | ztc-opt --cse --canonicalize --cse \
// RUN:   | FileCheck %s --check-prefix=KEPT
// So do all clones of a whole block: CSE would merge them with what the forward part computes, and backward would read that.
// RUN: ztc-opt %inputs/llama2.mlir --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate --ztc-build-update \
// RUN:   --canonicalize --cse --ztc-form-buckets --ztc-mark-recomputed=level=layer --ztc-clone-recomputed | sed -E 's/, graph.recomput(ed|ation)//; s/graph.recomput(ed|ation)(, )?//; s/ \{\}//' \
// RUN:   | ztc-opt --cse --canonicalize --cse | FileCheck %s --check-prefix=BLOCK
// With ZeRO-3 the clones read the second gather, which moves up for them.
// RUN: ztc-opt %inputs/llama2.mlir --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate --ztc-build-update \
// RUN:   --canonicalize --cse --ztc-choose-stage=zero=3 --ztc-form-buckets --ztc-partition-states --ztc-insert-collectives --ztc-mark-recomputed=level=layer \
// RUN:   --ztc-clone-recomputed --cse --ztc-verify-shard --ztc-verify-recompute | FileCheck %s --check-prefix=ZERO3
// Frozen parameters are a bucket of their own, with a second gather that moves up as well.
// RUN: ztc-opt %inputs/llama2.mlir --ztc-freeze-parameters="pattern=layernorm|embed" --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward \
// RUN:   --ztc-differentiate --ztc-build-update --canonicalize --cse --ztc-choose-stage=zero=3 --ztc-form-buckets --ztc-partition-states --ztc-insert-collectives \
// RUN:   --ztc-mark-recomputed=level=layer --ztc-clone-recomputed --ztc-verify-shard --ztc-verify-recompute | FileCheck %s --check-prefix=FROZEN

// CHECK-LABEL: func.func @microstep
// CHECK:         %[[N:.*]] = graph.rms_norm %[[X:.*]], %[[W:.*]], 1.000000e-05 {graph.recomputed}
// CHECK:         %[[LOSS:.*]], %[[DH:.*]], %{{.*}} = graph.linear_cross_entropy
// One clone, right before its first reader, after the gradient that this one reads; parameters need no barrier, aliases are cloned too.
// CHECK-NEXT:    %[[B:.*]] = graph.recompute_barrier %[[X]] after %[[DH]]
// CHECK-NEXT:    %[[C:.*]] = graph.rms_norm %[[B]], %[[W]], 1.000000e-05 {graph.recomputation}
// CHECK-NEXT:    %[[R:.*]] = graph.reshape %[[C]]
// CHECK-NEXT:    %[[D1:.*]] = graph.matmul %[[DH]], %[[R]]
// CHECK-NEXT:    %[[D2:.*]] = graph.matmul %[[D1]], %[[C]]
// CHECK-NEXT:    return
// KEPT-LABEL:  func.func @microstep
// KEPT:          graph.rms_norm
// KEPT:          graph.linear_cross_entropy
// KEPT-NEXT:     graph.recompute_barrier
// KEPT-NEXT:     graph.rms_norm
func.func @microstep(%t: tensor<4xi32>, %s: tensor<f32>, %w: tensor<4xf32>, %e: tensor<4x4xf32>) -> (tensor<f32>, tensor<4x4xf32>) attributes {graph.entry = #graph.entry<microstep>} {
  %x = graph.embedding %e, %t : tensor<4x4xf32>, tensor<4xi32> -> tensor<4x4xf32>
  %n = graph.rms_norm %x, %w, 1.0e-5 {graph.recomputed} : tensor<4x4xf32>, tensor<4xf32>
  %r = graph.reshape %n : tensor<4x4xf32> -> tensor<1x4x4xf32>
  %r2 = graph.reshape %r : tensor<1x4x4xf32> -> tensor<4x4xf32>
  %h = graph.matmul %r2, %e : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %loss, %dh, %de = graph.linear_cross_entropy %h, %e, %t scale %s : tensor<f32> : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xi32> -> tensor<f32>, tensor<4x4xf32> and tensor<4x4xf32>
  %n2 = graph.reshape %n : tensor<4x4xf32> -> tensor<4x4xf32>
  %d1 = graph.matmul %dh, %n2 {transpose_a} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %d2 = graph.matmul %d1, %n {transpose_a} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %loss, %d2 : tensor<f32>, tensor<4x4xf32>
}

// ZERO3-LABEL: func.func @microstep
// ZERO3-SAME:    %[[SHARD:[a-z0-9]+]]: tensor<?xf32, #dist.shard<@block0>> {graph.bucket = @block0, graph.role = #graph.role<parameter_bucket>}
// ZERO3:         dist.all_gather %[[SHARD]]
// ZERO3:         %[[LOSS:.*]], %{{.*}}, %{{.*}} = graph.linear_cross_entropy
// ZERO3:         graph.recompute_barrier
// ZERO3:         graph.recompute_barrier %[[IN:[0-9]+]] after %[[DY:[0-9]+]] : tensor<16x16xf32>, tensor<16x16xf32>
// ZERO3-NEXT:    %[[FULL:.*]] = dist.all_gather %[[SHARD]]
// ZERO3-NEXT:    %[[LN:.*]] = dist.view %[[FULL]]
// ZERO3-NEXT:    graph.rms_norm %{{.*}}, %[[LN]], 1.000000e-05 {graph.recomputation}
// ZERO3-NEXT:    %[[WQ:.*]] = dist.view %[[FULL]]
// ZERO3-NEXT:    graph.matmul %{{.*}}, %[[WQ]] {graph.recomputation, transpose_b}
// ZERO3:         %[[S:.*]] = graph.swiglu {{.*}} {graph.recomputation}
// ZERO3-NEXT:    graph.matmul %[[DY]], %[[S]] {transpose_a}
// ZERO3-NOT:     dist.all_gather
// ZERO3:         return

// FROZEN-LABEL: func.func @microstep
// FROZEN:        graph.linear_cross_entropy
// FROZEN:        dist.all_gather %{{.*}} -> tensor<?xf32, #dist.full<@block0_frozen>>
// FROZEN:        graph.rms_norm {{.*}} {graph.recomputation}

// BLOCK-LABEL: func.func @microstep
// BLOCK:         graph.linear_cross_entropy
// The last block: both norms and the activation.
// BLOCK:         graph.swiglu %
// BLOCK:         graph.rms_norm %
// BLOCK:         graph.attention_grad
// BLOCK:         graph.rms_norm %
// The first one: all but the down product and the sum after it.
// BLOCK:         graph.rms_norm %
// BLOCK:         graph.rope %
// BLOCK:         graph.rope %
// BLOCK:         graph.attention %
// BLOCK:         graph.add %
// BLOCK:         graph.rms_norm %
// BLOCK:         graph.swiglu %
// BLOCK:         graph.attention_grad
// BLOCK:         return
