// RUN: ztc-opt %s --ztc-expand-math --ztc-verify-kernels=level=expanded | FileCheck %s

// What the step itself does with math is not looked at.
// CHECK-LABEL: func.func @outside
// CHECK-NEXT:    math.exp
func.func @outside(%x: f32) -> f32 {
  %y = math.exp %x : f32
  return %y : f32
}
module @kernels {
  module @host {
    // CHECK-LABEL: func.func @vector
    // CHECK-NOT:     math.exp
    // CHECK-COUNT-9: math.fma {{.*}} : vector<16xf32>
    // CHECK:         %[[Y:.*]] = arith.select {{.*}} : vector<16xi1>, vector<16xf32>
    // CHECK-NEXT:    return %[[Y]]
    func.func @vector(%x: vector<16xf32>) -> vector<16xf32> {
      %y = math.exp %x : vector<16xf32>
      return %y : vector<16xf32>
    }
    // Nothing is folded: of a constant the polynomial is computed, not what the libm of this machine says.
    // CHECK-LABEL: func.func @constant
    // CHECK-COUNT-9: math.fma
    func.func @constant() -> f32 {
      %x = arith.constant 1.0 : f32
      %y = math.exp %x : f32
      return %y : f32
    }
    // CHECK-LABEL: func.func @functions
    // CHECK-NOT:     math.{{log|tanh|erf|sin|cos|atan|expm1|log1p|powf|rsqrt}}
    // CHECK-NOT:     arith.remf
    // CHECK:         math.sqrt
    // CHECK:         return
    func.func @functions(%x: f32) -> f32 {
      %0 = math.log %x : f32
      %1 = math.tanh %0 : f32
      %2 = math.erf %1 : f32
      %3 = math.sin %2 : f32
      %4 = math.cos %3 : f32
      %5 = math.atan %4 : f32
      %6 = math.expm1 %5 : f32
      %7 = math.log1p %6 : f32
      %8 = math.powf %7, %x : f32
      %9 = math.rsqrt %8 : f32
      %10 = arith.remf %9, %x : f32
      return %10 : f32
    }
    // A power by a constant of 64 bits goes with the conversions around it: a small whole one is a product.
    // CHECK-LABEL: func.func @power
    // CHECK-SAME:    %[[X:.*]]: f32
    // CHECK-NOT:     extf
    // CHECK:         %[[SQUARE:.*]] = arith.mulf %[[X]], %[[X]] : f32
    // CHECK:         %[[CUBE:.*]] = arith.mulf %[[X]], %[[SQUARE]] : f32
    // CHECK-NOT:     math.powf
    // CHECK:         return %[[CUBE]]
    func.func @power(%x: f32) -> f32 {
      %three = arith.constant 3.0 : f64
      %wide = arith.extf %x : f32 to f64
      %p = math.powf %wide, %three : f64
      %y = arith.truncf %p : f64 to f32
      return %y : f32
    }
    // Lanes share the exponent; one half is a root.
    // CHECK-LABEL: func.func @lanes
    // CHECK:         %[[ROOT:.*]] = math.sqrt {{.*}} : vector<16xf32>
    // CHECK-NEXT:    return %[[ROOT]]
    func.func @lanes(%x: vector<16xf32>) -> vector<16xf32> {
      %half = arith.constant dense<0.5> : vector<16xf64>
      %wide = arith.extf %x : vector<16xf32> to vector<16xf64>
      %p = math.powf %wide, %half : vector<16xf64>
      %y = arith.truncf %p : vector<16xf64> to vector<16xf32>
      return %y : vector<16xf32>
    }
    // What is rounded correctly stays.
    // CHECK-LABEL: func.func @exact
    // CHECK-NEXT:    math.sqrt
    // CHECK-NEXT:    math.floor
    // CHECK-NEXT:    math.absf
    func.func @exact(%x: f64) -> f64 {
      %0 = math.sqrt %x : f64
      %1 = math.floor %0 : f64
      %2 = math.absf %1 : f64
      return %2 : f64
    }
  }
}
