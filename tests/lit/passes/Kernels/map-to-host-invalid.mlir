// RUN: ztc-opt %s --ztc-map-to-host -verify-diagnostics -split-input-file -o /dev/null
// RUN: ztc-opt %s --ztc-map-to-gpu -verify-diagnostics -split-input-file -o /dev/null

// Phase assign has placed the buffers of a kernel over rows; the body has become a sum of columns.
func.func private @step()
module @kernels {
  module @forms {
    // expected-error @+1 {{'kernel.func' op its body takes 2 kernels, its schedules are 1}}
    kernel.func @sum(%x: tensor<8x64xf32>) -> tensor<1x64xf32> attributes {schedules = [#kernel.schedule<kernel = @sum, form = row, extent = 1, grain = 32, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>]} {
      %s = graph.reduce_sum %x, [0] : tensor<8x64xf32> -> tensor<1x64xf32>
      kernel.return %s : tensor<1x64xf32>
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @forms {
    // expected-error @+1 {{'kernel.func' op its body takes #kernel.schedule<kernel = @exp, form = row, extent = 8, grain = 32, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>, phase assign has planned #kernel.schedule<kernel = @exp, form = row, extent = 9,}}
    kernel.func @exp(%x: tensor<8x64xf32>) -> tensor<8x64xf32> attributes {schedules = [#kernel.schedule<kernel = @exp, form = row, extent = 9, grain = 32, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>]} {
      %y = graph.exp %x : tensor<8x64xf32>
      kernel.return %y : tensor<8x64xf32>
    }
  }
}

// -----

func.func private @step()
module @kernels {
  module @forms {
    // expected-error @+1 {{'kernel.func' op its body takes another workspace than phase assign has planned}}
    kernel.func @sum(%x: tensor<8x64xf32>) -> tensor<1x64xf32> attributes {schedules = [#kernel.schedule<kernel = @sum, form = column_reduce, extent = 1, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 2, 0, 1]>, #kernel.schedule<kernel = @sum_fold, form = fold, extent = 1, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [1, 0, 1, 2, 0, 0]>], workspace_bytes = 128 : i64} {
      %s = graph.reduce_sum %x, [0] : tensor<8x64xf32> -> tensor<1x64xf32>
      kernel.return %s : tensor<1x64xf32>
    }
  }
}
