// Phase `backward`: from @forward to @microstep, @update, @eval and @generate.
#ifndef ZTC_PASSES_AUTODIFF
#define ZTC_PASSES_AUTODIFF
include "mlir/Pass/PassBase.td"

def FreezeParameters : Pass<"ztc-freeze-parameters", "mlir::ModuleOp"> {
  let summary = "Marks the parameters whose name matches a pattern as frozen.";
  let description = [{
    Afterwards exactly the parameters of `@forward` whose checkpoint name, or one of whose tied names, matches `pattern` carry
    `graph.frozen`, beside those that carried it before. A pattern without a match is an error.
  }];
  let options = [Option<"pattern", "pattern", "std::string", "\"\"", "regular expression (POSIX extended); empty: none">];
}

def MarkDecay : Pass<"ztc-mark-decay", "mlir::ModuleOp"> {
  let summary = "Marks the parameters that weight decay leaves alone.";
  let description = [{
    Afterwards a parameter of `@forward` carries `graph.no_decay` if it has fewer than two dimensions, or if its name or one of its
    tied names matches `pattern`. A pattern without a match is an error.
  }];
  let options = [Option<"pattern", "pattern", "std::string", "\"\"", "regular expression (POSIX extended); empty: none">];
}

def MarkRates : Pass<"ztc-mark-rates", "mlir::ModuleOp"> {
  let summary = "Gives parameters learning rates of their own: the run's rate times a factor.";
  let description = [{
    Afterwards a parameter of `@forward` that is trained, and whose name or one of whose tied names matches a pattern of `rates`, carries `graph.rate`, the pattern's
    factor. LoRA+ (Hayou et al. 2024) is one such choice, `lora_B=16`. Phase `shard` lays parameters of one factor side by side in their bucket, so that the update
    compares an element's index in the whole bucket with few numbers, as for weight decay. A pattern that matches nothing, or nothing that is trained, and a second
    one for the same parameter are errors.
  }];
  let options = [ListOption<"rates", "rates", "std::string", "REGEX=FACTOR: a POSIX extended regular expression over names, and a positive number">];
}

def MarkMatrices : Pass<"ztc-mark-matrices", "mlir::ModuleOp"> {
  let summary = "Chooses the parameters that Muon updates: the matrices of transformer blocks.";
  let description = [{
    Afterwards a parameter of `@forward` that is trained, belongs to a transformer block, has two dimensions, or three as a stack of experts' matrices, and
    is neither a table of embeddings nor a stack of biases, carries `graph.change_factor`: what its change is multiplied by beside the learning rate, for a matrix of A rows and B columns
    (outputs and inputs of a layer; of each expert) 0.2 sqrt(max(A, B)) (`match_rms_adamw`, Liu et al. 2025: changes as large as AdamW's, so that one rate fits both), or
    sqrt(max(1, A / B)) (`original`, Jordan et al. 2024). All others are updated by AdamW. A model without such a parameter is an error.
  }];
  let options = [Option<"adjust", "adjust", "std::string", "\"match_rms_adamw\"", "match_rms_adamw or original">];
}

def FoldEmptyTensors : Pass<"ztc-fold-empty-tensors", "mlir::ModuleOp"> {
  let summary = "Takes tensors without elements out of a model: shapes that exporters leave behind, not errors.";
  let description = [{
    Afterwards only constants and parameters have no elements, and nothing that has any reads them: a part without elements is dropped from
    a concat; a sum, a product or a padding of nothing is zero, a maximum of nothing the lowest number.
    ```
    %y = graph.concat %past, %k axis 1 : tensor<1x0x4xf32>, tensor<1x8x4xf32> -> tensor<1x8x4xf32>      =>    %k
    ```
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def NarrowIndices : Pass<"ztc-narrow-indices", "mlir::ModuleOp"> {
  let summary = "Lookups take i32 indices, as the devices have them.";
  let description = [{
    Afterwards the indices of each `graph.embedding` and `graph.embedding_grad` are i32: those of another type are cast.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def AttachLoss : Pass<"ztc-attach-loss", "mlir::ModuleOp"> {
  let summary = "Builds @eval: the forward function and the summed cross-entropy of its logits.";
  let description = [{
    Afterwards `@eval` takes tokens, targets and the parameters, and returns the loss, of several sequences one each. Where the logits are a product of hidden rows
    with a (V, D) head, scaled and soft-capped or not, its root is `graph.linear_cross_entropy` and no logits exist:
    ```
    %y = graph.matmul %hidden, %head {transpose_b}      =>    %loss = graph.linear_cross_entropy %hidden, %head, %targets
    return %y
    ```
    else it is `graph.cross_entropy` of the (T, V) logits. With `weights`, or where the imported graph has such an input (`graph.loss_weights`), `@eval` takes
    an argument `loss_weights` (B, S) of f32 after the targets: each target's loss is multiplied by its weight.
  }];
  let options = [Option<"weights", "weights", "bool", "false", "take a weight for each target's loss">];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def BuildGenerate : Pass<"ztc-build-generate", "mlir::ModuleOp"> {
  let summary = "Builds @generate: the logits of one position of each sequence.";
  let description = [{
    Afterwards `@generate` takes tokens (B, S), a position of each sequence (B) and the parameters, and returns (B, V) logits. The hidden rows
    are gathered before the head, so that only these rows of logits are computed. At a position of -1 the logits mean nothing.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def DeriveDecode : Pass<"ztc-derive-decode", "mlir::ModuleOp"> {
  let summary = "Builds @decode from @generate: the logits of one more token, with the keys and values of those before it kept.";
  let description = [{
    Afterwards `@decode` takes a token (1, 1), its position, the parameters and a cache (Hkv, S, D) for the keys and one for the values of
    each attention; it returns (1, V) logits and the caches with the row of this position in them. `@generate` returns the caches too, for
    all positions of the first sequence: it begins a text, `@decode` goes on with it. Of several sequences `@decode_rows` goes on with all: it
    takes B tokens, positions and caches (B, Hkv, S, D); a sequence whose position is -1 keeps its caches. `@generate` then takes and
    returns the caches of all, and keeps those of a sequence whose position is -1.
    ```
    %out = graph.attention %q, %k, %v, 0.25 {causal}    =>    %keys = graph.select %here, %k, %cached_keys
                                                              %scores = graph.matmul %q, %keys {transpose_b}
    ```
    Of linear attention the state (H, K, V) is kept, in f32 in every precision, of a causal convolution the last rows that it reads, (k, C), each at its position modulo
    their number. `@generate` gives them as they are after the position of each text: it adds nothing to a state after that. `@decode` may only go on with the token
    that follows: a step replaces the state.
    Every op between tokens and logits must leave positions apart, except causal attention and these two; what tokens have no part in is taken at the
    position. Where one does not there is no `@decode`, and the module has `graph.no_cache`, the reason.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def PackDocuments : Pass<"ztc-pack-documents", "mlir::ModuleOp"> {
  let summary = "Lets a row of @eval hold several documents: attention stays within each, and positions count from its first token.";
  let description = [{
    Afterwards `@eval` takes `document_starts` (B, S) after the targets: the position in its row at which the document of each token starts.
    Attention has it as an operand, and what tokens have no part in (tables of angles, learned positions) is looked up at the position in
    the document instead of that in the row:
    ```
    %y = graph.rope %x, %cos, %sin                      =>    %position = graph.sub %row, %document_starts
    %out = graph.attention %q, %k, %v, 0.25 {causal}          %angles = graph.embedding %cos, %position
                                                              %out = graph.attention %q, %k, %v, 0.25 within %document_starts {causal}
    ```
    Linear attention and causal convolutions have it as an operand too: a state is zeros where a document starts, and so is what a convolution finds before it.
    `@generate` and what is made of it stay as they are. Every op between tokens and logits must leave positions apart, except causal
    attention and these; where one does not that is an error, which names it.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def Differentiate : Pass<"ztc-differentiate", "mlir::ModuleOp"> {
  let summary = "Builds @microstep from @eval: the loss and a gradient per trainable parameter.";
  let description = [{
    Afterwards `@microstep` takes tokens, targets, step and the parameters; it returns the loss, of all sequences, and, in the order of the parameters,
    the gradient of InverseCount * loss for each one that is not frozen. Ops stand in reverse order of the forward part, so that what
    the forward part saved dies early; contributions to one cotangent are added in that order.
    Every op on the way that has no derivative is reported, all at once.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def ExpandDropout : Pass<"ztc-expand-dropout", "mlir::ModuleOp"> {
  let summary = "In @microstep dropout becomes a mask that is drawn where it is needed; everywhere else it is gone.";
  let description = [{
    Afterwards no function has `graph.dropout`. In @microstep each is a product with a mask of zeros and 1 / (1 - p), which depends on
    the run's seed, the step, the module's name, the token's place in the global batch and the column: on nothing that changes with the
    number of ranks or micro-steps, or with what is recomputed. A cotangent gets its module's mask, drawn again instead of kept. How
    many tokens of the global batch stand before those of a micro-step is a new argument, with the role `first_token`.
    ```
    %y = graph.dropout %x {module = "q_proj", probability = 0.1}
    ```
    becomes
    ```
    %bits = graph.random_bits %row, %column, %first, %seed, %step columns 64 stream 1277
    %kept = graph.compare ge, %bits, %least
    %y = graph.select %kept, %scaled, %zero
    ```
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def RouteExperts : Pass<"ztc-route-experts", "mlir::ModuleOp"> {
  let summary = "Experts of a mixture compute the tokens that chose them, where they computed all.";
  let description = [{
    An importer writes a mixture as the sum of what every expert says of every token, times its share, which is 0 where it was not chosen. Where that is known of a
    share, all experts' terms are the same computation with other weights, and a term is 0 where its share is, the sum becomes that of the chosen experts' rows: K of E
    products for each token, of as many rows as before any choice is known (T K).
    ```
    %w0 = graph.slice %shares, [0, 0]                             %order, %places, %starts = graph.route %choices
    %h0 = graph.matmul %x, %a0 {transpose_b}                      %rows = graph.dispatch %x by %order, %places
    %y0 = graph.mul %h0, %w0      // and so for expert 1, ...  => %h = graph.grouped_matmul %rows, %a rows %starts {transpose_b}
    %y = graph.add %y0, %y1                                       %z = graph.mul %h, %w
                                                                  %y = graph.combine %z by %order, %places
    ```
    `%a` is the stack of the experts' matrices: a parameter, or their concatenation. Shares multiply what the last product reads.

    Shares are numbers that are placed or added among zeros at the places of a top-k, comparisons of these with an expert's number (one-hot vectors too), a softmax
    over minus infinity elsewhere, and what is made of such element by element, sliced, or summed over choices; who else reads them does not matter. Experts that
    compute as one tensor (E, T, F) are written out one by one first. A mixture that does not have this form stays as it is, a remark says what of it was not
    understood, and one warning of the first of them: shares of all that are as large as the K-th largest, which may be more than K; experts with dropout of their own;
    an activation that is not 0 where its operand is; results of all experts among which those of the chosen ones are looked up.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def GroupGatheredProducts : Pass<"ztc-group-gathered-products", "mlir::ModuleOp"> {
  let summary = "Rows that look up a matrix each, as exports of mixtures have them, are multiplied group by group.";
  let description = [{
    torch.onnx writes a mixture by the experts of each choice: R matrices, one for each row, are looked up in a stack and multiplied with these rows. Afterwards rows that look up
    the same matrix stand together, and no matrix is copied:
    ```
    %m = graph.embedding %stack, %choice                       %order, %places, %starts = graph.route %choice
    %w = graph.reshape %m : ... -> tensor<32x20x40xf32>    =>  %rows = graph.dispatch %x by %order, %places
    %y = graph.matmul %w, %x : ... -> tensor<32x20x1xf32>      %z = graph.grouped_matmul %rows, %matrices rows %starts {transpose_b}
                                                               %y = graph.combine %z by %order, %places
    ```
    What is made of one such product row by row and goes into another of the same choices stays in this order.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def WriteOutRecurrences : Pass<"ztc-write-out-recurrences", "mlir::ModuleOp"> {
  let summary = "Linear attention and causal convolutions become the products and sums that they are.";
  let description = [{
    Afterwards no function has `graph.linear_attention` or `graph.causal_convolution`: each is written out, in chunks of positions, in ops of which kernels
    are made, or as `graph.selective_scan` where its heads are channels. ztc-differentiate writes out those of @microstep in the same way, since their derivative is that of what stands there then. It is after what asks
    for the ops themselves (caches, documents), and before a precision is chosen: what linear attention computes stays f32.
    ```
    %y = graph.causal_convolution %x, %w : tensor<1x8x16xf32>, tensor<16x2xf32>
    ```
    becomes
    ```
    %taps = graph.transpose %w, [1, 0] : tensor<16x2xf32> -> tensor<2x16xf32>
    %y = graph.causal_filter %x by %taps : tensor<2x16xf32> : tensor<1x8x16xf32>
    ```
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def BuildUpdate : Pass<"ztc-build-update", "mlir::ModuleOp"> {
  let summary = "Builds @update: clipping and the optimizer.";
  let description = [{
    Afterwards `@update` takes step, and the parameter, gradient and optimizer states of each trainable parameter; it returns parameters and
    states, the gradient norm before clipping, and whether that is finite. Where it is not, nothing changes. `optimizer` is one that is
    registered (compiler/Dialect/Graph/Optimizers.h); where it is not adamw it stands as `graph.optimizer` in the module.
    With `in-backward` each parameter, later each bucket, is clipped by its own norm and tested by itself, and the module has
    `graph.update_in_backward`: what ztc-update-in-backward needs.
  }];
  let options = [Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "name of a registered optimizer">,
                 Option<"inBackward", "in-backward", "bool", "false", "each bucket is updated as soon as its gradient is complete">];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def DropForward : Pass<"ztc-drop-forward", "mlir::ModuleOp"> {
  let summary = "Removes @forward, of which @eval, @generate and @microstep were made.";
}
#endif
