// What holds of kernels where they are forms, broken once.
// RUN: ztc-opt %s --ztc-verify-kernels=level=forms -verify-diagnostics -split-input-file -o /dev/null

func.func private @step()
module @kernels {
  module @forms {
    // expected-error @+1 {{V5: @forms consists of functions kernel.func}}
    func.func private @v5()
  }
}

// -----

func.func private @step()
module @kernels {
  module @forms {
    kernel.func @v5(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {schedules = [#kernel.schedule<kernel = @k, form = row, extent = 9, grain = 32, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>]} {
      // expected-error @+1 {{V5: a kernel.func consists of ops of graph}}
      %y = math.exp %x : tensor<8x64xf32>
      kernel.return %y : tensor<8x64xf32>
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @forms {
    // expected-error @+1 {{its body takes #kernel.schedule<kernel = @k, form = row, extent = 8,}}
    kernel.func @v5(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {schedules = [#kernel.schedule<kernel = @k, form = row, extent = 9, grain = 32, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>]} {
      %y = graph.exp %x : tensor<8x64xf32>
      kernel.return %y : tensor<8x64xf32>
    }
  }
}
