// RUN: ztc-opt %inputs/llama2.mlir --ztc-mark-decay --ztc-mark-matrices --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate \
// RUN:   --ztc-build-update=optimizer=muon --canonicalize --cse --ztc-choose-stage=zero=2 --ztc-form-buckets --ztc-partition-states --ztc-insert-collectives \
// RUN:   --ztc-verify-shard | FileCheck %s
// RUN: ztc-opt %inputs/llama2.mlir --ztc-mark-decay --ztc-mark-matrices --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate \
// RUN:   --ztc-build-update=optimizer=muon --canonicalize --cse --ztc-choose-stage=zero=0 --ztc-form-buckets --ztc-partition-states --ztc-insert-collectives \
// RUN:   --ztc-verify-shard | FileCheck %s --check-prefix=ZERO0

// The matrices of a block are a bucket of their own, with a momentum where the rest has AdamW's states.
// CHECK-DAG: dist.bucket @block0 {
// CHECK-DAG: dist.bucket @block0_muon {
// CHECK-LABEL: func.func @update(
// CHECK-SAME:    graph.bucket = @block0, graph.role = #graph.role<state_bucket>, graph.state = "exp_avg"
// CHECK-SAME:    graph.bucket = @block0_muon, graph.role = #graph.role<state_bucket>, graph.state = "momentum_buffer"
// Directions are made of shards, gathered, made orthogonal each by its owner, and reduced to shards again.
// CHECK:         %[[SHARD:.*]], %{{.*}} = graph.momentum_direction {{.*}} -> (tensor<?xbf16, #dist.shard<@block0_muon>>, tensor<?xf32, #dist.shard<@block0_muon>>)
// CHECK-NEXT:    %[[WHOLE:.*]] = dist.all_gather %[[SHARD]]
// CHECK:         %[[X:.*]] = dist.view %[[WHOLE]]
// CHECK-NEXT:    %[[OWN:.*]] = dist.own_matrix %[[X]] of "model.layers.0.self_attn.q_proj.weight" in @block0_muon
// CHECK-NEXT:    graph.orthogonalize %[[OWN]]
// CHECK:         %[[PACK:.*]] = dist.pack
// CHECK-NEXT:    %[[SUM:.*]] = dist.reduce_scatter %[[PACK]] axis "data" : tensor<?xbf16, #dist.full<@block0_muon>> -> tensor<?xbf16, #dist.shard<@block0_muon>>
// CHECK:         graph.optimizer_step "muon" %{{.*}}, %[[SUM]] keeps()

// ZERO0-LABEL: func.func @update(
// ZERO0:         dist.all_gather {{.*}} : tensor<?xf32, #dist.shard<@block0_muon>>
// ZERO0:         graph.momentum_direction {{.*}} -> (tensor<?xbf16, #dist.full<@block0_muon>>, tensor<?xf32, #dist.full<@block0_muon>>)
// ZERO0-NOT:     dist.all_gather
// ZERO0:         dist.reduce_scatter
// ZERO0-NEXT:    %[[ALL:.*]] = dist.all_gather
// ZERO0:         graph.optimizer_step "muon" %{{.*}}, %[[ALL]] keeps()
