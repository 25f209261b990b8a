// What holds of kernels at each level, broken once.
// RUN: ztc-opt %s --ztc-verify-kernels=level=expanded -verify-diagnostics -split-input-file -o /dev/null
// RUN: not ztc-opt %s --ztc-verify-kernels=level=lowered -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=LOWERED
// RUN: not ztc-opt %s --ztc-verify-kernels=level=done -split-input-file -o /dev/null 2>&1 | FileCheck %s --check-prefix=LEVEL

// LEVEL: 'done'
// LOWERED: V1: lowered kernels consist of ops of llvm and nvvm
func.func private @step()
module @kernels {
  module @host {
    func.func @v1(%x: tensor<4xf32>) -> tensor<4xf32> {
      // expected-error @+1 {{V1: kernels consist of ops of func, scf, cf, arith, math, vector, llvm and nvvm}}
      %y = graph.neg %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @host {
    func.func @v2(%x: vector<16xf32>) -> f32 {
      // expected-error @+1 {{V2: leaves the order of its additions open; a kernel writes it out}}
      %y = vector.reduction <add>, %x : vector<16xf32> into f32
      return %y : f32
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @gpu {
    func.func @v2(%p: !llvm.ptr<1>, %x: f32) {
      // expected-error @+1 {{V2: leaves the order of its additions open}}
      %y = llvm.atomicrmw fadd %p, %x monotonic : !llvm.ptr<1>, f32
      return
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @host {
    func.func @v2(%n: index, %x: f32) -> f32 {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %start = arith.constant 0.0 : f32
      %sum = scf.parallel (%i) = (%zero) to (%n) step (%one) init (%start) -> f32 {
        // expected-error @+1 {{V2: leaves the order of its additions open}}
        scf.reduce(%x : f32) {
        ^bb0(%a: f32, %b: f32):
          %c = arith.addf %a, %b : f32
          scf.reduce.return %c : f32
        }
      }
      return %sum : f32
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @host {
    func.func @v3(%x: f32) -> f32 {
      // expected-error @+1 {{V3: has fast-math flags: its result would be the compiler's choice}}
      %y = arith.addf %x, %x fastmath<reassoc> : f32
      return %y : f32
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @host {
    llvm.func @v3(%x: f32) -> f32 {
      // expected-error @+1 {{V3: has fast-math flags: its result would be the compiler's choice}}
      %y = llvm.fadd %x, %x {fastmathFlags = #llvm.fastmath<contract>} : f32
      llvm.return %y : f32
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @host {
    llvm.func @v3(%x: f32) -> f32 {
      // expected-error @+1 {{V3: rounds once or twice, depending on the target; a kernel says which}}
      %y = llvm.intr.fmuladd(%x, %x, %x) : (f32, f32, f32) -> f32
      llvm.return %y : f32
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @host {
    func.func @v4(%x: f32) -> f32 {
      // expected-error @+1 {{V4: is a library function; ztc-expand-math turns it into arithmetic}}
      %y = math.exp %x : f32
      return %y : f32
    }
  }
}

// -----

// The step beside the kernels is not looked at.
func.func @step(%x: f32) -> f32 {
  %y = math.exp %x fastmath<fast> : f32
  return %y : f32
}
module @kernels {
  module @host {
    func.func @good(%x: f32) -> f32 {
      %y = math.sqrt %x : f32
      return %y : f32
    }
  }
}
