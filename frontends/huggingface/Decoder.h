// What a decoder computes, as data: each family fills it from its configuration, one builder makes the graph.
#pragma once
#include "frontends/huggingface/Activation.h"
#include "frontends/huggingface/Rope.h"
#include "frontends/huggingface/TokenMixers.h"
#include "runtime/Format/FreshValues.h"
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ztc::huggingface {

enum class NormKind {
  Rms,         ///< x / rms(x) * w
  RmsPlusOne,  ///< x / rms(x) * (1 + w)
  RmsOfScaled, ///< y / rms(y), where y = x * (1 + w)
  Layer,       ///< (x - mean) / deviation * w + b
  LayerNoBias,
  LayerPlusOne, ///< (x - mean) / deviation * (1 + w) + b
  LayerPlain,   ///< without parameters
  RmsPlain,     ///< without parameters
};

struct Norm {
  NormKind kind = NormKind::Rms;
  double epsilon = 1e-6;
};

/// Norms of queries and keys after their projections.
enum class HeadNorms {
  None,
  PerHead,    ///< over the width of a head, one weight for all heads
  OwnPerHead, ///< over the width of a head, a weight for each head: one matrix (heads, width)
  EachHead,   ///< the same, a tensor for each head: NAME.norms.0.weight
  Whole,      ///< over all heads at once, before they part
};

/// Of Fusion::Shards: TPU cores that CodeGen was first trained on.
constexpr int64_t kShards = 4;

/// How one projection holds queries, keys and values.
enum class Fusion {
  None,   ///< three projections
  Blocks, ///< all queries, all keys, all values
  Groups, ///< for each head of keys: the queries that share it, its key, its value
  Shards, ///< four parts, each with its share of the heads: all queries, all values, all keys of it (CodeGen)
};

/// Multi-head latent attention (arXiv:2405.04434, section 2.1): queries, and keys with values, through a narrow layer;
/// a part of each head turns, and all heads of keys share that part.
struct Latent {
  int64_t queryRank = 0; ///< 0: one projection
  int64_t keyRank = 0, plainWidth = 0, turningWidth = 0, valueWidth = 0;
  double queryScale = 1, keyScale = 1; ///< of queries, and of what keys and values are made of
  /// The queries' second projection gives a sigmoid gate of each head's result too; it reads what is narrow with its
  /// norm, and without it.
  bool queriesHaveGates = false;
  bool normsTurningKey = false; ///< what turns of keys has a norm too
};

/// What the result of attention is multiplied by: a function of what it read, through a projection.
enum class OutputGate {
  None,
  Sigmoid,
  Softplus,
  SoftplusPerHead,  ///< one number for all of a head
  SigmoidPerHead,   ///< likewise
  SigmoidOfQueries, ///< the queries' projection gives it: for each head the query, then its gate
};

/// Experts that give a token its queries and read what these saw; keys and values are all experts' (arXiv:2404.07413,
/// section 2.2). Attention::heads are those of all of a token's experts, Attention::keyHeads of one.
struct AttentionExperts {
  int64_t count = 0, perToken = 0;
};

/// What one use of weights that several layers share adds to the products with them: two narrow matrices of its own.
struct LowRank {
  int64_t rank = 0, use = 0; ///< `use`: the number in its modules' names
};

struct Attention {
  int64_t heads = 0, keyHeads = 0, headWidth = 0;
  int64_t inputWidth = 0; ///< of what queries, keys and values are projections of, where it is not the hidden size
  std::optional<LowRank> lowRank; ///< of queries, keys and values
  int64_t valueWidth = 0;         ///< of a head's values, where it is not `headWidth`
  double valueScale = 1;          ///< of values
  double keyScale = 1;            ///< of keys, before they turn
  double inputScale = 1, resultScale = 1;
  bool valuesAreKeys = false; ///< values are what the keys' projection gives, before its norm and rotation
  bool normsValues = false;   ///< values have a norm per head too, without a weight
  double scale = 0;           ///< of the scores
  bool queryBias = false, outputBias = false; ///< `queryBias` is of queries, keys and values
  Fusion fusion = Fusion::None;
  bool gateIsFused = false; ///< of Fusion::Blocks: the projection gives the sigmoid gate of the result first
  HeadNorms headNorms = HeadNorms::None;
  std::optional<Norm> headNorm; ///< where it is not the decoder's norm
  bool normsAfterRotation = false;
  std::optional<Norm> resultNorm; ///< of what each head sees, before the gate; RmsPlain
  double clip = 0;                ///< above 0: queries, keys and values are clamped to it, after their norms
  std::vector<double> slopes;     ///< ALiBi (arXiv:2108.12409): of each head, times the position of the key
  /// Slopes, and their products with positions, are rounded to bf16 in every precision, and scaled as scores are
  /// (Falcon).
  bool slopesAreRounded = false;
  std::optional<Latent> latent;
  std::optional<AttentionExperts> experts;
  std::optional<double> softCap; ///< cap * tanh(scores / cap)
  /// Queries times s * log(position + 1) + b, where s and b are learned numbers of the head; of latent attention.
  bool learnsQueryScale = false;
  /// Queries of later positions, larger, that softmax over more keys stays as sharp (arXiv:2501.19399): times
  /// 1 + beta * log(1 + floor((position + shift) / from)). A beta of 0: not.
  double queryScaleBeta = 0, queryScaleFrom = 1, queryScaleShift = 0;
  double queryScalePower = 0; ///< above 0: times (1 + (position + 1) / queryScaleFrom)^power instead
  OutputGate outputGate = OutputGate::None;
  /// Above 0: the second half of the heads is subtracted from the first, times a learned number that this is a part of;
  /// both see the values of two heads (arXiv:2410.05258, section 2.1).
  double differenceStart = 0;
  /// exp(A * softplus(linear layer of its values)) is added to the scores of each key (arXiv:2508.02124, section 3.2).
  bool valuesWeighKeys = false;
  bool hasSinks = false; ///< a learned logit per head, which takes a share of the softmax and nothing else
};

struct Experts {
  int64_t count = 0, perToken = 0;
  enum class Router {
    SoftmaxThenTop, ///< shares of all experts; the chosen ones may be normalised again
    TopThenSoftmax, ///< shares among the chosen
    TopThenSigmoid, ///< each chosen one by itself
    SigmoidThenTop, ///< DeepSeek-V3 (arXiv:2412.19437, section 2.1.2): each expert by itself
    SparseMixer,    ///< of two, without its noise (arXiv:2409.12136): each share is among near experts, one after the
                    ///< other
  } router = Router::SoftmaxThenTop;
  bool normalised = false;    ///< the chosen shares sum to one
  double normalisedFrom = 0;  ///< added to their sum
  double normalisedLeast = 0; ///< their sum is taken to be this at least
  bool routerBias = false;
  bool hasChoiceBias = false;      ///< a learned bias takes part in the choice, and in nothing else
  bool choiceBiasMayLack = false;  ///< weights without it stand for one of zeros
  int64_t choiceBiasRows = 0;      ///< above 0: stored (rows, count), not (count); the first row counts
  bool routerIsTransposed = false; ///< its matrix is stored (hidden, count)
  /// Experts in so many groups; the best `chosenGroups` of them take part.
  int64_t groups = 1, chosenGroups = 1;
  bool outsideIsZero = false;     ///< an expert of other groups is chosen by 0, which a learned bias may be below
  int64_t groupSummands = 1;      ///< of a group's largest, which are what it is chosen by
  double routerSoftCap = 0;       ///< above 0: cap * tanh(x / cap) of the router's product
  double scale = 1;               ///< of the shares
  double productScale = 1;        ///< of the router's product
  bool sharesScaleInputs = false; ///< what an expert reads is multiplied by its share, not what it says
  double nearness = 0;            ///< of Router::SparseMixer: how far behind the best an expert may be, relatively
  /// Above 0: experts read a projection to so many dimensions, and another one leads what they say back.
  int64_t narrowWidth = 0;
  bool narrowBias = false;                       ///< of both
  std::optional<Norm> narrowNorm = std::nullopt; ///< of what the first of them gives
  std::optional<Norm> resultNorm =
      std::nullopt;              ///< of what each expert gives, before its share; one weight for all experts
  int64_t sharedWidth = 0;       ///< above 0: an expert that sees every token
  bool sharedHasGate = false;    ///< its result times a sigmoid of the token
  bool sharedIsAveraged = false; ///< half of the sum of its result and the others'
  double gateLimit = 0;          ///< above 0: of what the activation reads, and of the size of what it is multiplied by
  double sharedLimit = 0;        ///< FeedForward::activatedLimit of the expert that sees every token
  bool gateAlternates = false;   ///< with `up` in the columns of one matrix; biases, and FeedForward::clamped (gpt-oss)
  int64_t identities = 0;        ///< more experts, after the others, which give what they read (arXiv:2509.01322)
  /// What 16-bit plans compute in f32 of the choice, as transformers' class of the model type does.
  enum class Precision {
    Narrow,  ///< nothing
    Scores,  ///< what follows the router's product
    Product, ///< that too
    Weight,  ///< and the router's matrix is f32 (_keep_in_fp32_modules_strict)
  } precision = Precision::Scores;
  bool sharesAreRounded = true; ///< to the plan's type, before an expert's result is multiplied by its share
};

/// (up + 1) * gate * sigmoid(alpha * gate), the gate below `limit` and `up` within it (gpt-oss, MiniMax-M3).
struct ClampedGlu {
  double limit = 7, alpha = 1.702;
};

struct FeedForward {
  int64_t width = 0;
  Activation activation = Activation::Silu;
  bool isGated = true;
  bool isFused = false;              ///< one projection for gate and up, in this order
  std::optional<ClampedGlu> clamped; ///< in the place of `activation`
  /// Above 0: of what the activation gives, and of the size of what it is multiplied by.
  double activatedLimit = 0;
  bool bias = false;
  std::optional<LowRank> lowRank;        ///< of gate and up, where they are one projection
  double gateScale = 1, resultScale = 1; ///< of the gate before its activation, and of what the whole gives
  /// Of the gate's products those count that exceed their mean by so many deviations, and what they exceed it by
  /// (Gemma 3n); rounded to the type that the model computes in.
  std::optional<double> cutoff;
  std::optional<Experts> experts;
};

/// Where the norms of a block stand; names are below the layer, empty where there is none.
struct BlockNorms {
  std::string attentionNorm = "input_layernorm"; ///< before attention
  std::string afterAttentionNorm;                ///< of its result
  std::string feedForwardNorm = "post_attention_layernorm";
  std::string afterFeedForwardNorm;
  /// Vectors that what each half's result is added to is multiplied by; empty: none.
  std::string attentionResidual, feedForwardResidual;
};

/// What a half of a block gives, and what it is added to, times numbers of the layer.
struct HalfSum {
  double result = 1, residual = 1;
};

struct Layer {
  Attention attention;
  std::optional<ShortConvolution> convolution; ///< in the place of attention, as are the next five
  std::optional<DeltaNet> deltaNet;
  std::optional<StateSpace> stateSpace;
  std::optional<SelectiveScan> scan;           ///< below the name of the state space model
  std::optional<GatedRecurrence> recurrence;   ///< likewise
  std::optional<LightningAttention> lightning; ///< below the name of attention
  /// Attention and a feed-forward, without sums between them, read what the layer and the embedded tokens are, and a
  /// linear layer leads to what the layer's other half reads beside its own input (Zamba2, arXiv:2411.15242, section
  /// 2): the layer whose name has the weights of the first two.
  std::optional<int64_t> sharedBlock;
  bool attendsToo = false; ///< attention is beside the state space model: both read the same input
  /// What of a block there is, where it is not attention and a feed-forward.
  enum class Halves { Both, First, Second } halves = Halves::Both;
  FeedForward feedForward;
  HalfSum attentionSum, feedForwardSum;
  /// Two attentions, each before a dense feed-forward, and a mixture beside all that follows the first attention
  /// (arXiv:2509.01322, section 2.2.2). The second of each has ".1" after its name, the first ".0".
  std::optional<FeedForward> shortcut;
  std::optional<BlockNorms> norms; ///< where they are not the decoder's
  int64_t window = 0;              ///< keys that a query sees, itself included; 0: all before it
  bool windowIsChunk = false;      ///< rows are cut into chunks of `window` instead, and no query sees another chunk
  bool isSliding = false;          ///< its type is sliding_attention, also where the window is null
  /// Above 0: the norm's result is multiplied by a sigmoid of what two linear layers, of this width between them and
  /// with SiLU there, make of it.
  int64_t attentionNormGate = 0, feedForwardNormGate = 0;
  bool lacksAttentionNorm = false; ///< as the first of a model whose embedded tokens have a norm
  int keysOf = -1;                 ///< an earlier layer, whose keys and values its queries see; -1: its own. Of latent
                                   ///< attention: what that layer has of them before they part into heads
  int rope = 0;                    ///< index into Decoder::ropes; -1: none
};

/// Names of a block's parts, below the layer.
struct BlockNames : BlockNorms {
  std::string afterMixtureNorm; ///< instead of it, where the feed-forward is a mixture
  std::string attention = "self_attn", feedForward = "mlp";
  std::string convolution = "conv", deltaNet = "linear_attn", stateSpace = "mamba"; ///< in the place of attention
  std::string query = "q_proj", key = "k_proj", value = "v_proj", fusedQuery = "qkv_proj", output = "o_proj";
  std::string queryNorm = "q_norm", keyNorm = "k_norm";
  std::string latentDown = "kv_a_proj_with_mqa", latentNorm = "kv_a_layernorm", latentUp = "kv_b_proj";
  std::string queryScale = "ssmax_scaling"; ///< below `attention`: Attention::learnsQueryScale
  std::string outputGate = "gate_proj";     ///< below `attention`
  std::string outputGateBias;               ///< below `attention`: one number a head; empty: none
  std::string outputBias;                   ///< below `attention`, where it is not the output projection's
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj", fusedGate = "gate_up_proj";
  std::string router = "gate", experts = "experts"; ///< below `feedForward`
  std::string sharedExpert = "shared_experts", sharedGate = "shared_expert_gate";
  bool sharedIsBeside = false; ///< the shared expert's name is below the layer
  bool mixtureIsBlock = false; ///< a mixture's modules are below the layer itself
  std::string mixture;         ///< `feedForward`, where it is a mixture; empty: the same
  std::string mixtureBias;     ///< below `feedForward`: added to what a mixture gives
  std::string choiceBias = "gate.e_score_correction_bias";
  /// Experts as one tensor of three dimensions, (count, 2 width, hidden) and (count, hidden, width).
  std::string expertsGateUp = "experts.gate_up_proj", expertsDown = "experts.down_proj";
  bool expertsAreStacked = false;    ///< checkpoints have no other form
  bool expertsAreTransposed = false; ///< theirs is (count, hidden, 2 width) and (count, width, hidden)
  /// The three are tensors of three dimensions each, (count, width, hidden) and (count, hidden, width).
  bool expertsAreThreeStacks = false;
  /// Each of the three below `experts` is one matrix (count * width, hidden), an expert after the other.
  bool expertsAreRows = false;
  std::string expertGate = "gate_proj", expertUp = "up_proj", expertDown = "down_proj";
  /// Where experts have norms of their own, beside the shared expert: what they read, and what they and it give, each
  /// before the sum. The router then reads the block's input, not a norm's result.
  std::string expertsNorm, afterExpertsNorm, afterSharedNorm;
  std::string narrow = "fc1_latent_proj", widen = "fc2_latent_proj"; ///< below `feedForward`: Experts::narrowWidth
  std::string narrowNorm, resultNorm;                                ///< below `feedForward`: Experts have these
  std::string routerScale; ///< a vector: the router reads rms_norm(x) * scale / sqrt(hidden)
  std::string expertScale; ///< a vector (experts): of their shares
  std::string scale;       ///< one number, stored and not trained: of all that a block gives
};

/// A vector for each token and layer, which the layer multiplies by a function of its stream and adds: rows of a table
/// (vocabulary, layers * width), and a projection of embedded tokens (Gemma 3n, Gemma 4). The modules have the same
/// names in all of them.
struct LayerInputs {
  int64_t vocabulary = 0, width = 0;
  double scale = 1; ///< of the table's rows; rounded to the type that the model computes in
};

/// What stands between the last norm and the head: a linear layer, an activation and a norm.
struct HeadTransform {
  std::string dense, norm; ///< not below Decoder::base
  Activation activation = Activation::Gelu;
  bool bias = false;
};

/// Several residual streams, of which a block computes one: it predicts all of them as sums of one another, and
/// corrects them by what the computed one became (alternating updates, arXiv:2301.13310), beside a learned augmented
/// residual (LAuReL, arXiv:2411.07501) (Gemma 3n).
struct AltUp {
  int64_t streams = 4, active = 0;
  bool scalesCorrected = true; ///< a vector, of what the gate of the layer's input reads
  int64_t residualRank = 0;    ///< of the learned augmented residual
};

/// Two stacks of the layers, one after the other in cycles (arXiv:2506.21734, section 2): `low` times over the fast one
/// makes of its state and the slow one's its next state, then the slow one adds what came of it; `high` times all that.
/// A state begins as stored, and the first of the fast stack's runs in a cycle have no gradient.
struct Cycles {
  int64_t high = 2, low = 3;
  std::vector<int64_t> trained; ///< of each high cycle: so many runs of the fast stack, the last ones, have a gradient
};

/// Several residual streams: each half of a block reads a sum of them, and what it gives is added to each, by weights
/// that a linear layer makes of all streams (hyper-connections, arXiv:2409.19606, without a mixing of the streams).
struct Connections {
  int64_t streams = 4;
  double magnitude = 2; ///< most of what a result is multiplied by
  double epsilon = 1e-6;
  std::string attention = "hc_pre.hc_attn_layer", feedForward = "hc_pre.hc_mlp_layer"; ///< below a layer
  std::string head = "hc_pre.hc_head";                                                 ///< below Decoder::base
};

/// What a half of a block gives counts sigmoid(g / temperature) for each dimension, what it is added to the square root
/// of 1 - that^2, `least` of the square at least (Muse Spark).
struct ResidualGates {
  double temperature = 0.3, least = 1e-3;
  std::string attention = "post_attention_residual_gate", feedForward = "post_feedforward_residual_gate";
};

struct Decoder {
  std::string modelType;
  int64_t vocabulary = 0, hidden = 0, positionLimit = 0; ///< 0: none
  std::string base = "model.";                           ///< before the names of all but the head
  std::string embedding = "embed_tokens", positions, layersName = "layers", head = "lm_head";
  std::string finalNorm = "norm"; ///< empty: none
  int64_t embeddingWidth = 0;     ///< where it is not `hidden`: `projectIn` and `projectOut` lead there and back
  std::string projectIn = "project_in", projectOut = "project_out";
  std::optional<std::string> embeddingNorm; ///< of embedded tokens
  std::optional<LayerInputs> layerInputs;
  std::optional<Cycles> cycles;
  std::optional<Connections> connections;
  bool headIsWide = false;        ///< the head is f32 in every precision
  std::optional<AltUp> altUp;     ///< needs `layerInputs`
  bool positionsAreWaves = false; ///< sines and cosines of positions are added to embedded tokens; nothing is learned
  bool wavesEndBefore = false;    ///< the longest wave is one step shorter than 10000 times the shortest
  int64_t positionOffset = 0;     ///< rows of the table of positions before the first position's
  bool isTied = false;
  bool headBias = false;
  std::optional<HeadTransform> headTransform;
  std::optional<int64_t> padding; ///< a row of the embedding without gradient from the lookup
  double embeddingScale = 1;      ///< rounded to the type that the model computes in
  double residualScale = 1;       ///< of what attention and feed-forward add
  double logitScale = 1;          ///< logits are multiplied by it
  double logitDivisor = 1;        ///< or divided
  std::optional<double> logitSoftCap;
  bool inputsTransposed = false; ///< matrices are stored (in, out)
  bool isParallel = false;       ///< attention and feed-forward read the same input
  bool normsAfterSum = false;    ///< each norm of a block is of the sum after its half, as in the first Transformer
  bool addsToNormed = false;     ///< the result of each half of a block is added to what the half read
  Norm norm;
  /// Weights to which a norm adds 1 begin with 1, as transformers begins them, not with 0.
  bool shiftedNormsBeginWithOne = false;
  std::optional<Norm> embeddingNormKind, finalNormKind; ///< where they are not `norm`
  /// Of what each half of a block gives, where they are not `norm`.
  std::optional<Norm> afterAttentionKind, afterFeedForwardKind;
  std::optional<ResidualGates> residualGates;
  std::vector<Rope> ropes;
  std::vector<Layer> layers;
  BlockNames names;
  double initializerRange = 0.02;
  /// Above 0: of more keys than so many, each query sees those that an indexer chooses for it (arXiv:2512.02556,
  /// section 2.1). A row of at most that many tokens sees all its keys: the indexer, which has no gradient, is left
  /// out.
  int64_t chosenKeys = 0;
  bool chooserIsTrained = false;  ///< it weighs keys too, in rows of any length
  std::string chosenKeysKey;      ///< of the configuration, which says so
  std::vector<FreshValues> fresh; ///< of weights that transformers does not draw with `initializerRange`
  /// Parts of names that transformers 5 calls otherwise than checkpoints do: (checkpoint's, version 5's).
  std::vector<std::pair<std::string, std::string>> renamed;
  std::vector<std::string> notes; ///< what a user may want to know of the configuration
};

} // namespace ztc::huggingface
