// Tensor by tensor: of the blocks that keep a tensor the first ones' lie below, in the host's memory and then on the disk, whatever else these blocks keep.
// What the choice does not name goes by whole blocks.
// RUN: ztc-opt %s --ztc-stage-slots=choice=activations.up.matmul=1+1 --ztc-name-moved-slots | FileCheck %s
// RUN: ztc-opt %s --ztc-stage-slots=choice=activations=1+0/activations.up.matmul=0+0 --ztc-name-moved-slots | FileCheck %s --check-prefix=OTHERS
// RUN: not ztc-opt %s --ztc-stage-slots=choice=activations.=1+0 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: choice 'activations.=1+0' is not of the form {{.*}}activations.TENSOR

// Block 0 computes `up` again: the first that keeps it is block 1.
// CHECK:      plan.slot @microstep.layer0.norm activations constant 1024
// CHECK-NEXT: plan.slot @microstep.layer1.norm activations constant 1024
// CHECK-NEXT: plan.slot @microstep.layer1.up.matmul activations
// CHECK-NEXT: plan.slot @microstep.layer1.up.matmul.again activations
// CHECK-NEXT: plan.slot @microstep.layer1.up.matmul.below activations {{.*}}space = #plan.space<host>
// CHECK-NEXT: plan.slot @microstep.layer2.up.matmul activations
// CHECK-NEXT: plan.slot @microstep.layer2.up.matmul.again activations
// CHECK-NEXT: plan.slot @microstep.layer2.up.matmul.below activations {{.*}}space = #plan.space<disk>
// CHECK-NEXT: plan.slot @microstep.layer3.up.matmul activations
// CHECK-NEXT: plan.slot @loss
// OTHERS: plan.slot @microstep.layer0.norm.below activations {{.*}}space = #plan.space<host>
// OTHERS-NOT: .below
// OTHERS: plan.program
plan.slot @microstep.layer0.norm activations constant 1024 x bf16 {element_bytes = 2 : i64, layer = 0 : i64}
plan.slot @microstep.layer1.norm activations constant 1024 x bf16 {element_bytes = 2 : i64, layer = 1 : i64}
plan.slot @microstep.layer1.up.matmul activations constant 4096 x bf16 {element_bytes = 2 : i64, layer = 1 : i64}
plan.slot @microstep.layer2.up.matmul activations constant 4096 x bf16 {element_bytes = 2 : i64, layer = 2 : i64}
plan.slot @microstep.layer3.up.matmul activations constant 4096 x bf16 {element_bytes = 2 : i64, layer = 3 : i64}
plan.slot @loss io constant 1 x f32 {element_bytes = 4 : i64, persistent}

plan.program @microstep {
  // CHECK: plan.launch "forward 0"
  // CHECK-NEXT: plan.launch "forward 1"
  plan.launch "forward 0" [#plan.operand<write @microstep.layer0.norm, 0, 0>] {layer = 0 : i64}
  plan.launch "forward 1" [#plan.operand<write @microstep.layer1.norm, 0, 0>, #plan.operand<write @microstep.layer1.up.matmul, 0, 0>] {layer = 1 : i64}
  // CHECK: plan.move "microstep.layer1.up.matmul out" [#plan.operand<read @microstep.layer1.up.matmul, 0, 0>, #plan.operand<write @microstep.layer1.up.matmul.below, 0, 0>]
  // CHECK: plan.move "microstep.layer2.up.matmul out"
  plan.launch "forward 2" [#plan.operand<write @microstep.layer2.up.matmul, 0, 0>] {layer = 2 : i64}
  plan.launch "forward 3" [#plan.operand<write @microstep.layer3.up.matmul, 0, 0>] {layer = 3 : i64}
  // CHECK: plan.linear_cross_entropy
  // CHECK-NOT: "microstep.layer0.norm
  // CHECK-NOT: "microstep.layer3.up.matmul
  plan.linear_cross_entropy "loss" [#plan.operand<write @loss, 0, 0>] {chunk = 1 : i64, gpu_chunk = 1 : i64, tokens = 1 : i64, training, type = bf16, vocabulary = 1 : i64, width = 1 : i64}
  // CHECK: plan.launch "backward 3" [#plan.operand<read @microstep.layer3.up.matmul, 0, 0>]
  plan.launch "backward 3" [#plan.operand<read @microstep.layer3.up.matmul, 0, 0>] {layer = 3 : i64}
  // CHECK: plan.launch "backward 2" [#plan.operand<read @microstep.layer2.up.matmul.again, 0, 0>]
  plan.launch "backward 2" [#plan.operand<read @microstep.layer2.up.matmul, 0, 0>] {layer = 2 : i64}
  // CHECK: plan.launch "backward 1" [#plan.operand<read @microstep.layer1.norm, 0, 0>, #plan.operand<read @microstep.layer1.up.matmul.again, 0, 0>]
  plan.launch "backward 1" [#plan.operand<read @microstep.layer1.norm, 0, 0>, #plan.operand<read @microstep.layer1.up.matmul, 0, 0>] {layer = 1 : i64}
  // CHECK: plan.launch "backward 0" [#plan.operand<read @microstep.layer0.norm, 0, 0>]
  plan.launch "backward 0" [#plan.operand<read @microstep.layer0.norm, 0, 0>] {layer = 0 : i64}
}
