// RUN: ztc-opt %s | ztc-opt | FileCheck %s

// CHECK: dist.bucket @block0 {decayed = 48 : i64, elements = 52 : i64
dist.bucket @block0 {decayed = 48 : i64, elements = 52 : i64, trainable,
  parameters = [{name = "a.weight", offset = 0 : i64, shape = array<i64: 8, 6>}, {name = "n.weight", offset = 48 : i64, shape = array<i64: 4>, tied = ["m.weight"]}]}

// CHECK-LABEL: func.func @views
func.func @views(%bucket: tensor<52xf32>) -> (tensor<52xf32>, tensor<4xf32>) {
  // CHECK: dist.view %{{.*}}[0] : tensor<52xf32> -> tensor<8x6xf32>
  %a = dist.view %bucket[0] : tensor<52xf32> -> tensor<8x6xf32>
  // CHECK: dist.view %{{.*}}[48] : tensor<52xf32> -> tensor<4xf32>
  %n = dist.view %bucket[48] : tensor<52xf32> -> tensor<4xf32>
  // CHECK: dist.pack %{{.*}}, %{{.*}} at [0, 48] : tensor<8x6xf32>, tensor<4xf32> -> tensor<52xf32>
  %b = dist.pack %a, %n at [0, 48] : tensor<8x6xf32>, tensor<4xf32> -> tensor<52xf32>
  // CHECK: dist.copy %{{.*}} : tensor<4xf32>
  %c = dist.copy %n : tensor<4xf32>
  return %b, %c : tensor<52xf32>, tensor<4xf32>
}
