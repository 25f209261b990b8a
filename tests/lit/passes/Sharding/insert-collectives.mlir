// RUN: ztc-opt %inputs/llama2.mlir --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate --ztc-build-update \
// RUN:   --canonicalize --cse --ztc-choose-stage=zero=3 --ztc-form-buckets --ztc-partition-states --ztc-insert-collectives --cse --ztc-verify-shard \
// RUN:   --remarks-filter=ztc-insert-collectives -o %t.mlir 2> %t.remarks
// RUN: FileCheck %s < %t.mlir
// RUN: FileCheck %s --check-prefix=UNTIED < %t.remarks
// RUN: ztc-opt %inputs/llama2-tied.mlir --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate --ztc-build-update \
// RUN:   --canonicalize --cse --ztc-choose-stage=zero=3 --ztc-form-buckets --ztc-partition-states --ztc-insert-collectives --cse --ztc-verify-shard \
// RUN:   --remarks-filter=ztc-insert-collectives -o /dev/null 2>&1 | FileCheck %s --check-prefix=TIED
// RUN: ztc-opt %inputs/llama2.mlir --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate --ztc-build-update \
// RUN:   --canonicalize --cse --ztc-choose-stage=zero=1 --ztc-form-buckets --ztc-partition-states --ztc-insert-collectives --cse --ztc-verify-shard \
// RUN:   | FileCheck %s --check-prefix=ZERO1
// RUN: ztc-opt %inputs/llama2.mlir --ztc-freeze-parameters="pattern=layernorm|embed" --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward \
// RUN:   --ztc-differentiate --ztc-build-update --canonicalize --cse --ztc-choose-stage=zero=3 --ztc-form-buckets --ztc-partition-states \
// RUN:   --ztc-insert-collectives --ztc-verify-shard --remarks-filter=ztc-insert-collectives 2>&1 | FileCheck %s --check-prefix=FROZEN

// A block is gathered for forward and again for backward; the last one stays, as do the norm after it, the head (the loss op reads it
// once) and the embedding (its gradient does not read it). Evaluation and generation gather too.
// UNTIED-DAG: bucket embedding is gathered 1 time in @microstep
// UNTIED-DAG: bucket block0 is gathered 2 times in @microstep
// UNTIED-DAG: bucket block1 is gathered 1 time in @microstep
// UNTIED-DAG: bucket rest is gathered 1 time in @microstep
// UNTIED-DAG: bucket head is gathered 1 time in @microstep
// UNTIED-DAG: bucket block0 is gathered 1 time in @eval
// UNTIED-DAG: bucket block0 is gathered 1 time in @generate
// A tied embedding is read at both ends of the forward part.
// TIED-DAG:   bucket embedding is gathered 2 times in @microstep
// TIED-DAG:   bucket block0 is gathered 2 times in @microstep
// TIED-DAG:   bucket block1 is gathered 1 time in @microstep
// TIED-DAG:   bucket embedding is gathered 2 times in @eval

// Frozen norms lie in buckets of their own, read by turns with the matrices of their block: one run all the same. They are gathered and not
// reduced.
// FROZEN-DAG: bucket block0 is gathered 2 times in @microstep
// FROZEN-DAG: bucket block0_frozen is gathered 2 times in @microstep
// FROZEN-DAG: bucket embedding_frozen is gathered 1 time in @microstep
// FROZEN-NOT: reduce_scatter {{.*}}_frozen

// A gather stands right before the first use of its bucket ...
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:    %[[P0:[^:]*]]: tensor<?xf32, #dist.shard<@block0>> {graph.bucket = @block0, graph.role = #graph.role<parameter_bucket>}
// CHECK-SAME:    %[[P1:[^:]*]]: tensor<?xf32, #dist.shard<@block1>> {graph.bucket = @block1, graph.role = #graph.role<parameter_bucket>}
// CHECK-SAME:    %[[PH:[^:]*]]: tensor<?xf32, #dist.shard<@head>> {graph.bucket = @head, graph.role = #graph.role<parameter_bucket>}
// CHECK-SAME:    %[[G1:[^:]*]]: tensor<?xf32, #dist.shard<@block1>> {graph.bucket = @block1, graph.role = #graph.role<gradient_bucket>}
// CHECK-SAME:    %[[GH:[^:]*]]: tensor<?xf32, #dist.shard<@head>> {graph.bucket = @head, graph.role = #graph.role<gradient_bucket>}
// CHECK:         graph.embedding
// CHECK:         dist.all_gather %[[P0]] axis "data"
// CHECK:         graph.rms_norm
// CHECK:         %[[B1:.*]] = dist.all_gather %[[P1]] axis "data"
// CHECK:         %[[DOWN1:.*]] = dist.view %[[B1]][1536]
// CHECK:         %[[H:.*]] = dist.all_gather %[[PH]] axis "data"
// CHECK-NEXT:    %[[W:.*]] = dist.view %[[H]][0]
// ... and a reduction right after the last part of a gradient: nothing of it is kept but the sum's own shard.
// CHECK-NEXT:    %loss, %{{.*}}, %[[DW:.*]] = graph.linear_cross_entropy {{.*}}, %[[W]],
// CHECK-NEXT:    %[[FULL:.*]] = dist.pack %[[DW]] at [0] : tensor<32x16xf32> -> tensor<?xf32, #dist.full<@head>>
// CHECK-NEXT:    %[[SUM:.*]] = dist.reduce_scatter %[[FULL]] axis "data" : tensor<?xf32, #dist.full<@head>> -> tensor<?xf32, #dist.shard<@head>>
// CHECK-NEXT:    graph.accumulate %[[GH]], %[[SUM]] {first_writes} : tensor<?xf32, #dist.shard<@head>>
// CHECK-NOT:     all_gather
// CHECK:         graph.matmul %{{.*}}, %[[DOWN1]] :
// CHECK:         %[[SUM1:.*]] = dist.reduce_scatter {{.*}} -> tensor<?xf32, #dist.shard<@block1>>
// CHECK-NEXT:    graph.accumulate %[[G1]], %[[SUM1]] {first_writes}
// What backward reads of the first block is the second gather.
// CHECK:         %[[B0:.*]] = dist.all_gather %[[P0]] axis "data"
// CHECK-NEXT:    %[[DOWN0:.*]] = dist.view %[[B0]][1536]
// CHECK:         graph.matmul %{{.*}}, %[[DOWN0]] :
// CHECK-NOT:     all_gather
// CHECK:         return

// The norm is that of all ranks: one sum over ranks for the sum over all buckets.
// CHECK-LABEL: func.func @update(
// CHECK-COUNT-5: graph.sum_squares %{{.*}} : tensor<?xf32, #dist.shard<
// CHECK:         %[[LOCAL:.*]] = graph.add
// CHECK-NEXT:    %[[GLOBAL:.*]] = dist.all_reduce %[[LOCAL]] axis "data" : tensor<f32>
// CHECK-NEXT:    graph.sqrt %[[GLOBAL]]
// CHECK-NOT:     all_gather

// Up to stage 2 parameters lie whole; up to stage 1 gradients add up over the micro-steps and are reduced in the last one.
// ZERO1-LABEL: func.func @microstep(
// ZERO1-NOT:     all_gather
// ZERO1:         %[[PART:.*]] = graph.accumulate %{{.*}}, %{{.*}} {first_writes} : tensor<32x16xf32>
// ZERO1-NEXT:    %[[FULL:.*]] = dist.pack %[[PART]] at [0]
// ZERO1-NEXT:    dist.reduce_scatter %[[FULL]] axis "data" {only_last}
// ZERO1-LABEL: func.func @update(
// ZERO1:         dist.all_reduce
// ZERO1-COUNT-5: dist.all_gather
