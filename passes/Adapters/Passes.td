// Before phase `backward`: low-rank adapters beside the weights of a model that is not trained itself.
#ifndef ZTC_PASSES_ADAPTERS
#define ZTC_PASSES_ADAPTERS
include "mlir/Pass/PassBase.td"

def InsertAdapters : Pass<"ztc-insert-adapters", "mlir::ModuleOp"> {
  let summary = "Puts low-rank adapters beside the weights that `graph.adapters` of the module names, and freezes all else.";
  let description = [{
    Afterwards every parameter that `@forward` had is `graph.frozen`, and each entry of `graph.adapters` has its trained parameters after
    them, under PEFT's names. The attribute is gone. `linear`: next to each product with the weight stands one with A (rank, inputs), then
    one with B (outputs, rank), also where the graph joins the weight with others or takes a part of it:
    ```
    %y = graph.matmul %x, %w {transpose_b}      =>      %h = graph.matmul %x, %a {transpose_b}
                                                        %d = graph.matmul %s, %b {transpose_b}     // %s = scale * %h
                                                        %z = graph.add %y, %d
    ```
    Where a weight is used in any other way its uses read the sum of the weight and scale * B A. `embedding`: lookups of the table are
    followed by lookups in the transposed A (rank, rows) and a product with B (width, rank). `copy`: a parameter of its own, trained whole,
    takes the place of the weight. `train`: the parameter itself is trained. `rows`: lookups of the rows of a table that `rows` lists find those of a trained parameter
    (as many rows, width) instead; where the table is the head too, its product reads the table with these rows in their places.
    `expert`: as `linear`, with one expert's rows of A and B of a whole stack, (experts * rank, inputs) and (outputs, rank * experts), as PEFT has them.
    `stack`: the same of a stack of experts that is one parameter, (experts, ., .), whose slices are factors of products. With `swapped` A has a column for each output and B
    a row for each input, as PEFT has them where it takes the one for the other.
    With `dora` (Liu et al. 2024) an adapter has magnitudes, a number for each output: the sum is multiplied by them over the norms of the rows of W + scale * B A, which
    are `graph.detached`, a constant to the gradient. These norms are made of W A^T, A A^T and the squares of W: there is no second matrix of the weight's size.
    ```
    %y = graph.matmul %x, %w {transpose_b}      =>      %z = graph.add %y, %d
                                                        %v = graph.mul %z, %c                      // %c = magnitude / norm, in each row
    ```
    Where x is dropped out, x' of it multiplies W too, as in PEFT: y + (c - 1) (x' W^T) + c scale (x' A^T) B^T.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}
#endif
