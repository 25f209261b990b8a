// RUN: ztc-opt %s --ztc-choose-stage=zero=0 --ztc-form-buckets --ztc-partition-states | FileCheck %s --check-prefixes=CHECK,ZERO0
// RUN: ztc-opt %s --ztc-choose-stage=zero=1 --ztc-form-buckets --ztc-partition-states | FileCheck %s --check-prefixes=CHECK,ZERO1
// RUN: ztc-opt %s --ztc-choose-stage=zero=2 --ztc-form-buckets --ztc-partition-states | FileCheck %s --check-prefixes=CHECK,ZERO2
// RUN: ztc-opt %s --ztc-choose-stage=zero=3 --ztc-form-buckets --ztc-partition-states | FileCheck %s --check-prefixes=CHECK,ZERO3

// CHECK: dist.bucket @rest {decayed = 40 : i64, elements = 40 : i64

// Parameters are whole buckets up to stage 2. At stage 3 a microstep takes shards, and views stand on a gather.
// ZERO0-LABEL: func.func @microstep(
// ZERO0-SAME:    %[[P:[^:]*]]: tensor<?xf32, #dist.full<@rest>> {{{.*}}#graph.role<parameter_bucket>}, %[[G:[^:]*]]: tensor<?xf32, #dist.full<@rest>> {{{.*}}#graph.role<gradient_bucket>}
// ZERO0-SAME:    -> (tensor<f32> {graph.result = #graph.result<loss>},
// ZERO0-SAME:    tensor<?xf32, #dist.full<@rest>> {graph.bucket = @rest, graph.result = #graph.result<gradient>},
// ZERO0-SAME:    tensor<?xf32, #dist.shard<@rest>> {graph.bucket = @rest, graph.result = #graph.result<reduced_gradient>})
// ZERO1-LABEL: func.func @microstep(
// ZERO1-SAME:    tensor<?xf32, #dist.full<@rest>> {{{.*}}#graph.role<parameter_bucket>}, %{{.*}}: tensor<?xf32, #dist.full<@rest>> {{{.*}}#graph.role<gradient_bucket>}
// ZERO1-SAME:    graph.result = #graph.result<reduced_gradient>
// ZERO2-LABEL: func.func @microstep(
// ZERO2-SAME:    tensor<?xf32, #dist.full<@rest>> {{{.*}}#graph.role<parameter_bucket>}, %[[G:[^:]*]]: tensor<?xf32, #dist.shard<@rest>> {{{.*}}#graph.role<gradient_bucket>}
// ZERO2-SAME:    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<?xf32, #dist.shard<@rest>> {graph.bucket = @rest, graph.result = #graph.result<gradient>})
// ZERO3-LABEL: func.func @microstep(
// ZERO3-SAME:    %[[P:[^:]*]]: tensor<?xf32, #dist.shard<@rest>> {{{.*}}#graph.role<parameter_bucket>}, %{{.*}}: tensor<?xf32, #dist.shard<@rest>> {{{.*}}#graph.role<gradient_bucket>}
// ZERO3-NEXT:    %[[FULL:.*]] = dist.all_gather %[[P]] axis "data"
// ZERO3-NEXT:    dist.view %[[FULL]][0] : tensor<?xf32, #dist.full<@rest>> -> tensor<5x8xf32>

// At stages 0 and 1 the gradient adds up where it lies ...
// ZERO0:         %[[SLOT:.*]] = dist.view %[[G]][0]
// ZERO0:         %[[SUM:.*]] = graph.accumulate %[[SLOT]], %{{.*}} {first_writes} : tensor<5x8xf32>
// ZERO0:         %[[SUM2:.*]] = graph.accumulate %[[SUM]], %{{.*}} : tensor<5x8xf32>
// ZERO0:         %[[PACK:.*]] = dist.pack %[[SUM2]] at [0]
// ZERO0:         %[[OWN:.*]] = dist.own_shard %[[PACK]]
// ZERO0:         return %{{.*}}, %[[PACK]], %[[OWN]]
// ... from stage 2 on a local gradient is made anew (both parts of a tied one), and its own shard adds up.
// ZERO2-NOT:     first_writes
// ZERO2:         %[[SUM:.*]] = graph.accumulate %{{.*}}, %{{.*}} : tensor<5x8xf32>
// ZERO2:         %[[PACK:.*]] = dist.pack %[[SUM]] at [0]
// ZERO2:         %[[OWN:.*]] = dist.own_shard %[[PACK]]
// ZERO2:         %[[NEW:.*]] = graph.accumulate %[[G]], %[[OWN]] {first_writes} : tensor<?xf32, #dist.shard<@rest>>
// ZERO2:         return %{{.*}}, %[[NEW]]

// The update takes gradients as shards and sums the squares of these. Stage 0 keeps everything else whole ...
// ZERO0-LABEL: func.func @update(
// ZERO0-SAME:    %[[P:[^:]*]]: tensor<?xf32, #dist.full<@rest>> {{{[^}]*}}#graph.role<parameter_bucket>}, %[[G:[^:]*]]: tensor<?xf32, #dist.shard<@rest>> {{{[^}]*}}#graph.role<gradient_bucket>}
// ZERO0-SAME:    %[[M:[^:]*]]: tensor<?xf32, #dist.full<@rest>> {{{[^}]*}}#graph.role<state_bucket>, graph.state = "exp_avg"}
// ZERO0:         graph.sum_squares %[[G]] : tensor<?xf32, #dist.shard<@rest>>
// ZERO0:         %[[GF:.*]] = dist.all_gather %[[G]] axis "data"
// ZERO0:         graph.optimizer_step "adamw" %[[P]], %[[GF]] keeps(%[[M]], {{.*}} decayed 9223372036854775807 : (tensor<?xf32, #dist.full<@rest>>
// ... stages 1 and 2 update the own shard of the parameter and gather it ...
// ZERO1-LABEL: func.func @update(
// ZERO1-SAME:    %[[P:[^:]*]]: tensor<?xf32, #dist.full<@rest>> {{{[^}]*}}#graph.role<parameter_bucket>}, %[[G:[^:]*]]: tensor<?xf32, #dist.shard<@rest>> {{{[^}]*}}#graph.role<gradient_bucket>}
// ZERO1-SAME:    %[[M:[^:]*]]: tensor<?xf32, #dist.shard<@rest>> {{{[^}]*}}#graph.role<state_bucket>, graph.state = "exp_avg"}
// ZERO1:         %[[OWN:.*]] = dist.own_shard %[[P]]
// ZERO1:         %[[NEW:[^,]*]], {{.*}} = graph.optimizer_step "adamw" %[[OWN]], %[[G]] keeps(%[[M]], {{.*}} decayed 9223372036854775807 : (tensor<?xf32, #dist.shard<@rest>>
// ZERO1:         %[[FULL:.*]] = dist.all_gather %[[NEW]] axis "data"
// ZERO1:         return %[[FULL]],
// ... and at stage 3 there is nothing but shards.
// ZERO3-LABEL: func.func @update(
// ZERO3-NOT:     dist.full
// ZERO3:         graph.optimizer_step "adamw" {{.*}} decayed 9223372036854775807 : (tensor<?xf32, #dist.shard<@rest>>
// ZERO3-NOT:     dist.full
// ZERO3:         return
func.func @microstep(%step: tensor<16xf32> {graph.role = #graph.role<step>},
    %w: tensor<5x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"})
    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<5x8xf32> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
  %loss = graph.constant dense<0.0> : tensor<f32>
  %a = graph.exp %w : tensor<5x8xf32>
  %b = graph.mul %a, %w : tensor<5x8xf32>
  %sum = graph.accumulate %a, %b : tensor<5x8xf32>
  return %loss, %sum : tensor<f32>, tensor<5x8xf32>
}
func.func @update(%step: tensor<16xf32> {graph.role = #graph.role<step>}, %w: tensor<5x8xf32> {graph.role = #graph.role<parameter>, graph.name = "w"}) -> (tensor<5x8xf32> {graph.result = #graph.result<parameter>, graph.name = "w"}) attributes {graph.entry = #graph.entry<update>} {
  return %w : tensor<5x8xf32>
}
