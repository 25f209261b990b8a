// Rewrites that users write as patterns.
#ifndef ZTC_PASSES_PATTERNS
#define ZTC_PASSES_PATTERNS
include "mlir/Pass/PassBase.td"

def ApplyPatterns : Pass<"ztc-apply-patterns", "mlir::ModuleOp"> {
  let summary = "Rewrites the step by the patterns of a file, until none applies.";
  let description = [{
    Afterwards no pattern of `file` applies to any function of the module. The file is PDLL (`.pdll`, compiled by LLVM's `mlir-pdll`) or a
    module of the PDL dialect (any other name). Nothing is folded on the way: only the patterns change the step, and what nobody reads any
    more goes.

        Pattern ReciprocalRoot {
          let root = op<graph.sqrt>(x: Value) -> (type: Type);
          let inverse = op<graph.reciprocal>(root) -> (type);
          replace inverse with op<graph.rsqrt>(x) -> (type);
        }

        %r = graph.sqrt %x : tensor<8xf32>
        %y = graph.reciprocal %r : tensor<8xf32>

    becomes

        %y = graph.rsqrt %x : tensor<8xf32>

    A pattern may ask what `passes/Patterns/Native.pdll` declares: HasOneUse, IsSplat, SplatLike.
    `ztc compile --patterns=FILE` puts this pass where `after=PHASE`, `before=PHASE` or `after=loss` says, by default after `import`.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect", "::mlir::pdl::PDLDialect", "::mlir::pdl_interp::PDLInterpDialect"];
  let options = [Option<"file", "file", "std::string", "", "patterns, as PDLL (.pdll) or in the PDL dialect">];
}
#endif
