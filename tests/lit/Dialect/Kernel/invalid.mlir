// RUN: ztc-opt --split-input-file --verify-diagnostics %s

// launch (C1)
// expected-error @+1 {{a block of 2048 threads: between 1 and 1024 are possible}}
func.func @threads() attributes {kernel.launch = #kernel.launch<threads = 2048, units = 1, shared = 0, blocks = 0>} { return }

// -----

// launch (C2)
// expected-error @+1 {{a block takes 0 units of the range: at least 1 is needed}}
func.func @units() attributes {kernel.launch = #kernel.launch<threads = 32, units = 0, shared = 0, blocks = 0>} { return }

// -----

// launch (C3)
// expected-error @+1 {{negative shared memory (-4) or number of blocks (0)}}
func.func @shared() attributes {kernel.launch = #kernel.launch<threads = 32, units = 1, shared = -4, blocks = 0>} { return }

// -----

// kernel.launch (C1)
// expected-error @+1 {{'kernel.launch' belongs on a function and is a #kernel.launch, not 3}}
func.func @number() attributes {kernel.launch = 3 : i64} { return }

// -----

// kernel.launch (C1)
// expected-error @+1 {{'kernel.launch' belongs on a function}}
module attributes {kernel.launch = #kernel.launch<threads = 32, units = 1, shared = 0, blocks = 0>} {}

// -----

// schedule (C1)
// expected-error @+1 {{@k: buffers have three numbers each, these are 4}}
func.func private @f() attributes {launch = #kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1]>}

// -----

// schedule (C1)
// expected-error @+1 {{@k: no buffer is (3, 0, 0)}}
func.func private @f() attributes {launch = #kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [3, 0, 0]>}

// -----

// schedule (C2)
// expected-error @+1 {{@k: operand 1 is written}}
func.func private @f() attributes {launch = #kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 1, 1]>}

// -----

// schedule (C2)
// expected-error @+1 {{@k: result 0 is not written}}
func.func private @f() attributes {launch = #kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [1, 0, 0]>}

// -----

// schedule (C3)
// expected-error @+1 {{@k: grain is 1, extent is 0 and flat_block is 0}}
func.func private @f() attributes {launch = #kernel.schedule<kernel = @k, form = row, extent = 0, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>}

// -----

// schedule (C4)
// expected-error @+1 {{@k: a kernel over a flat range has two scalars, others none; this one has 1}}
func.func private @f() attributes {launch = #kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [7], buffers = [0, 0, 0, 1, 0, 1]>}

// -----

// func (C1)
// expected-error @+1 {{C1: its body ends with values of other types than its results have}}
kernel.func @f(%x: tensor<4xf32>) -> tensor<4xf64> attributes {schedules = [#kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>]} {
  kernel.return %x : tensor<4xf32>
}

// -----

// func (C2)
// expected-error @+1 {{C2: has no launch}}
kernel.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {schedules = []} {
  kernel.return %x : tensor<4xf32>
}

// -----

// func (C3)
// expected-error @+1 {{C3: @k has a buffer for operand 1 of 1}}
kernel.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {schedules = [#kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 1, 0, 1, 0, 1]>]} {
  kernel.return %x : tensor<4xf32>
}

// -----

// func (C4)
// expected-error @+1 {{C4: no launch writes result 0}}
kernel.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {schedules = [#kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0]>]} {
  kernel.return %x : tensor<4xf32>
}

// -----

// func (C5)
// expected-error @+1 {{C5: has 2 classes for 1 results}}
kernel.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {classes = array<i64: 0, 1>, schedules = [#kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>]} {
  kernel.return %x : tensor<4xf32>
}

// -----

// object (C1)
// expected-error @+1 {{machine code is bytes, not 'tensor<4xi32>'}}
func.func private @f() attributes {object = #kernel.object<kind = host, data = dense_resource<x> : tensor<4xi32>, launches = []>}

// -----

// object (C2)
// expected-error @+1 {{kernels for processors have no launches, these are 1}}
func.func private @f() attributes {object = #kernel.object<kind = host, data = dense_resource<x> : tensor<4xi8>, launches = [#kernel.launch<threads = 32, units = 1, shared = 0, blocks = 0>]>}

// -----

// func (C6)
// expected-error @+1 {{C6: has two objects of kind host}}
kernel.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {schedules = [#kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>], objects = [#kernel.object<kind = host, data = dense_resource<x> : tensor<4xi8>, launches = []>, #kernel.object<kind = host, data = dense_resource<y> : tensor<4xi8>, launches = []>]} {
  kernel.return %x : tensor<4xf32>
}

// -----

// func (C6)
// expected-error @+1 {{C6: PTX for 1 schedules has 0 launches}}
kernel.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {schedules = [#kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>], objects = [#kernel.object<kind = ptx, data = dense_resource<x> : tensor<4xi8>, launches = []>]} {
  kernel.return %x : tensor<4xf32>
}

// -----

// object (C3)
// expected-error @+1 {{C3: machine code of kind cubin with architecture none}}
func.func private @f() attributes {object = #kernel.object<kind = cubin, data = dense_resource<x> : tensor<4xi8>, launches = []>}

// -----

// object (C3)
// expected-error @+1 {{C3: machine code of kind ptx with architecture sm_80}}
func.func private @f() attributes {object = #kernel.object<kind = ptx, data = dense_resource<x> : tensor<4xi8>, launches = [], architecture = "sm_80">}

// -----

// func (C6)
// expected-error @+1 {{C6: has two objects of kind cubin for sm_80}}
kernel.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {schedules = [#kernel.schedule<kernel = @k, form = row, extent = 4, grain = 1, flat_block = 0, has_add = 0, scalars = [], buffers = [0, 0, 0, 1, 0, 1]>], objects = [#kernel.object<kind = cubin, data = dense_resource<x> : tensor<4xi8>, launches = [#kernel.launch<threads = 32, units = 1, shared = 0, blocks = 0>], architecture = "sm_90a">, #kernel.object<kind = cubin, data = dense_resource<y> : tensor<4xi8>, launches = [#kernel.launch<threads = 32, units = 1, shared = 0, blocks = 0>], architecture = "sm_80">, #kernel.object<kind = cubin, data = dense_resource<z> : tensor<4xi8>, launches = [#kernel.launch<threads = 32, units = 1, shared = 0, blocks = 0>], architecture = "sm_80">]} {
  kernel.return %x : tensor<4xf32>
}
