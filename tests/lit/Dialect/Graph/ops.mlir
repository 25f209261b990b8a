// Every op, printed and parsed again.
// RUN: ztc-opt %s | ztc-opt | FileCheck %s
// RUN: ztc-opt %s --mlir-print-op-generic | ztc-opt | FileCheck %s

// CHECK-LABEL: func @elementwise
func.func @elementwise(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>, %flag: tensor<2x3xi1>) -> tensor<2x3xbf16> {
  // CHECK: graph.add %{{.*}}, %{{.*}} : tensor<2x3xf32>
  %0 = graph.add %a, %b : tensor<2x3xf32>
  // CHECK: graph.sub
  %1 = graph.sub %0, %b : tensor<2x3xf32>
  // CHECK: graph.mul
  %2 = graph.mul %1, %b : tensor<2x3xf32>
  // CHECK: graph.div
  %3 = graph.div %2, %b : tensor<2x3xf32>
  // CHECK: graph.maximum
  %4 = graph.maximum %3, %b : tensor<2x3xf32>
  // CHECK: graph.minimum
  %5 = graph.minimum %4, %b : tensor<2x3xf32>
  // CHECK: graph.neg %{{.*}} : tensor<2x3xf32>
  %6 = graph.neg %5 : tensor<2x3xf32>
  // CHECK: graph.abs
  %7 = graph.abs %6 : tensor<2x3xf32>
  // CHECK: graph.exp
  %8 = graph.exp %7 : tensor<2x3xf32>
  // CHECK: graph.log
  %9 = graph.log %8 : tensor<2x3xf32>
  // CHECK: graph.sqrt
  %10 = graph.sqrt %9 : tensor<2x3xf32>
  // CHECK: graph.rsqrt
  %11 = graph.rsqrt %10 : tensor<2x3xf32>
  // CHECK: graph.reciprocal
  %12 = graph.reciprocal %11 : tensor<2x3xf32>
  // CHECK: graph.sigmoid
  %13 = graph.sigmoid %12 : tensor<2x3xf32>
  // CHECK: graph.tanh
  %14 = graph.tanh %13 : tensor<2x3xf32>
  // CHECK: graph.erf
  %15 = graph.erf %14 : tensor<2x3xf32>
  // CHECK: graph.sin
  %16 = graph.sin %15 : tensor<2x3xf32>
  // CHECK: graph.cos
  %17 = graph.cos %16 : tensor<2x3xf32>
  // CHECK: graph.power %{{.*}}, 3.000000e+00 : tensor<2x3xf32>
  %18 = graph.power %17, 3.0 : tensor<2x3xf32>
  // CHECK: graph.compare lt, %{{.*}}, %{{.*}} : tensor<2x3xf32> -> tensor<2x3xi1>
  %19 = graph.compare lt, %18, %b : tensor<2x3xf32> -> tensor<2x3xi1>
  // CHECK: graph.logic and, %{{.*}}, %{{.*}} : tensor<2x3xi1>
  %20 = graph.logic and, %19, %flag : tensor<2x3xi1>
  // CHECK: graph.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x3xi1>, tensor<2x3xf32>
  %21 = graph.select %20, %18, %b : tensor<2x3xi1>, tensor<2x3xf32>
  // CHECK: graph.atan
  %23 = graph.atan %21 : tensor<2x3xf32>
  // CHECK: graph.expm1
  %24 = graph.expm1 %23 : tensor<2x3xf32>
  // CHECK: graph.log1p
  %25 = graph.log1p %24 : tensor<2x3xf32>
  // CHECK: graph.round floor, %{{.*}} : tensor<2x3xf32>
  %26 = graph.round floor, %25 : tensor<2x3xf32>
  // CHECK: graph.remainder %{{.*}}, %{{.*}} : tensor<2x3xf32>
  %27 = graph.remainder %26, %b : tensor<2x3xf32>
  // CHECK: graph.tensor_power %{{.*}}, %{{.*}} : tensor<2x3xf32>
  %28 = graph.tensor_power %27, %b : tensor<2x3xf32>
  // CHECK: graph.cast %{{.*}} : tensor<2x3xf32> -> tensor<2x3xbf16>
  %22 = graph.cast %28 : tensor<2x3xf32> -> tensor<2x3xbf16>
  return %22 : tensor<2x3xbf16>
}

// CHECK-LABEL: func @shape
func.func @shape(%x: tensor<2x3xf32>) -> (tensor<2x1xf32>, tensor<2x3xi64>) {
  // CHECK: graph.constant dense<1.000000e+00> : tensor<1x3xf32>
  %c = graph.constant dense<1.0> : tensor<1x3xf32>
  // CHECK: graph.iota 1 : tensor<2x3xi64>
  %i = graph.iota 1 : tensor<2x3xi64>
  // CHECK: graph.reshape %{{.*}} : tensor<2x3xf32> -> tensor<6xf32>
  %0 = graph.reshape %x : tensor<2x3xf32> -> tensor<6xf32>
  %1 = graph.reshape %0 : tensor<6xf32> -> tensor<3x2xf32>
  // CHECK: graph.transpose %{{.*}}, [1, 0] : tensor<3x2xf32> -> tensor<2x3xf32>
  %2 = graph.transpose %1, [1, 0] : tensor<3x2xf32> -> tensor<2x3xf32>
  // CHECK: graph.broadcast %{{.*}} : tensor<1x3xf32> -> tensor<2x3xf32>
  %3 = graph.broadcast %c : tensor<1x3xf32> -> tensor<2x3xf32>
  %4 = graph.add %2, %3 : tensor<2x3xf32>
  // CHECK: graph.slice %{{.*}}, [0, 1] : tensor<2x3xf32> -> tensor<2x2xf32>
  %5 = graph.slice %4, [0, 1] : tensor<2x3xf32> -> tensor<2x2xf32>
  // CHECK: graph.pad %{{.*}}, [0, 1] : tensor<2x2xf32> -> tensor<2x4xf32>
  %6 = graph.pad %5, [0, 1] : tensor<2x2xf32> -> tensor<2x4xf32>
  // CHECK: graph.concat %{{.*}}, %{{.*}} axis 1 : tensor<2x4xf32>, tensor<2x3xf32> -> tensor<2x7xf32>
  %7 = graph.concat %6, %x axis 1 : tensor<2x4xf32>, tensor<2x3xf32> -> tensor<2x7xf32>
  // CHECK: graph.reduce_sum %{{.*}}, [1] : tensor<2x7xf32> -> tensor<2x1xf32>
  %8 = graph.reduce_sum %7, [1] : tensor<2x7xf32> -> tensor<2x1xf32>
  // CHECK: graph.reduce_max %{{.*}}, [1] : tensor<2x7xf32> -> tensor<2x1xf32>
  %9 = graph.reduce_max %7, [1] : tensor<2x7xf32> -> tensor<2x1xf32>
  // CHECK: graph.recompute_barrier %{{.*}} after %{{.*}} : tensor<2x1xf32>, tensor<2x1xf32>
  %10 = graph.recompute_barrier %8 after %9 : tensor<2x1xf32>, tensor<2x1xf32>
  return %10, %i : tensor<2x1xf32>, tensor<2x3xi64>
}

// CHECK-LABEL: func @macros
func.func @macros(%x: tensor<2x4x6xf32>, %w: tensor<6xf32>, %dy: tensor<2x4x6xf32>) -> (tensor<2x4x6xf32>, tensor<6xf32>) {
  // CHECK: graph.rms_norm %{{.*}}, %{{.*}}, 1.000000e-05 : tensor<2x4x6xf32>, tensor<6xf32>
  %0 = graph.rms_norm %x, %w, 1.0e-5 : tensor<2x4x6xf32>, tensor<6xf32>
  // CHECK: graph.rms_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, 1.000000e-05 : tensor<2x4x6xf32>, tensor<6xf32>
  %1, %2 = graph.rms_norm_grad %x, %w, %dy, 1.0e-5 : tensor<2x4x6xf32>, tensor<6xf32>
  // CHECK: graph.softmax %{{.*}} : tensor<2x4x6xf32>
  %3 = graph.softmax %0 : tensor<2x4x6xf32>
  // CHECK: graph.swiglu %{{.*}}, %{{.*}} : tensor<2x4x6xf32>
  %4 = graph.swiglu %3, %1 : tensor<2x4x6xf32>
  // CHECK: graph.swiglu_grad %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x4x6xf32>
  %5, %6 = graph.swiglu_grad %3, %4, %dy : tensor<2x4x6xf32>
  // CHECK: graph.matmul %{{.*}}, %{{.*}} {transpose_b} : tensor<2x4x6xf32>, tensor<2x4x6xf32> -> tensor<2x4x4xf32>
  %7 = graph.matmul %5, %6 {transpose_b} : tensor<2x4x6xf32>, tensor<2x4x6xf32> -> tensor<2x4x4xf32>
  // CHECK: graph.matmul %{{.*}}, %{{.*}} : tensor<2x4x4xf32>, tensor<2x4x6xf32> -> tensor<2x4x6xf32>
  %8 = graph.matmul %7, %6 : tensor<2x4x4xf32>, tensor<2x4x6xf32> -> tensor<2x4x6xf32>
  return %8, %2 : tensor<2x4x6xf32>, tensor<6xf32>
}

// CHECK-LABEL: func @attention
func.func @attention(%x: tensor<2x5x4x6xf32>, %k: tensor<2x5x2x6xf32>, %v: tensor<2x5x2x6xf32>, %cos: tensor<5x3xf32>, %sin: tensor<5x3xf32>, %starts: tensor<2x5xi32>)
    -> (tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>, tensor<2x5x2x6xf32>, tensor<2x5x4x6xf32>) {
  // CHECK: graph.rope %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x5x4x6xf32>, tensor<5x3xf32>
  %q = graph.rope %x, %cos, %sin : tensor<2x5x4x6xf32>, tensor<5x3xf32>
  // CHECK: graph.rope %{{.*}}, %{{.*}}, %{{.*}} {inverse} : tensor<2x5x2x6xf32>, tensor<5x3xf32>
  %r = graph.rope %k, %cos, %sin {inverse} : tensor<2x5x2x6xf32>, tensor<5x3xf32>
  // CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, 5.000000e-01 : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>{{$}}
  %0 = graph.attention %q, %r, %v, 0.5 : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>
  // CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, 5.000000e-01 {causal, window = 3 : i64} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32> -> tensor<2x4x5xf32>
  %1, %lse = graph.attention %q, %r, %v, 0.5 {causal, window = 3 : i64} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32> -> tensor<2x4x5xf32>
  // CHECK: graph.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, 5.000000e-01 {causal, window = 3 : i64} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>, tensor<2x4x5xf32>
  %dq, %dk, %dv = graph.attention_grad %q, %r, %v, %1, %lse, %0, 0.5 {causal, window = 3 : i64} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>, tensor<2x4x5xf32>
  // CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, 5.000000e-01 within %{{.*}} : tensor<2x5xi32> {causal} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32> -> tensor<2x4x5xf32>
  %2, %lse2 = graph.attention %q, %r, %v, 0.5 within %starts : tensor<2x5xi32> {causal} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32> -> tensor<2x4x5xf32>
  // CHECK: graph.attention_grad %{{.*}}, 5.000000e-01 within %{{.*}} : tensor<2x5xi32> {causal} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>, tensor<2x4x5xf32>
  %dq2, %dk2, %dv2 = graph.attention_grad %q, %r, %v, %2, %lse2, %0, 0.5 within %starts : tensor<2x5xi32> {causal} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>, tensor<2x4x5xf32>
  // CHECK: graph.attention %{{.*}}, %{{.*}}, %{{.*}}, 5.000000e-01 {causal, softcap = 5.000000e+01 : f64} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32> -> tensor<2x4x5xf32>
  %3, %lse3 = graph.attention %q, %r, %v, 0.5 {causal, softcap = 50.0} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32> -> tensor<2x4x5xf32>
  // CHECK: graph.attention_grad %{{.*}}, 5.000000e-01 {causal, softcap = 5.000000e+01 : f64} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>, tensor<2x4x5xf32>
  %dq3, %dk3, %dv3 = graph.attention_grad %q, %r, %v, %3, %lse3, %0, 0.5 {causal, softcap = 50.0} : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>, tensor<2x4x5xf32>
  return %dq, %dk, %dv, %0 : tensor<2x5x4x6xf32>, tensor<2x5x2x6xf32>, tensor<2x5x2x6xf32>, tensor<2x5x4x6xf32>
}

// CHECK-LABEL: func @ends
func.func @ends(%table: tensor<11x4xf32>, %tokens: tensor<2x3xi32>, %targets: tensor<6xi32>, %scale: tensor<f32>)
    -> (tensor<11x4xf32>, tensor<6x11xf32>, tensor<f32>, tensor<11x4xf32>) {
  // CHECK: graph.embedding %{{.*}}, %{{.*}} : tensor<11x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
  %0 = graph.embedding %table, %tokens : tensor<11x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
  // CHECK: graph.embedding_grad %{{.*}}, %{{.*}} : tensor<2x3xi32>, tensor<2x3x4xf32> -> tensor<11x4xf32>
  %1 = graph.embedding_grad %tokens, %0 : tensor<2x3xi32>, tensor<2x3x4xf32> -> tensor<11x4xf32>
  %hidden = graph.reshape %0 : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %logits = graph.matmul %hidden, %table {transpose_b} : tensor<6x4xf32>, tensor<11x4xf32> -> tensor<6x11xf32>
  // CHECK: graph.cross_entropy %{{.*}}, %{{.*}} : tensor<6x11xf32>, tensor<6xi32> -> tensor<f32>
  %2 = graph.cross_entropy %logits, %targets : tensor<6x11xf32>, tensor<6xi32> -> tensor<f32>
  // CHECK: graph.cross_entropy_grad %{{.*}}, %{{.*}}, %{{.*}} : tensor<6x11xf32>, tensor<6xi32>, tensor<f32>
  %3 = graph.cross_entropy_grad %logits, %targets, %2 : tensor<6x11xf32>, tensor<6xi32>, tensor<f32>
  // CHECK: graph.linear_cross_entropy %{{.*}}, %{{.*}}, %{{.*}} : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>{{$}}
  %4 = graph.linear_cross_entropy %hidden, %table, %targets : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>
  // CHECK: graph.linear_cross_entropy %{{.*}}, %{{.*}}, %{{.*}} : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<2xf32>
  %9 = graph.linear_cross_entropy %hidden, %table, %targets : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<2xf32>
  // CHECK: graph.linear_cross_entropy %{{.*}}, %{{.*}}, %{{.*}} {logit_scale = 5.000000e-01 : f64, softcap = 3.000000e+01 : f64} : tensor<6x4xf32>
  %8 = graph.linear_cross_entropy %hidden, %table, %targets {logit_scale = 0.5, softcap = 30.0} : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>
  // CHECK: graph.linear_cross_entropy %{{.*}}, %{{.*}}, %{{.*}} scale %{{.*}} : tensor<f32> : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>, tensor<6x4xf32> and tensor<11x4xf32>
  %5, %6, %7 = graph.linear_cross_entropy %hidden, %table, %targets scale %scale : tensor<f32> : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>, tensor<6x4xf32> and tensor<11x4xf32>
  return %1, %3, %4, %7 : tensor<11x4xf32>, tensor<6x11xf32>, tensor<f32>, tensor<11x4xf32>
}

// CHECK-LABEL: func @weighted_losses
func.func @weighted_losses(%x: tensor<6x11xf32>, %hidden: tensor<6x4xf32>, %table: tensor<11x4xf32>, %targets: tensor<6xi32>, %scale: tensor<f32>, %w: tensor<6xf32>)
    -> (tensor<f32>, tensor<6x11xf32>, tensor<2xf32>, tensor<6x4xf32>) {
  // CHECK: graph.cross_entropy %{{.*}}, %{{.*}} weights %{{.*}} : tensor<6xf32> : tensor<6x11xf32>, tensor<6xi32> -> tensor<f32>
  %0 = graph.cross_entropy %x, %targets weights %w : tensor<6xf32> : tensor<6x11xf32>, tensor<6xi32> -> tensor<f32>
  // CHECK: graph.cross_entropy_grad %{{.*}}, %{{.*}}, %{{.*}} weights %{{.*}} : tensor<6xf32> : tensor<6x11xf32>, tensor<6xi32>, tensor<f32>
  %1 = graph.cross_entropy_grad %x, %targets, %0 weights %w : tensor<6xf32> : tensor<6x11xf32>, tensor<6xi32>, tensor<f32>
  // CHECK: graph.linear_cross_entropy %{{.*}}, %{{.*}}, %{{.*}} weights %{{.*}} : tensor<6xf32> : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<2xf32>
  %2 = graph.linear_cross_entropy %hidden, %table, %targets weights %w : tensor<6xf32> : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<2xf32>
  // CHECK: graph.linear_cross_entropy %{{.*}}, %{{.*}}, %{{.*}} scale %{{.*}} : tensor<f32> weights %{{.*}} : tensor<6xf32> : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>, tensor<6x4xf32> and tensor<11x4xf32>
  %3, %4, %5 = graph.linear_cross_entropy %hidden, %table, %targets scale %scale : tensor<f32> weights %w : tensor<6xf32> : tensor<6x4xf32>, tensor<11x4xf32>, tensor<6xi32> -> tensor<f32>, tensor<6x4xf32> and tensor<11x4xf32>
  return %0, %1, %2, %4 : tensor<f32>, tensor<6x11xf32>, tensor<2xf32>, tensor<6x4xf32>
}

// The length of a flat bucket may be unknown.
// CHECK-LABEL: func @update
func.func @update(%p: tensor<?xf32>, %g: tensor<?xf32>, %m: tensor<?xf32>, %v: tensor<?xf32>, %hyper: tensor<16xf32>, %scale: tensor<f32>,
                  %proceed: tensor<i1>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>) attributes {graph.entry = #graph.entry<update>} {
  // CHECK: graph.accumulate %{{.*}}, %{{.*}} {first_writes} : tensor<?xf32>
  %0 = graph.accumulate %g, %g {first_writes} : tensor<?xf32>
  // CHECK: graph.sum_squares %{{.*}} : tensor<?xf32> -> tensor<f32>
  %1 = graph.sum_squares %0 : tensor<?xf32> -> tensor<f32>
  // CHECK: graph.optimizer_step "adamw" %{{.*}}, %{{.*}} keeps(%{{.*}}, %{{.*}}) by(%{{.*}}, %{{.*}}, %{{.*}}) decayed 100 : (tensor<?xf32>,
  %2, %3, %4 = graph.optimizer_step "adamw" %p, %0 keeps(%m, %v) by(%hyper, %scale, %proceed) decayed 100
      : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %2, %3, %4, %1 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<f32>
}

// Mixed precision: a bf16 parameter with its remainder, an f16 one with its master, moments in bf16.
// CHECK-LABEL: func @mixed
func.func @mixed(%p: tensor<?xbf16>, %r: tensor<?xi16>, %h: tensor<?xf16>, %w: tensor<?xf32>, %m: tensor<?xbf16>, %hyper: tensor<16xf32>, %scale: tensor<f32>,
                 %proceed: tensor<i1>, %x: tensor<2x6xbf16>, %n: tensor<6xbf16>) -> (tensor<?xbf16>, tensor<?xi16>, tensor<6xf32>) {
  // CHECK: graph.join_master %{{.*}}, %{{.*}} : tensor<?xbf16>, tensor<?xi16> -> tensor<?xf32>
  %0 = graph.join_master %p, %r : tensor<?xbf16>, tensor<?xi16> -> tensor<?xf32>
  // CHECK: graph.split_master %{{.*}} : tensor<?xf32> -> tensor<?xbf16>, tensor<?xi16>
  %1, %2 = graph.split_master %0 : tensor<?xf32> -> tensor<?xbf16>, tensor<?xi16>
  // CHECK: graph.optimizer_step "adamw" {{.*}} decayed 100 : (tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<?xi16>,
  %3, %4, %5, %6 = graph.optimizer_step "adamw" %1, %p keeps(%w, %w, %2) by(%hyper, %scale, %proceed) decayed 100
      : (tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<?xi16>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<?xbf16>, tensor<?xf32>, tensor<?xf32>, tensor<?xi16>)
  // CHECK: graph.optimizer_step "adamw" {{.*}} decayed 0 : (tensor<?xf16>, tensor<?xf16>, tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>,
  %7, %8, %9, %10 = graph.optimizer_step "adamw" %h, %h keeps(%m, %m, %w) by(%hyper, %scale, %proceed) decayed 0
      : (tensor<?xf16>, tensor<?xf16>, tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<?xf16>, tensor<?xbf16>, tensor<?xbf16>, tensor<?xf32>)
  // CHECK: graph.cast %{{.*}} : tensor<?xf32> -> tensor<?xbf16>
  %11 = graph.cast %10 : tensor<?xf32> -> tensor<?xbf16>
  %index = graph.iota 0 : tensor<?xi64>
  // CHECK: graph.stochastic_round %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} stream 1 : tensor<?xf32>, tensor<?xi64>, tensor<?xf32> -> tensor<?xbf16>
  %12 = graph.stochastic_round %10, %index, %w, %w stream 1 : tensor<?xf32>, tensor<?xi64>, tensor<?xf32> -> tensor<?xbf16>
  // CHECK: graph.random_bits %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} columns 8 stream 7 : tensor<?xi64>, tensor<?xf32> -> tensor<?xi32>
  %bits = graph.random_bits %index, %index, %index, %w, %w columns 8 stream 7 : tensor<?xi64>, tensor<?xf32> -> tensor<?xi32>
  // CHECK: graph.dropout %{{.*}} {module = "a", probability = 5.000000e-01 : f64} : tensor<2x6xbf16>
  %dropped = graph.dropout %x {module = "a", probability = 0.5} : tensor<2x6xbf16>
  // CHECK: graph.rms_norm_grad %{{.*}} : tensor<2x6xbf16>, tensor<6xbf16> -> tensor<6xf32>
  %13, %14 = graph.rms_norm_grad %x, %n, %x, 1.0e-5 : tensor<2x6xbf16>, tensor<6xbf16> -> tensor<6xf32>
  return %12, %6, %14 : tensor<?xbf16>, tensor<?xi16>, tensor<6xf32>
}

// CHECK-LABEL: func @quantized
func.func @quantized(%w: tensor<1140xi8>, %s: tensor<96xi8>) -> tensor<4x8xbf16> {
  // CHECK: graph.dequantize %{{.*}} format <nf4> : tensor<1140xi8> -> tensor<4x8xbf16>
  %0 = graph.dequantize %w format <nf4> : tensor<1140xi8> -> tensor<4x8xbf16>
  // CHECK: graph.dequantize %{{.*}} format <nf4_single> : tensor<96xi8> -> tensor<4x8xbf16>
  %1 = graph.dequantize %s format <nf4_single> : tensor<96xi8> -> tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// CHECK-LABEL: func @fp8
func.func @fp8(%x: tensor<32x16xbf16>, %w: tensor<48x16xbf16>) -> tensor<32x48xf32> {
  // CHECK: %{{.*}}, %{{.*}}:2 = graph.quantize_fp8 %{{.*}} {by_columns, by_rows} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E5M2>, tensor<16x32xf8E5M2>
  %s, %q:2 = graph.quantize_fp8 %x {by_columns, by_rows} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E5M2>, tensor<16x32xf8E5M2>
  // CHECK: graph.row_amax %{{.*}} : tensor<48x16xbf16> -> tensor<48x1xbf16>
  %m = graph.row_amax %w : tensor<48x16xbf16> -> tensor<48x1xbf16>
  // CHECK: graph.quantize_fp8 %{{.*}} amax %{{.*}} : tensor<48x1xbf16> {by_rows, weight} : tensor<48x16xbf16> -> tensor<2xf32>, tensor<48x16xf8E4M3FN>
  %t, %p = graph.quantize_fp8 %w amax %m : tensor<48x1xbf16> {by_rows, weight} : tensor<48x16xbf16> -> tensor<2xf32>, tensor<48x16xf8E4M3FN>
  // CHECK: graph.transpose_codes %{{.*}} : tensor<48x16xf8E4M3FN> -> tensor<16x48xf8E4M3FN>
  %pt = graph.transpose_codes %p : tensor<48x16xf8E4M3FN> -> tensor<16x48xf8E4M3FN>
  // CHECK: graph.scaled_matmul %{{.*}}, %{{.*}} scales %{{.*}}, %{{.*}} : tensor<32x16xf8E5M2>, tensor<48x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x48xf32>
  %y = graph.scaled_matmul %q#0, %p scales %s, %t : tensor<32x16xf8E5M2>, tensor<48x16xf8E4M3FN>, tensor<2xf32>, tensor<2xf32> -> tensor<32x48xf32>
  return %y : tensor<32x48xf32>
}

// CHECK-LABEL: func @delayed_scaling
func.func @delayed_scaling(%x: tensor<32x16xbf16>, %known: tensor<8xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  %f = graph.constant dense<[448.0, 57344.0]> : tensor<2xf32>
  // CHECK: graph.fp8_scales %{{.*}} largest %{{.*}} : tensor<8xf32>, tensor<2xf32>
  %scales = graph.fp8_scales %known largest %f : tensor<8xf32>, tensor<2xf32>
  %s = graph.slice %scales, [4] : tensor<8xf32> -> tensor<2xf32>
  // CHECK: %{{.*}}, %{{.*}}:2 = graph.encode_fp8 %{{.*}} scale %{{.*}} {by_columns, by_rows} : tensor<32x16xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x16xf8E5M2>, tensor<16x32xf8E5M2>
  %m, %q:2 = graph.encode_fp8 %x scale %s {by_columns, by_rows} : tensor<32x16xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x16xf8E5M2>, tensor<16x32xf8E5M2>
  %first = graph.slice %s, [0] : tensor<2xf32> -> tensor<1xf32>
  %b = graph.broadcast %first : tensor<1xf32> -> tensor<32x16xf32>
  // CHECK: graph.fp8_codes %{{.*}}, %{{.*}} : tensor<32x16xbf16>, tensor<32x16xf32> -> tensor<32x16xf8E5M2>
  %c = graph.fp8_codes %x, %b : tensor<32x16xbf16>, tensor<32x16xf32> -> tensor<32x16xf8E5M2>
  %a = graph.row_amax %x : tensor<32x16xbf16> -> tensor<32x1xbf16>
  // CHECK: graph.note_codes %{{.*}} amax %{{.*}} : tensor<32x16xf8E5M2>, tensor<32x1xbf16> -> tensor<1xf32>, tensor<16x32xf8E5M2>
  %n, %t = graph.note_codes %c amax %a : tensor<32x16xf8E5M2>, tensor<32x1xbf16> -> tensor<1xf32>, tensor<16x32xf8E5M2>
  return %m, %n : tensor<1xf32>, tensor<1xf32>
}

// CHECK-LABEL: func @matmul_add
func.func @matmul_add(%x: tensor<8x4xbf16>, %w: tensor<6x4xbf16>, %r: tensor<8x6xbf16>) -> tensor<8x6xbf16> {
  // CHECK: graph.matmul_add %{{.*}}, %{{.*}}, %{{.*}} {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16>
  %y = graph.matmul_add %x, %w, %r {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16>
  return %y : tensor<8x6xbf16>
}

// CHECK-LABEL: func @matmul_add_bias
func.func @matmul_add_bias(%x: tensor<8x4xbf16>, %w: tensor<6x4xbf16>, %r: tensor<8x6xbf16>, %v: tensor<6xbf16>) -> tensor<8x6xbf16> {
  // CHECK: graph.matmul_add %{{.*}}, %{{.*}}, %{{.*}} bias %{{.*}} : tensor<6xbf16> {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16>
  %y = graph.matmul_add %x, %w, %r bias %v : tensor<6xbf16> {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<8x6xbf16>
  return %y : tensor<8x6xbf16>
}

// CHECK-LABEL: func @matmul_bias
func.func @matmul_bias(%x: tensor<8x4xbf16>, %w: tensor<6x4xbf16>, %v: tensor<6xbf16>) -> tensor<8x6xbf16> {
  // CHECK: graph.matmul_bias %{{.*}}, %{{.*}}, %{{.*}} {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<6xbf16> -> tensor<8x6xbf16>
  %y = graph.matmul_bias %x, %w, %v {transpose_b} : tensor<8x4xbf16>, tensor<6x4xbf16>, tensor<6xbf16> -> tensor<8x6xbf16>
  return %y : tensor<8x6xbf16>
}

// CHECK-LABEL: func @matmul_gelu
func.func @matmul_gelu(%x: tensor<8x4xbf16>, %w: tensor<16x4xbf16>, %v: tensor<16xbf16>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>) {
  // CHECK: graph.matmul_gelu %{{.*}}, %{{.*}}, %{{.*}} {transpose_b} : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>, tensor<8x16xbf16>
  %y, %s = graph.matmul_gelu %x, %w, %v {transpose_b} : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>, tensor<8x16xbf16>
  // CHECK: graph.matmul_gelu %{{.*}}, %{{.*}}, %{{.*}} {transpose_b} : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>{{$}}
  %z = graph.matmul_gelu %x, %w, %v {transpose_b} : tensor<8x4xbf16>, tensor<16x4xbf16>, tensor<16xbf16> -> tensor<8x16xbf16>
  return %y, %s, %z : tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>
}

// CHECK-LABEL: func @fusion
func.func @fusion(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: graph.fusion "gate"(%{{.*}}, %{{.*}}) is chain : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %0 = graph.fusion "gate"(%x, %y) is chain : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %1 = graph.mul %a, %b : tensor<4xf32>
    // CHECK: graph.yield %{{.*}} : tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// What steers a module stands in enums.
// CHECK: func.func @microstep(%{{.*}}: tensor<2xi32> {graph.role = #graph.role<tokens>},
// CHECK-SAME: %{{.*}}: tensor<f32> {graph.layer = 3 : i64, graph.name = "w", graph.role = #graph.role<parameter>}
// CHECK-SAME: -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<microstep>}
func.func @microstep(%tokens: tensor<2xi32> {graph.role = #graph.role<tokens>},
                     %w: tensor<f32> {graph.role = #graph.role<parameter>, graph.layer = 3 : i64, graph.name = "w"})
    -> (tensor<f32> {graph.result = #graph.result<loss>}) attributes {graph.entry = #graph.entry<microstep>} {
  return %w : tensor<f32>
}
