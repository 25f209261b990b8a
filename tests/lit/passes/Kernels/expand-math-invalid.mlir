// RUN: ztc-opt %s --ztc-expand-math -verify-diagnostics -split-input-file -o /dev/null
// RUN: not ztc-opt %s --ztc-lower-kernels -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOWER

// LOWER: 'math.exp' op is a library function, which kernels cannot call: ztc-expand-math turns it into arithmetic before this pass
func.func private @step()
module @kernels {
  module @host {
    func.func @wide(%x: f64) -> f64 {
      // expected-error @+1 {{'math.exp' op has no expansion for 'f64': kernels compute such functions in f32}}
      %y = math.exp %x : f64
      return %y : f64
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @host {
    func.func @unknown(%x: vector<16xf32>) -> vector<16xf32> {
      // expected-error @+1 {{'math.cbrt' op has no expansion for 'vector<16xf32>'}}
      %y = math.cbrt %x : vector<16xf32>
      return %y : vector<16xf32>
    }
  }
}

// -----

// The power by a constant of 64 bits is rounded to f32: as it is it would need more than kernels have.
func.func private @step()
module @kernels {
  module @host {
    func.func @power(%x: f32) -> f64 {
      %half = arith.constant 0.3 : f64
      %wide = arith.extf %x : f32 to f64
      // expected-error @+1 {{'math.powf' op has no expansion for 'f64'}}
      %p = math.powf %wide, %half : f64
      return %p : f64
    }
  }
}
