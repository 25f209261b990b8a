// From the description of a decoder to its ONNX graph.
#pragma once
#include "frontends/huggingface/Checkpoint.h"
#include "frontends/huggingface/Decoder.h"
#include "frontends/huggingface/GraphWriter.h"
#include <map>
#include <set>

namespace ztc::huggingface {

/// Values of the graph while it is built; each file of this folder adds one part of a block.
class DecoderBuilder {
public:
  using Value = GraphWriter::Value;
  DecoderBuilder(const Decoder &decoder, Checkpoint &checkpoint, GraphWriter &graph)
      : decoder(decoder), checkpoint(checkpoint), graph(graph) {}

  /// The checkpoint knows the decoder's names by now. Input `input_ids` (batch, sequence), output `logits` (batch,
  /// sequence, vocabulary), all in f32.
  void build();

  /// After build(): what root mean square norms begin with that add 1 to their weight, by endings of names that no
  /// other parameter has.
  std::vector<FreshValues> freshNorms() const;

private:
  // BuildDecoder.cpp
  /// As f32.
  Value parameter(const std::string &name, const std::vector<int64_t> &shape, bool isTrained = true);
  Value linear(const std::string &module, Value x, int64_t in, int64_t out, bool hasBias);
  Value norm(const std::string &module, Value x, int64_t width, Norm kind);
  Value normWithGate(const std::string &module, Value x, int64_t rank);
  Value scaled(Value x, double factor);
  Value softCapped(Value x, double cap);
  Value embed(Value tokens);
  Value lookedUp(const std::string &module, Value tokens, int64_t count, int64_t width);
  Value scaledBlock(const std::string &path, Value x);
  Value mixed(const Layer &layer, const std::string &path, Value x);
  Value gatedSum(const std::string &module, Value x, Value result);
  Value block(const Layer &layer, const std::string &path, Value x);
  Value blockOfTwo(const Layer &layer, const std::string &path, Value x);
  Value stack(const std::string &path, Value x, bool hasGradient);
  Value cycled(Value x);
  Value head(Value x);
  Value positionRows();
  Value feedForward(const Layer &layer, const std::string &path, Value x, Value normed);
  Value root(Value square);
  Value sparse(Value x, double cutoff);
  Value gatedProduct(const FeedForward &feedForward, const std::string &module, Value gate, Value up);
  Value dense(const FeedForward &feedForward, const std::string &module, Value x);
  std::vector<Value> split(Value x, const std::vector<int64_t> &sizes);
  Value reshape(Value x, const std::vector<int64_t> &shape);
  /// [B, S, width].
  Value shapeOfTokens(int64_t width);
  std::string inside(const std::string &path, const std::string &name) const {
    return name.empty() ? path : path + "." + name;
  }

  // BuildLayerInputs.cpp
  Value layerInputs(Value tokens, Value embedded);
  Value fromLayerInput(const Layer &layer, const std::string &path, Value x, Value inputs, int64_t index);
  // BuildConnections.cpp
  /// Weights (B, S, streams), and the sum of the streams (B, S, hidden) by those of them that are for reading.
  struct Reading {
    Value written, sum;
  };
  Reading reading(const std::string &module, const std::string &prefix, Value streams, bool isLast);
  Value written(Value streams, Value weights, Value result);
  Value connected(Value embedded);
  // BuildAltUp.cpp
  Value streamsOf(Value embedded);
  Value joined(Value streams);
  Value stream(Value streams, int64_t index);
  Value atMagnitudeOf(Value like, Value x);
  Value modalities(const std::string &path, Value x);
  Value augmentedResidual(const std::string &path, Value x);
  Value blockOfStreams(const Layer &layer, const std::string &path, Value streams, Value inputs, int64_t index);

  // BuildConvolution.cpp
  Value causalConvolution(const std::vector<std::string> &modules, Value x, const std::vector<int64_t> &sizes,
                          int64_t taps, bool hasBias, Activation activation);
  Value shortConvolution(const ShortConvolution &convolution, const std::string &path, Value x);
  // BuildDeltaNet.cpp
  /// (B, S, heads * width) each; queries, keys and values in one or in three.
  struct DeltaInputs {
    std::vector<Value> mixed;
    Value gate, b, a;
  };
  Value sharedHeads(Value x, int64_t from, int64_t to, int64_t width);
  Value unitHeads(Value x, int64_t heads, int64_t width);
  Value stateStep(const std::string &path, Value x, int64_t heads);
  Value stateDecay(const std::string &path, Value step, int64_t heads);
  Value rowDecay(const DeltaNet &delta, const std::string &path, Value x);
  DeltaInputs deltaInputs(const DeltaNet &delta, const std::string &path, Value x);
  Value deltaNet(const DeltaNet &delta, const std::string &path, Value x);

  // BuildSelectiveScan.cpp
  Value selectiveScan(const SelectiveScan &scan, const std::string &path, Value x);

  // BuildGatedRecurrence.cpp
  Value channelGate(const GatedRecurrence &recurrence, const std::string &module, Value x);
  Value gatedRecurrence(const GatedRecurrence &recurrence, const std::string &path, Value x);

  // BuildSharedBlock.cpp
  Value lowRank(const LowRank &low, const std::string &list, Value x, int64_t in, int64_t out);
  Value sharedBlock(const Layer &layer, const std::string &path, Value x);

  // BuildLightningAttention.cpp
  Value lightningAttention(const LightningAttention &lightning, const std::string &path, Value x);

  // BuildStateSpace.cpp
  Value gatedNorm(const StateSpace &space, const std::string &path, Value x, Value gate);
  Value stateSpace(const StateSpace &space, const std::string &path, Value x);

  // BuildActivation.cpp
  Value activate(Activation activation, const std::string &module, Value x);
  Value xielu(const std::string &module, Value x);
  Value laplace(Value x);

  // BuildAttention.cpp
  void addPositions(Value tokens);
  struct Table {
    Value cosine, sine; ///< (batch, sequence, width / 2)
  };
  Table table(const Rope &rope);
  Value frequencies(const Rope &rope);
  Value rotate(const Rope &rope, const Table &table, Value x, int64_t headWidth);
  Value mask(const Layer &layer);
  std::vector<Value> shardedProjection(const Attention &attention, Value all);
  Value alibi(const Attention &attention);
  Value keyWeights(const Attention &attention, const std::string &path, Value value);
  std::vector<Value> fusedProjection(const Attention &attention, const std::string &path, Value x);
  std::vector<Value> projections(const Layer &layer, const std::string &path, Value x);
  Value headNorm(const Attention &attention, const std::string &module, Value x, int64_t heads);
  Value turned(const Layer &layer, Value x, int64_t headWidth);
  Value scaledByPosition(const Attention &attention, Value query);
  Value gated(const Attention &attention, const std::string &path, Value x, Value y, int64_t width);
  Value pairedValues(Value value, int64_t heads);
  Value difference(const Attention &attention, const std::string &path, Value y);
  Value attention(const Layer &layer, const std::string &path, Value x);
  // BuildAttentionExperts.cpp
  Value attentionOfExperts(const Layer &layer, const std::string &path, Value x);
  // BuildLatentAttention.cpp
  Value latentAttention(const Layer &layer, const std::string &path, Value x);
  Value scaledByHead(const Attention &attention, const std::string &module, Value query);
  std::pair<Value, Value> latentKeys(const Layer &layer, const std::string &path, Value x);
  // BuildAttention.cpp
  Value scores(const Layer &layer, const std::string &path, Value query, Value key, Value value);
  Value repeated(const Attention &attention, Value x, int64_t width);

  // BuildExperts.cpp
  Value experts(const Layer &layer, const std::string &block, const std::string &path, Value x);
  Value weighted(const Layer &layer, const std::string &path, Value weights, Value x);
  Value normedExperts(const Layer &layer, const std::string &block, const std::string &path, Value x, Value normed);
  Value scaledForRouter(const std::string &path, Value x);
  Value shares(const Experts &experts, const std::string &path, Value x);
  bool isRenamed(const std::string &name) const;
  Value choice(const Experts &experts, const std::string &path, Value shares);
  Value zerosLike(Value x);
  Value nearShares(const Experts &experts, Value logits);
  Value sharedExpert(const FeedForward &feedForward, const std::string &path, Value x);
  Value plainExpert(const Layer &layer, const std::string &own, int64_t index, Value x);
  Value gatedExpert(const Layer &layer, const std::string &path, int64_t index, Value x);
  Value clampedExpert(const Layer &layer, const std::string &path, int64_t index, Value x);

  const Decoder &decoder;
  Checkpoint &checkpoint;
  GraphWriter &graph;
  std::map<std::string, Value> parameters;            ///< by name, as f32
  std::set<std::string> shiftedNorms;                 ///< of those: weights to which a norm adds 1
  Value tokensShape, positions;                       ///< of the input; 0..S-1 (sequence) int64
  Value embedded;                                     ///< tokens, (batch, sequence, hidden)
  std::map<int, Table> tables;                        ///< by index of the rope
  std::vector<std::pair<Value, Value>> keysAndValues; ///< of each layer so far, (batch, heads, sequence, width)
  std::map<std::pair<int64_t, bool>, Value> masks;    ///< by window, and whether it is a chunk
};

} // namespace ztc::huggingface
