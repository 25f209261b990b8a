// RUN: ztc-opt %s --ztc-assign-storage=precision=bf16 --ztc-verify-precision -split-input-file | FileCheck %s
// RUN: ztc-opt %s --ztc-assign-storage=precision=fp32 -split-input-file | FileCheck %s --check-prefix=FP32

// A layer: what goes from op to op is narrow, statistics, tables, the loss and gradients of parameters are f32.
// CHECK:       module attributes {graph.precision = "bf16"}
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:  %[[W:[^:]*]]: tensor<4x4xbf16> {graph.name = "w"
// CHECK-SAME:  -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4x4xf32> {graph.name = "w", graph.result = #graph.result<gradient>})
// CHECK:         graph.embedding %{{.*}} : tensor<7x4xbf16>, tensor<6xi32> -> tensor<6x4xbf16>
// CHECK:         %[[Y:.*]] = graph.matmul %{{.*}}, %[[W]] {transpose_b} : tensor<6x4xbf16>, tensor<4x4xbf16> -> tensor<6x4xbf16>
// CHECK:         %{{.*}}, %{{.*}}, %{{.*}} = graph.linear_cross_entropy %[[Y]], %{{.*}} -> tensor<f32>, tensor<6x4xbf16> and tensor<7x4xf32>
// CHECK:         %[[D:.*]] = graph.matmul %{{.*}} {transpose_a} : tensor<6x4xbf16>, tensor<6x4xbf16> -> tensor<4x4xf32>
// CHECK:         return %{{.*}}, %[[D]] : tensor<f32>, tensor<4x4xf32>
// FP32:        module attributes {graph.precision = "fp32"}
// FP32-NOT:    bf16
func.func @microstep(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %step: tensor<16xf32> {graph.role = #graph.role<step>},
                     %w: tensor<4x4xf32> {graph.role = #graph.role<parameter>, graph.name = "w"},
                     %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e", graph.frozen})
    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4x4xf32> {graph.result = #graph.result<gradient>, graph.name = "w"}) attributes {graph.entry = #graph.entry<microstep>} {
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %y = graph.matmul %x, %w {transpose_b} : tensor<6x4xf32>, tensor<4x4xf32> -> tensor<6x4xf32>
  %s = graph.slice %step, [0] : tensor<16xf32> -> tensor<1xf32>
  %scale = graph.reshape %s : tensor<1xf32> -> tensor<f32>
  %loss, %dy, %de = graph.linear_cross_entropy %y, %e, %tokens scale %scale : tensor<f32> : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>, tensor<6x4xf32> and tensor<7x4xf32>
  %dw = graph.matmul %dy, %x {transpose_a} : tensor<6x4xf32>, tensor<6x4xf32> -> tensor<4x4xf32>
  return %loss, %dw : tensor<f32>, tensor<4x4xf32>
}

// -----

// Subtracting a mean: the sum reads bf16 and gives f32; the chain after it is f32 and is rounded where it ends.
// CHECK-LABEL: func.func @eval(
// CHECK:         %[[SUM:.*]] = graph.reduce_sum %[[X:.*]], [1] : tensor<6x4xbf16> -> tensor<6x1xf32>
// CHECK:         %[[MEAN:.*]] = graph.broadcast %{{.*}} : tensor<6x1xf32> -> tensor<6x4xf32>
// CHECK:         %[[WIDE:.*]] = graph.cast %[[X]] : tensor<6x4xbf16> -> tensor<6x4xf32>
// CHECK:         %[[C:.*]] = graph.sub %[[WIDE]], %[[MEAN]] : tensor<6x4xf32>
// CHECK:         %[[ROUNDED:.*]] = graph.cast %[[C]] : tensor<6x4xf32> -> tensor<6x4xbf16>
// CHECK:         graph.rms_norm %[[ROUNDED]]
// bf16 holds 0.5, not 0.3.
// CHECK:         graph.mul %{{.*}}, %{{.*}} : tensor<6x4xbf16>
// CHECK:         graph.mul %{{.*}}, %{{.*}} : tensor<6x4xf32>
func.func @eval(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e"},
                %n: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "n"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %count = graph.constant dense<4.0> : tensor<6x1xf32>
  %half = graph.constant dense<0.5> : tensor<6x4xf32>
  %part = graph.constant dense<0.3> : tensor<6x4xf32>
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %sum = graph.reduce_sum %x, [1] : tensor<6x4xf32> -> tensor<6x1xf32>
  %mean = graph.div %sum, %count : tensor<6x1xf32>
  %b = graph.broadcast %mean : tensor<6x1xf32> -> tensor<6x4xf32>
  %c = graph.sub %x, %b : tensor<6x4xf32>
  %y = graph.rms_norm %c, %n, 1.0e-5 : tensor<6x4xf32>, tensor<4xf32>
  %z = graph.mul %y, %half : tensor<6x4xf32>
  %a = graph.mul %z, %part : tensor<6x4xf32>
  %loss = graph.linear_cross_entropy %a, %e, %tokens : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// A vector of parameters alone is f32, as small as it is: Gemma's 1 + w loses seven bits of a small w in bf16. Both norms read it, and so does a chain.
// CHECK-LABEL: func.func @microstep(
// CHECK-SAME:  %[[N:[^:]*]]: tensor<4xbf16> {graph.name = "n"
// CHECK:         %[[W:.*]] = graph.cast %[[N]] : tensor<4xbf16> -> tensor<4xf32>
// CHECK:         %[[SUM:.*]] = graph.add %[[W]], %{{.*}} : tensor<4xf32>
// CHECK:         graph.rms_norm %{{.*}}, %[[SUM]], {{.*}} : tensor<6x4xbf16>, tensor<4xf32>
// CHECK:         %[[ROWS:.*]] = graph.broadcast %[[SUM]] : tensor<4xf32> -> tensor<6x4xf32>
// CHECK:         graph.mul %{{.*}}, %[[ROWS]] : tensor<6x4xf32>
// CHECK:         %[[DX:.*]], %[[DW:.*]] = graph.rms_norm_grad %{{.*}}, %[[SUM]], {{.*}} : tensor<6x4xbf16>, tensor<4xf32>
// CHECK:         return %{{.*}}, %[[DW]]
func.func @microstep(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e", graph.frozen},
                     %n: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "n"})
    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "n"}) attributes {graph.entry = #graph.entry<microstep>} {
  %one = graph.constant dense<1.0> : tensor<4xf32>
  %scale = graph.constant dense<0.25> : tensor<f32>
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %sum = graph.add %n, %one : tensor<4xf32>
  %y = graph.rms_norm %x, %sum, 1.0e-5 : tensor<6x4xf32>, tensor<4xf32>
  %rows = graph.broadcast %sum : tensor<4xf32> -> tensor<6x4xf32>
  %z = graph.mul %y, %rows : tensor<6x4xf32>
  %loss, %dz, %de = graph.linear_cross_entropy %z, %e, %tokens scale %scale : tensor<f32> : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>, tensor<6x4xf32> and tensor<7x4xf32>
  %dy = graph.mul %dz, %rows : tensor<6x4xf32>
  %dx, %dw = graph.rms_norm_grad %x, %sum, %dy, 1.0e-5 : tensor<6x4xf32>, tensor<4xf32>
  return %loss, %dw : tensor<f32>, tensor<4xf32>
}

// -----

// A value of a chain that two ops read is stored, hence rounded, once; both read what is stored.
// CHECK-LABEL: func.func @eval(
// CHECK:         %[[SHIFTED:.*]] = graph.sub %{{.*}}, %{{.*}} : tensor<6x4xf32>
// CHECK:         %[[STORED:.*]] = graph.cast %[[SHIFTED]] : tensor<6x4xf32> -> tensor<6x4xbf16>
// CHECK-NOT:     %[[SHIFTED]]
// CHECK:         graph.rms_norm %[[STORED]]
// CHECK:         graph.cast %[[STORED]] : tensor<6x4xbf16> -> tensor<6x4xf32>
func.func @eval(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e"},
                %n: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "n"}) -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<eval>} {
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %sum = graph.reduce_sum %x, [1] : tensor<6x4xf32> -> tensor<6x1xf32>
  %b = graph.broadcast %sum : tensor<6x1xf32> -> tensor<6x4xf32>
  %c = graph.sub %x, %b : tensor<6x4xf32>
  %y = graph.rms_norm %c, %n, 1.0e-5 : tensor<6x4xf32>, tensor<4xf32>
  %b2 = graph.broadcast %sum : tensor<6x1xf32> -> tensor<6x4xf32>
  %d = graph.mul %c, %b2 : tensor<6x4xf32>
  %z = graph.add %y, %d : tensor<6x4xf32>
  %loss = graph.linear_cross_entropy %z, %e, %tokens : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// What the backward part reads in another shape (as GroupNorm's rows of groups) is rounded where it is computed; the reshape moves what is stored.
// CHECK-LABEL: func.func @microstep(
// CHECK:         %[[C:.*]] = graph.sub %{{.*}}, %{{.*}} : tensor<6x2x2xf32>
// CHECK:         %[[STORED:.*]] = graph.cast %[[C]] : tensor<6x2x2xf32> -> tensor<6x2x2xbf16>
// CHECK:         %[[ROWS:.*]] = graph.reshape %[[STORED]] : tensor<6x2x2xbf16> -> tensor<6x4xbf16>
// CHECK:         graph.linear_cross_entropy
// CHECK:         graph.cast %[[ROWS]] : tensor<6x4xbf16> -> tensor<6x4xf32>
func.func @microstep(%tokens: tensor<6xi32> {graph.role = #graph.role<tokens>}, %step: tensor<16xf32> {graph.role = #graph.role<step>},
                     %n: tensor<4xf32> {graph.role = #graph.role<parameter>, graph.name = "n"},
                     %e: tensor<7x4xf32> {graph.role = #graph.role<parameter>, graph.name = "e", graph.frozen})
    -> (tensor<f32> {graph.result = #graph.result<loss>}, tensor<4xf32> {graph.result = #graph.result<gradient>, graph.name = "n"}) attributes {graph.entry = #graph.entry<microstep>} {
  %x = graph.embedding %e, %tokens : tensor<7x4xf32>, tensor<6xi32> -> tensor<6x4xf32>
  %b = graph.broadcast %n : tensor<4xf32> -> tensor<6x4xf32>
  %scaled = graph.mul %x, %b : tensor<6x4xf32>
  %groups = graph.reshape %scaled : tensor<6x4xf32> -> tensor<6x2x2xf32>
  %sum = graph.reduce_sum %groups, [2] : tensor<6x2x2xf32> -> tensor<6x2x1xf32>
  %mean = graph.broadcast %sum : tensor<6x2x1xf32> -> tensor<6x2x2xf32>
  %c = graph.sub %groups, %mean : tensor<6x2x2xf32>
  %rows = graph.reshape %c : tensor<6x2x2xf32> -> tensor<6x4xf32>
  %y = graph.mul %rows, %b : tensor<6x4xf32>
  %s = graph.slice %step, [0] : tensor<16xf32> -> tensor<1xf32>
  %scale = graph.reshape %s : tensor<1xf32> -> tensor<f32>
  %loss, %dy, %de = graph.linear_cross_entropy %y, %e, %tokens scale %scale : tensor<f32> : tensor<6x4xf32>, tensor<7x4xf32>, tensor<6xi32> -> tensor<f32>, tensor<6x4xf32> and tensor<7x4xf32>
  %p = graph.mul %dy, %rows : tensor<6x4xf32>
  %d = graph.reduce_sum %p, [0] : tensor<6x4xf32> -> tensor<1x4xf32>
  %dn = graph.reshape %d : tensor<1x4xf32> -> tensor<4xf32>
  return %loss, %dn : tensor<f32>, tensor<4xf32>
}
