// Each numbered constraint of each op, broken once.
// RUN: ztc-opt %s -verify-diagnostics -split-input-file

// expected-error @+1 {{(C1) a slot of 16 elements of 0 bytes}}
plan.slot @a activations constant 16 x f32 {element_bytes = 0 : i64}

// -----

// expected-error @+1 {{(C2) an accumulator is persistent}}
plan.slot @a gradients full 16 x f32 {accumulator, element_bytes = 4 : i64, persistent}
