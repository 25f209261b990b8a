// RUN: ztc-opt %inputs/llama2.mlir --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate --ztc-build-update \
// RUN:   --canonicalize --cse --ztc-form-buckets --ztc-mark-recomputed=level=cheap --remarks-filter=ztc-mark-recomputed 2>&1 | FileCheck %s --check-prefix=CHEAP
// RUN: ztc-opt %inputs/llama2.mlir --ztc-mark-decay --ztc-attach-loss --ztc-build-generate --ztc-drop-forward --ztc-differentiate --ztc-build-update \
// RUN:   --canonicalize --cse --ztc-form-buckets --ztc-mark-recomputed=level=layer --remarks-filter=ztc-mark-recomputed 2>&1 | FileCheck %s --check-prefix=LAYER

// Norms and activations need nothing that is not kept anyhow. Rope would need the products before it, which nobody keeps; so would the sums of the
// residual stream. The final norm is read by the loss only.
// CHEAP:         cheap: 6 values of 7168 bytes are computed again instead of being kept, by 6 ops
// CHEAP-LABEL: func.func @microstep
// CHEAP-COUNT-2: graph.rms_norm {{.*}} {graph.recomputed}
// CHEAP-NEXT:    graph.matmul
// CHEAP-NEXT:    graph.matmul
// CHEAP-NEXT:    graph.swiglu {{.*}} {graph.recomputed}
// CHEAP-COUNT-2: graph.rms_norm {{.*}} {graph.recomputed}
// CHEAP:         graph.swiglu {{.*}} {graph.recomputed}
// CHEAP-NOT:     graph.recomputed

// All of the first block but what the second one reads, and its down-projection, which nobody needs again; of the last block the cheap part.
// LAYER:         layer: 14 values of 14464 bytes are computed again instead of being kept, by 16 ops
// LAYER-LABEL: func.func @microstep
// LAYER:         graph.embedding
// LAYER-NOT:     graph.recomputed
// LAYER:         graph.rms_norm {{.*}} {graph.recomputed}
// LAYER:         graph.matmul {{.*}} {graph.recomputed, transpose_b}
// LAYER:         graph.rope {{.*}} {graph.recomputed}
// LAYER:         graph.attention {{.*}} {causal, graph.recomputed}
// LAYER:         graph.matmul {{.*}} {graph.recomputed, transpose_b}
// LAYER-NEXT:    graph.add {{.*}} {graph.recomputed}
// LAYER-NEXT:    graph.rms_norm {{.*}} {graph.recomputed}
// LAYER:         graph.swiglu {{.*}} {graph.recomputed}
// LAYER-NEXT:    graph.matmul %{{.*}} {transpose_b}
// LAYER-NEXT:    graph.add %{{[^{]*}} : tensor<16x16xf32>
// LAYER-NEXT:    graph.rms_norm {{.*}} {graph.recomputed}
// LAYER-NEXT:    graph.matmul %{{.*}} {transpose_b}
// LAYER-NOT:     graph.recomputed
// LAYER:         graph.rms_norm {{.*}} {graph.recomputed}
// LAYER:         graph.swiglu {{.*}} {graph.recomputed}
// LAYER-NOT:     graph.recomputed
