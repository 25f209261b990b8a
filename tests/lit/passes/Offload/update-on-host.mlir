// The update of a bucket whose states lie in the host's memory, by its cores: of each piece what it reads on the device comes down into a window, it is computed
// where the states are, what it has written goes up. What is not of the bucket comes down once, whole. The computation waits before ranks gather the parameters.
// A bucket with a slot on the disk stays on the device, with a remark.
// RUN: ztc-opt %s "--ztc-update-on-host=choice=states=1+1/update=host piece-elements=262144" --ztc-stream-update --ztc-name-moved-slots | FileCheck %s
// RUN: ztc-opt %s --ztc-update-on-host=choice=states=1+1 | FileCheck %s --check-prefix=DEVICE
// RUN: not ztc-opt %s --ztc-update-on-host=choice=moments=1+2 2>&1 | FileCheck %s --check-prefix=WRONG
// RUN: not ztc-opt %s --ztc-update-on-host=piece-elements=100 2>&1 | FileCheck %s --check-prefix=PIECE
// WRONG: choice 'moments=1+2' is not of the form
// PIECE: piece-elements 100 is not a multiple of 262144
// DEVICE-NOT: on_host

// CHECK-DAG: plan.slot @on_host.scale workspace constant 8 x f32 {element_bytes = 4 : i64, persistent, {{.*}}space = #plan.space<host>}
// CHECK-DAG: plan.slot @on_host.parameter workspace constant 262144 x f32 {element_bytes = 4 : i64, persistent, {{.*}}space = #plan.space<host>}
// CHECK-DAG: plan.slot @on_host.gradient workspace constant 262144 x f32 {{.*}}space = #plan.space<host>}
// CHECK-DAG: plan.slot @b.exp_avg optimizer shard 500000 x f32 {{.*}}space = #plan.space<host>}
plan.slot @b.parameter parameters full 500000 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @b.gradient gradients full 500000 x f32 {accumulator, element_bytes = 4 : i64}
plan.slot @b.exp_avg optimizer shard 500000 x f32 {element_bytes = 4 : i64, persistent, space = #plan.space<host>}
plan.slot @d.parameter parameters full 1000 x f32 {element_bytes = 4 : i64, persistent}
plan.slot @d.gradient gradients full 1000 x f32 {accumulator, element_bytes = 4 : i64}
plan.slot @d.exp_avg optimizer shard 1000 x f32 {element_bytes = 4 : i64, persistent, space = #plan.space<disk>}
plan.slot @scale workspace constant 8 x f32 {element_bytes = 4 : i64}
plan.bucket @b {decayed = 0 : i64, elements = 500000 : i64, gradient_slot = @b.gradient, parameter_slot = @b.parameter, trainable, states = [#plan.state<"exp_avg", @b.exp_avg>]}
plan.bucket @d {decayed = 0 : i64, elements = 1000 : i64, gradient_slot = @d.gradient, parameter_slot = @d.parameter, trainable, states = [#plan.state<"exp_avg", @d.exp_avg>]}

// CHECK: plan.program @update
plan.program @update {
  // CHECK: plan.launch "scale"
  plan.launch "scale" [#plan.operand<write @scale, 0, 0>]
  // CHECK-NEXT: plan.record "b on the host free" [] {event = [[ready:[0-9]+]]
  // CHECK-NEXT: plan.wait "b on the host begin" [] {event = [[ready]] {{.*}}stream = 2
  // CHECK-NEXT: plan.move "b on the host piece 0 down" [#plan.operand<read @b.parameter, 0, 0, own_shard, piece 0 of 262144>, #plan.operand<write @on_host.parameter, 0, 0>,
  // CHECK-SAME:   #plan.operand<read @b.gradient, 0, 0, own_shard, piece 0 of 262144>, #plan.operand<write @on_host.gradient, 0, 0>,
  // CHECK-SAME:   #plan.operand<read @scale, 0, 0>, #plan.operand<write @on_host.scale, 0, 0>] {{.*}}stream = 2
  // CHECK-NEXT: plan.launch "adamw b piece 0" [#plan.operand<read_write @on_host.parameter, 0, 0>, #plan.operand<read @on_host.gradient, 0, 0>,
  // CHECK-SAME:   #plan.operand<read_write @b.exp_avg, 0, 0, piece 0 of 262144>, #plan.operand<read @on_host.scale, 4, 4>] {{.*}}piece_elements = 262144 {{.*}}stream = 2
  // CHECK-NEXT: plan.move "b on the host piece 0 up" [#plan.operand<read @on_host.parameter, 0, 0>, #plan.operand<write @b.parameter, 0, 0, own_shard, piece 0 of 262144>] {{.*}}stream = 2
  // CHECK-NEXT: plan.move "b on the host piece 1 down" [{{.*}}@on_host.gradient, 0, 0>] {
  // CHECK-NEXT: plan.launch "adamw b piece 1" {{.*}}piece = 1
  // CHECK-NEXT: plan.move "b on the host piece 1 up"
  // CHECK-NEXT: plan.record "b on the host end" [] {event = [[end:[0-9]+]] {{.*}}stream = 2
  // CHECK-NEXT: plan.wait "b on the host done" [{{.*}}@b.parameter{{.*}}@b.gradient{{.*}}@scale{{.*}}] {event = [[end]]
  plan.launch "adamw b" [#plan.operand<read_write @b.parameter, 0, 0, own_shard>, #plan.operand<read @b.gradient, 0, 0, own_shard>, #plan.operand<read_write @b.exp_avg, 0, 0>,
    #plan.operand<read @scale, 4, 4>] {bucket = @b, flat_block = 4096 : i64, flops = 10 : i64}
  // CHECK-NEXT: plan.record "all_gather b ready"
  plan.record "all_gather b ready" [] {event = 0 : i64}
  plan.wait "all_gather b begin" [] {event = 0 : i64, stream = 1 : i64}
  // CHECK: plan.collective "all_gather b"
  plan.collective "all_gather b" [#plan.operand<read @b.parameter, 0, 0, own_shard>, #plan.operand<write @b.parameter, 0, 0>] {axis = "data", bucket = @b, kind = #plan.collective<all_gather>, launch_order = 0 : i64, stream = 1 : i64, type = f32}
  plan.record "all_gather b end" [] {event = 1 : i64, stream = 1 : i64}
  // CHECK: plan.launch "adamw d piece 0" [{{.*}}@d.parameter{{.*}}@window0.exp_avg
  plan.launch "adamw d" [#plan.operand<read_write @d.parameter, 0, 0, own_shard>, #plan.operand<read @d.gradient, 0, 0, own_shard>, #plan.operand<read_write @d.exp_avg, 0, 0>,
    #plan.operand<read @scale, 4, 4>] {bucket = @d, flat_block = 4096 : i64, flops = 10 : i64}
  plan.wait "all_gather b done" [#plan.operand<write @b.parameter, 0, 0>] {event = 1 : i64}
}
