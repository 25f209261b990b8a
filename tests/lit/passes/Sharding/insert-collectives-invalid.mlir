// RUN: ztc-opt %s --ztc-insert-collectives -verify-diagnostics

// expected-error @+1 {{has no dist.zero: no stage was chosen}}
module {
}
