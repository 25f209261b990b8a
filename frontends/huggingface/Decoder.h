// What a decoder computes, as data: each family fills it from its configuration, one builder makes the graph.
#pragma once
#include "frontends/huggingface/Rope.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ztc::huggingface {

enum class NormKind {
  Rms,        ///< x / rms(x) * w
  RmsPlusOne, ///< x / rms(x) * (1 + w)
  Layer,      ///< (x - mean) / deviation * w + b
  LayerNoBias,
  LayerPlain, ///< without parameters
};

struct Norm {
  NormKind kind = NormKind::Rms;
  double epsilon = 1e-6;
};

/// transformers' names of activations that ztc builds.
enum class Activation { Silu, GeluTanh, Gelu, Relu, ReluSquared };

/// Norms of queries and keys after their projections.
enum class HeadNorms {
  None,
  PerHead, ///< over the width of a head, one weight for all heads
  Whole,   ///< over all heads at once, before they part
};

struct Attention {
  int64_t heads = 0, keyHeads = 0, headWidth = 0;
  double scale = 0;                           ///< of the scores
  bool queryBias = false, outputBias = false; ///< `queryBias` is of queries, keys and values
  bool isFused = false;                       ///< one projection for queries, keys and values, in this order
  HeadNorms headNorms = HeadNorms::None;
  std::optional<double> softCap; ///< cap * tanh(scores / cap)
  bool hasSinks = false;         ///< a learned logit per head, which takes a share of the softmax and nothing else
};

struct Experts {
  int64_t count = 0, perToken = 0;
  enum class Router {
    SoftmaxThenTop, ///< shares of all experts; the chosen ones may be normalised again
    TopThenSoftmax, ///< shares among the chosen
  } router = Router::SoftmaxThenTop;
  bool normalised = false; ///< of SoftmaxThenTop: the chosen shares sum to one
  bool routerBias = false;
  double limit = 0, alpha = 0; ///< a limit above 0: the clamped SwiGLU with biases of gpt-oss
};

struct FeedForward {
  int64_t width = 0;
  Activation activation = Activation::Silu;
  bool isGated = true;
  bool isFused = false; ///< one projection for gate and up, in this order
  bool bias = false;
  std::optional<Experts> experts;
};

struct Layer {
  Attention attention;
  FeedForward feedForward;
  int64_t window = 0;     ///< keys that a query sees, itself included; 0: all before it
  bool isSliding = false; ///< its type is sliding_attention, also where the window is null
  int rope = 0;           ///< index into Decoder::ropes; -1: none
};

/// Where the norms of a block stand; names are below the layer, empty where there is none.
struct BlockNames {
  std::string attentionNorm = "input_layernorm"; ///< before attention
  std::string afterAttentionNorm;                ///< of its result
  std::string feedForwardNorm = "post_attention_layernorm";
  std::string afterFeedForwardNorm;
  std::string attention = "self_attn", feedForward = "mlp";
  std::string query = "q_proj", key = "k_proj", value = "v_proj", fusedQuery = "qkv_proj", output = "o_proj";
  std::string queryNorm = "q_norm", keyNorm = "k_norm";
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj", fusedGate = "gate_up_proj";
  std::string router = "gate", experts = "experts"; ///< below `feedForward`
  std::string expertGate = "gate_proj", expertUp = "up_proj", expertDown = "down_proj";
};

struct Decoder {
  std::string modelType;
  int64_t vocabulary = 0, hidden = 0, positionLimit = 0; ///< 0: none
  std::string base = "model.";                           ///< before the names of all but the head
  std::string embedding = "embed_tokens", positions, layersName = "layers", finalNorm = "norm", head = "lm_head";
  bool isTied = false;
  bool headBias = false;
  std::optional<int64_t> padding; ///< a row of the embedding without gradient from the lookup
  double embeddingScale = 1;      ///< rounded to the type that the model computes in
  double residualScale = 1;       ///< of what attention and feed-forward add
  double logitScale = 1;          ///< logits are multiplied by it
  double logitDivisor = 1;        ///< or divided
  std::optional<double> logitSoftCap;
  bool inputsTransposed = false; ///< matrices are stored (in, out)
  bool isParallel = false;       ///< attention and feed-forward read the same input
  Norm norm;
  std::vector<Rope> ropes;
  std::vector<Layer> layers;
  BlockNames names;
  double initializerRange = 0.02;
  std::vector<std::string> notes; ///< what a user may want to know of the configuration
};

} // namespace ztc::huggingface
