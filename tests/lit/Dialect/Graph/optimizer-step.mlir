// RUN: ztc-opt %s --verify-diagnostics --split-input-file | FileCheck %s
// RUN: ztc-opt %s --verify-diagnostics --split-input-file | ztc-opt --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @registered
func.func @registered(%p: tensor<8xf32>, %q: tensor<8xbf16>, %r: tensor<8xi16>, %hyper: tensor<16xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // CHECK: graph.optimizer_step "adamw" %{{.*}}, %{{.*}} keeps(%{{.*}}, %{{.*}}) by(%{{.*}}, %{{.*}}, %{{.*}}) decayed 4 : (
  %0, %1, %2 = graph.optimizer_step "adamw" %p, %p keeps(%p, %p) by(%hyper, %s, %go) decayed 4
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  // CHECK: graph.optimizer_step "adamw" {{.*}} tensor<8xi16>
  %3, %4, %5, %6 = graph.optimizer_step "adamw" %q, %q keeps(%p, %p, %r) by(%hyper, %s, %go) decayed 0
      : (tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xi16>, tensor<16xf32>, tensor<f32>, tensor<i1>)
      -> (tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xi16>)
  return
}

// -----

// CHECK-LABEL: func.func @without_master
func.func @without_master(%p: tensor<8xf32>, %q: tensor<8xbf16>, %n: tensor<2xi64>, %hyper: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // CHECK: graph.optimizer_step "lion" %{{.*}} decayed 8 numbered %{{.*}} from [0, 5] : (
  %0, %1 = graph.optimizer_step "lion" %q, %q keeps(%p) by(%hyper, %s, %go) decayed 8 numbered %n from [0, 5]
      : (tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>, tensor<2xi64>) -> (tensor<8xbf16>, tensor<8xf32>)
  return
}

// -----

// CHECK-LABEL: func.func @blocks
func.func @blocks(%p: tensor<512xf32>, %m: tensor<512x!graph.block8<signed>>, %v: tensor<512x!graph.block8<unsigned>>, %hyper: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>,
                  %all: tensor<512xi1>) {
  // CHECK: graph.optimizer_step "adamw" {{.*}}tensor<512x!graph.block8<signed>>, tensor<512x!graph.block8<unsigned>>
  %0, %1, %2 = graph.optimizer_step "adamw" %p, %p keeps(%m, %v) by(%hyper, %s, %go) decayed 4
      : (tensor<512xf32>, tensor<512xf32>, tensor<512x!graph.block8<signed>>, tensor<512x!graph.block8<unsigned>>, tensor<20xf32>, tensor<f32>, tensor<i1>)
      -> (tensor<512xf32>, tensor<512x!graph.block8<signed>>, tensor<512x!graph.block8<unsigned>>)
  // CHECK: graph.decode_blocks %{{.*}} : tensor<512x!graph.block8<signed>> -> tensor<512xf32>
  %3 = graph.decode_blocks %m : tensor<512x!graph.block8<signed>> -> tensor<512xf32>
  // CHECK: graph.encode_blocks %{{.*}} over %{{.*}} if %{{.*}} : tensor<512xf32>, tensor<512xi1> -> tensor<512x!graph.block8<signed>>
  %4 = graph.encode_blocks %3 over %m if %all : tensor<512xf32>, tensor<512xi1> -> tensor<512x!graph.block8<signed>>
  return
}

// -----

// decode_blocks (C1)
func.func @decode(%m: tensor<2x256x!graph.block8<signed>>) {
  // expected-error @+1 {{numbers and blocks are not 1-D of one length: 'tensor<2x256xf32>' and 'tensor<2x256x!graph.block8<signed>>'}}
  %0 = graph.decode_blocks %m : tensor<2x256x!graph.block8<signed>> -> tensor<2x256xf32>
  return
}

// -----

// encode_blocks (C2)
func.func @encode(%x: tensor<256xf32>, %m: tensor<256x!graph.block8<unsigned>>) {
  // expected-error @+1 {{proceed is not i1: 'tensor<256xf32>'}}
  %0 = graph.encode_blocks %x over %m if %x : tensor<256xf32>, tensor<256xf32> -> tensor<256x!graph.block8<unsigned>>
  return
}

// -----

// expected-error @+1 {{expected <signed> or <unsigned>}}
func.func @block8(%m: tensor<256x!graph.block8<half>>)

// -----

// (C1)
func.func @lengths(%p: tensor<8xf32>, %m: tensor<9xf32>, %hyper: tensor<16xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{parameter and states are not of one length: 'tensor<8xf32>' and 'tensor<9xf32>'}}
  %0, %1, %2 = graph.optimizer_step "adamw" %p, %p keeps(%p, %m) by(%hyper, %s, %go) decayed 4
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<9xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<9xf32>)
  return
}

// -----

// (C1)
func.func @gradient(%p: tensor<8xf32>, %m: tensor<9xf32>, %hyper: tensor<16xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{parameter and gradient are not 1-D of one length: 'tensor<8xf32>' and 'tensor<9xf32>'}}
  %0, %1, %2 = graph.optimizer_step "adamw" %p, %m keeps(%p, %p) by(%hyper, %s, %go) decayed 4
      : (tensor<8xf32>, tensor<9xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C2)
func.func @hyper(%p: tensor<8xf32>, %hyper: tensor<16xf64>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{hyper is not 1-D f32: 'tensor<16xf64>'}}
  %0, %1, %2 = graph.optimizer_step "adamw" %p, %p keeps(%p, %p) by(%hyper, %s, %go) decayed 4
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf64>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C2)
func.func @scale(%p: tensor<8xf32>, %hyper: tensor<16xf32>, %s: tensor<1xf32>, %go: tensor<i1>) {
  // expected-error @+1 {{gradient_scale is not a scalar: 'tensor<1xf32>'}}
  %0, %1, %2 = graph.optimizer_step "adamw" %p, %p keeps(%p, %p) by(%hyper, %s, %go) decayed 4
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<1xf32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C2)
func.func @proceed(%p: tensor<8xf32>, %hyper: tensor<16xf32>, %s: tensor<f32>, %go: tensor<1xi1>) {
  // expected-error @+1 {{proceed is not a scalar: 'tensor<1xi1>'}}
  %0, %1, %2 = graph.optimizer_step "adamw" %p, %p keeps(%p, %p) by(%hyper, %s, %go) decayed 4
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<f32>, tensor<1xi1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C3)
func.func @master(%q: tensor<8xbf16>, %p: tensor<8xf32>, %hyper: tensor<16xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{the master of a parameter of 'bf16' is 'tensor<8xf32>'}}
  %0, %1, %2, %3 = graph.optimizer_step "adamw" %q, %q keeps(%p, %p, %p) by(%hyper, %s, %go) decayed 4
      : (tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>)
      -> (tensor<8xbf16>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C4)
func.func @states(%p: tensor<8xf32>, %h: tensor<8xf16>, %hyper: tensor<16xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{states of 'f16' beside a parameter of 'f32'}}
  %0, %1, %2 = graph.optimizer_step "adamw" %p, %p keeps(%p, %h) by(%hyper, %s, %go) decayed 4
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf16>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf16>)
  return
}

// -----

// (C5)
func.func @unknown(%p: tensor<8xf32>, %hyper: tensor<16xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{no optimizer 'nobody' is registered}}
  %0 = graph.optimizer_step "nobody" %p, %p keeps() by(%hyper, %s, %go) decayed 4
      : (tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> tensor<8xf32>
  return
}

// -----

// (C5)
func.func @count(%p: tensor<8xf32>, %hyper: tensor<16xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{keeps 1 values of a parameter of 'f32', expected 2 with 'adamw'}}
  %0, %1 = graph.optimizer_step "adamw" %p, %p keeps(%p) by(%hyper, %s, %go) decayed 4
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

// (C6)
func.func @kept(%p: tensor<8xf32>, %h: tensor<8xbf16>, %hyper: tensor<16xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{states and master have other types afterwards}}
  %0, %1, %2 = graph.optimizer_step "adamw" %p, %p keeps(%p, %p) by(%hyper, %s, %go) decayed 4
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>)
  return
}

// -----

// (C3)
func.func @without_master(%p: tensor<8xf32>, %h: tensor<8xf16>, %hyper: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{keeps 1 values of a parameter of 'f16', expected 2 with 'sgd'}}
  %0, %1 = graph.optimizer_step "sgd" %h, %h keeps(%p) by(%hyper, %s, %go) decayed 4
      : (tensor<8xf16>, tensor<8xf16>, tensor<8xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>) -> (tensor<8xf16>, tensor<8xf32>)
  return
}

// -----

// (C7)
func.func @numbers(%p: tensor<8xf32>, %q: tensor<8xbf16>, %n: tensor<2xi64>, %hyper: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{numbers are not 1-D i64 for 3 starts: 'tensor<2xi64>'}}
  %0, %1 = graph.optimizer_step "lion" %q, %q keeps(%p) by(%hyper, %s, %go) decayed 8 numbered %n from [0, 5, 6]
      : (tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>, tensor<2xi64>) -> (tensor<8xbf16>, tensor<8xf32>)
  return
}

// -----

// (C7)
func.func @starts(%p: tensor<8xf32>, %q: tensor<8xbf16>, %n: tensor<2xi64>, %hyper: tensor<20xf32>, %s: tensor<f32>, %go: tensor<i1>) {
  // expected-error @+1 {{starts do not ascend from 0}}
  %0, %1 = graph.optimizer_step "lion" %q, %q keeps(%p) by(%hyper, %s, %go) decayed 8 numbered %n from [2, 5]
      : (tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<20xf32>, tensor<f32>, tensor<i1>, tensor<2xi64>) -> (tensor<8xbf16>, tensor<8xf32>)
  return
}
