// Narrow parameters: gradients add up in f32 and are rounded once, to the type of the parameters, before they are reduced.
// RUN: ztc-opt %s --ztc-choose-stage=zero=1 --ztc-form-buckets --ztc-partition-states --ztc-insert-collectives --ztc-verify-shard | FileCheck %s --check-prefixes=CHECK,ZERO1
// RUN: ztc-opt %s --ztc-choose-stage=zero=0 --ztc-form-buckets --ztc-partition-states --ztc-insert-collectives --ztc-verify-shard | FileCheck %s --check-prefixes=CHECK,ZERO0
// RUN: ztc-opt %s --ztc-choose-stage=zero=2 --ztc-form-buckets --ztc-partition-states --ztc-insert-collectives --ztc-verify-shard | FileCheck %s --check-prefixes=CHECK,ZERO2

// What the policy keeps in f32 lies in a bucket of its own.
// CHECK: dist.bucket @rest {decayed = 40 : i64, elements = 40 : i64, parameters = [{name = "w",
// CHECK: dist.bucket @rest_f32 {decayed = 8 : i64, elements = 8 : i64, parameters = [{name = "kept",

// ZERO1-LABEL: func.func @microstep(
// ZERO1-SAME:    tensor<?xbf16, #dist.full<@rest>> {{{[^}]*}}#graph.role<parameter_bucket>}, %{{.*}}: tensor<?xf32, #dist.full<@rest_f32>> {{{[^}]*}}#graph.role<parameter_bucket>}
// ZERO1-SAME:    %[[G:[^:]*]]: tensor<?xf32, #dist.full<@rest>> {{{[^}]*}}#graph.role<gradient_bucket>}, %{{.*}}: tensor<?xf32, #dist.full<@rest_f32>> {{{[^}]*}}#graph.role<gradient_bucket>}
// ZERO1-SAME:    tensor<?xf32, #dist.full<@rest>> {graph.bucket = @rest, graph.result = #graph.result<gradient>}
// ZERO1-SAME:    tensor<?xbf16, #dist.shard<@rest>> {graph.bucket = @rest, graph.result = #graph.result<reduced_gradient>}
// ZERO1-SAME:    tensor<?xf32, #dist.shard<@rest_f32>> {graph.bucket = @rest_f32, graph.result = #graph.result<reduced_gradient>}
// ZERO1:         %[[PACK:.*]] = dist.pack %{{.*}} at [0] : tensor<5x8xf32> -> tensor<?xf32, #dist.full<@rest>>
// ZERO1-NEXT:    %[[WIRE:.*]] = graph.cast %[[PACK]] : tensor<?xf32, #dist.full<@rest>> -> tensor<?xbf16, #dist.full<@rest>>
// ZERO1-NEXT:    %[[SUM:.*]] = dist.reduce_scatter %[[WIRE]] axis "data" {only_last} : tensor<?xbf16, #dist.full<@rest>>
// ZERO1:         %[[KEPT:.*]] = dist.pack %{{.*}} at [0] : tensor<8xf32> -> tensor<?xf32, #dist.full<@rest_f32>>
// ZERO1-NEXT:    %[[KEPTSUM:.*]] = dist.reduce_scatter %[[KEPT]]
// ZERO1:         return %{{.*}}, %[[PACK]], %[[KEPT]], %[[SUM]], %[[KEPTSUM]]

// From stage 2 on every micro-step's gradient goes over the wire, and what comes back adds up in f32.
// ZERO2-LABEL: func.func @microstep(
// ZERO2-SAME:    %[[G:[^:]*]]: tensor<?xf32, #dist.shard<@rest>> {{{[^}]*}}#graph.role<gradient_bucket>}
// ZERO2:         %[[PACK:.*]] = dist.pack %{{.*}} at [0] : tensor<5x8xf32> -> tensor<?xf32, #dist.full<@rest>>
// ZERO2-NEXT:    %[[WIRE:.*]] = graph.cast %[[PACK]] : tensor<?xf32, #dist.full<@rest>> -> tensor<?xbf16, #dist.full<@rest>>
// ZERO2-NEXT:    %[[SUM:.*]] = dist.reduce_scatter %[[WIRE]] axis "data" : tensor<?xbf16, #dist.full<@rest>>
// ZERO2-NEXT:    %[[BACK:.*]] = graph.cast %[[SUM]] : tensor<?xbf16, #dist.shard<@rest>> -> tensor<?xf32, #dist.shard<@rest>>
// ZERO2-NEXT:    %[[ADDED:.*]] = graph.accumulate %[[G]], %[[BACK]] {first_writes} : tensor<?xf32, #dist.shard<@rest>>
// ZERO2-NEXT:    %[[ROUNDED:.*]] = graph.cast %[[ADDED]] : tensor<?xf32, #dist.shard<@rest>> -> tensor<?xbf16, #dist.shard<@rest>>
// ZERO2:         return %{{.*}}, %[[ADDED]], %{{.*}}, %[[ROUNDED]] :

// The update reads the reduced gradient in the type of the wire at every stage. Remainders are sharded like moments.
// ZERO0-LABEL: func.func @update(
// ZERO0-SAME:    tensor<?xbf16, #dist.shard<@rest>> {{{[^}]*}}#graph.role<gradient_bucket>}
// ZERO0-SAME:    tensor<?xf32, #dist.full<@rest>> {{{[^}]*}}#graph.role<state_bucket>, graph.state = "exp_avg"}
// ZERO0-SAME:    %[[R:[^:]*]]: tensor<?xi16, #dist.full<@rest>> {{{[^}]*}}#graph.role<master_bucket>}
// ZERO0:         dist.all_gather %{{.*}} axis "data" : tensor<?xbf16, #dist.shard<@rest>> -> tensor<?xbf16, #dist.full<@rest>>
// ZERO0:         graph.optimizer_step "adamw" {{.*}}, %[[R]]) by
// ZERO1-LABEL: func.func @update(
// ZERO1-SAME:    %[[P:[^:]*]]: tensor<?xbf16, #dist.full<@rest>> {{{[^}]*}}#graph.role<parameter_bucket>}
// ZERO1-SAME:    %[[G:[^:]*]]: tensor<?xbf16, #dist.shard<@rest>> {{{[^}]*}}#graph.role<gradient_bucket>}
// ZERO1-SAME:    tensor<?xf32, #dist.shard<@rest>> {{{[^}]*}}#graph.role<state_bucket>, graph.state = "exp_avg"}
// ZERO1-SAME:    %[[R:[^:]*]]: tensor<?xi16, #dist.shard<@rest>> {{{[^}]*}}#graph.role<master_bucket>}
// ZERO1:         graph.sum_squares %[[G]] : tensor<?xbf16, #dist.shard<@rest>> -> tensor<f32>
// ZERO1:         %[[OWN:.*]] = dist.own_shard %[[P]]
// ZERO1:         graph.optimizer_step "adamw" %[[OWN]], %[[G]] {{.*}}, %[[R]]) by
// ZERO1:         dist.all_gather %{{.*}} axis "data" : tensor<?xbf16, #dist.shard<@rest>> -> tensor<?xbf16, #dist.full<@rest>>
// ZERO2-LABEL: func.func @update(
// ZERO2-SAME:    %[[G:[^:]*]]: tensor<?xbf16, #dist.shard<@rest>> {{{[^}]*}}#graph.role<gradient_bucket>}
// ZERO2:         graph.sum_squares %[[G]] : tensor<?xbf16, #dist.shard<@rest>> -> tensor<f32>
func.func @microstep(%step: tensor<16xf32> {graph.role = #graph.role<step>},
    %w: tensor<5x8xbf16> {graph.role = #graph.role<parameter>, graph.name = "w"}, %k: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "kept"})
    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<5x8xf32> {graph.result = #graph.result<gradient>, graph.name = "w"},
        tensor<8xf32> {graph.result = #graph.result<gradient>, graph.name = "kept"}) attributes {graph.entry = #graph.entry<microstep>} {
  %loss = graph.constant dense<0.0> : tensor<f32>
  %x = graph.exp %w : tensor<5x8xbf16>
  %a = graph.cast %x : tensor<5x8xbf16> -> tensor<5x8xf32>
  %b = graph.exp %k : tensor<8xf32>
  return %loss, %a, %b : tensor<f32>, tensor<5x8xf32>, tensor<8xf32>
}
func.func @update(%step: tensor<16xf32> {graph.role = #graph.role<step>},
    %w: tensor<5x8xbf16> {graph.role = #graph.role<parameter>, graph.name = "w"}, %k: tensor<8xf32> {graph.role = #graph.role<parameter>, graph.name = "kept"},
    %m: tensor<5x8xf32> {graph.role = #graph.role<state>, graph.state = "exp_avg", graph.name = "w"}, %r: tensor<5x8xi16> {graph.role = #graph.role<master>, graph.name = "w"})
    -> (tensor<5x8xbf16> {graph.result = #graph.result<parameter>, graph.name = "w"}) attributes {graph.entry = #graph.entry<update>} {
  return %w : tensor<5x8xbf16>
}
