// RUN: ztc-opt %s --verify-diagnostics --split-input-file | ztc-opt --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @direction
func.func @direction(%g: tensor<8xf32>, %b: tensor<8xbf16>, %n: tensor<1xi64>, %x: tensor<2x4xbf16>, %hyper: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // CHECK: graph.momentum_direction %{{.*}} keeps(%{{.*}}) by(%{{.*}}, %{{.*}}, %{{.*}}) : (
  %0, %1 = graph.momentum_direction %g keeps(%g) by(%hyper, %s, %go)
      : (tensor<8xf32>, tensor<8xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xbf16>, tensor<8xf32>)
  // CHECK: graph.momentum_direction {{.*}} numbered %{{.*}} from [0]
  %2, %3 = graph.momentum_direction %g keeps(%b) by(%hyper, %s, %go) numbered %n from [0]
      : (tensor<8xf32>, tensor<8xbf16>, tensor<20xf32>, tensor<f32>, tensor<i1>, tensor<1xi64>) -> (tensor<8xbf16>, tensor<8xbf16>)
  // CHECK: graph.orthogonalize %{{.*}} : tensor<2x4xbf16>
  %4 = graph.orthogonalize %x : tensor<2x4xbf16>
  // Muon's states are not those of the step.
  // CHECK: graph.optimizer_step "muon" {{.*}} {graph.change_ends = array<i64: 8>, graph.change_factors = array<f64: 4.000000e-01>}
  %5 = graph.optimizer_step "muon" %g, %0 keeps() by(%hyper, %s, %go) decayed 8 {graph.change_ends = array<i64: 8>, graph.change_factors = array<f64: 0.4>}
      : (tensor<8xf32>, tensor<8xbf16>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
  return
}

// -----

// momentum_direction (C1)
func.func @lengths(%g: tensor<8xf32>, %m: tensor<9xf32>, %hyper: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{gradient, momentum and direction are not 1-D of one length: 'tensor<8xf32>' and 'tensor<9xf32>'}}
  %0, %1 = graph.momentum_direction %g keeps(%m) by(%hyper, %s, %go)
      : (tensor<8xf32>, tensor<9xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xbf16>, tensor<9xf32>)
  return
}

// -----

// momentum_direction (C2)
func.func @hyper(%g: tensor<8xf32>, %hyper: tensor<20xf64>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{hyper is not 1-D f32: 'tensor<20xf64>'}}
  %0, %1 = graph.momentum_direction %g keeps(%g) by(%hyper, %s, %go)
      : (tensor<8xf32>, tensor<8xf32>, tensor<20xf64>, tensor<f32>, tensor<i1>) -> (tensor<8xbf16>, tensor<8xf32>)
  return
}

// -----

// momentum_direction (C3)
func.func @types(%g: tensor<8xf32>, %m: tensor<8xf16>, %hyper: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{a momentum of 'f16' beside a gradient of 'f32'}}
  %0, %1 = graph.momentum_direction %g keeps(%m) by(%hyper, %s, %go)
      : (tensor<8xf32>, tensor<8xf16>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xbf16>, tensor<8xf16>)
  return
}

// -----

// momentum_direction (C4)
func.func @numbers(%g: tensor<8xf32>, %m: tensor<8xbf16>, %n: tensor<2xi64>, %hyper: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{has 2 numbers for 1 starts}}
  %0, %1 = graph.momentum_direction %g keeps(%m) by(%hyper, %s, %go) numbered %n from [0]
      : (tensor<8xf32>, tensor<8xbf16>, tensor<20xf32>, tensor<f32>, tensor<i1>, tensor<2xi64>) -> (tensor<8xbf16>, tensor<8xbf16>)
  return
}

// -----

// orthogonalize (C1)
func.func @vector(%x: tensor<8xbf16>) {
  // expected-error @+1 {{x has neither rank 2 nor rank 3: 'tensor<8xbf16>'}}
  %0 = graph.orthogonalize %x : tensor<8xbf16>
  return
}
