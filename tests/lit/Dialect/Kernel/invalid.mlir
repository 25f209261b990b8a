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
