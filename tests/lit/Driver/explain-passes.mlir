// What each phase's options change, phase by phase; the rows add up to the step.
// RUN: ztc compile %inputs/llama2.mlir --from=import --target=x86-64-v3 --threads=1 --gpus=2 --zero=2 --recompute=layer --precision=fp32 --explain-passes -o %t.bin | FileCheck %s
// RUN: ztc compile %inputs/llama2.mlir --from=import --target=x86-64-v3 --threads=1 --explain-passes -o %t.bin | FileCheck %s --check-prefix=DEFAULT

// CHECK:      what changes a step, per rank with 2 ranks, 1 micro-step a step and 1 thread
// CHECK-NEXT: peak      moved       sent     FLOPs  launches       time
// CHECK-NEXT: before phase backward [[#]].[[#]] KiB
// CHECK-NEXT: phase backward                 .          .          .         .         .          .
// CHECK-NEXT: phase precision        {{[+][0-9]}}
// CHECK-NEXT: phase shard            {{-[0-9]}}
// CHECK-NEXT: phase recompute        {{.*[+].*[+].*[+].*[+]}}
// CHECK-NEXT: phase fuse                     .          .          .         .         .          .
// CHECK-NEXT: phase schedule                 .          .          .         .         .          .
// CHECK-NEXT: phase assign                   .          .          .         .         .          .
// CHECK-NEXT: the step {{.*}} KiB
// CHECK-NEXT: ZeRO-2

// By default nothing differs from the default.
// DEFAULT:     phase precision                .          .          .         .         .          .
// DEFAULT-NOT: {{^phase .*[+-][0-9]}}
// DEFAULT:     the step
