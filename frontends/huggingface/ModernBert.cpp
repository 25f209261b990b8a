// ModernBERT as a decoder: windows in two layers of three, an embedding's norm, a layer before the head.
#include "frontends/huggingface/Families.h"

namespace ztc::huggingface {

void fillModernBert(Config &config, Decoder &decoder) {
  Defaults defaults{.vocabulary = 50368,
                    .hidden = 768,
                    .width = 1152,
                    .layers = 22,
                    .heads = 12,
                    .positions = 8192,
                    .epsilon = 1e-5,
                    .epsilonKey = "norm_eps",
                    .activationKey = "hidden_activation",
                    .activation = "gelu"};
  defaults.isTied = true;
  defaults.padding = 50283;
  readCommon(config, decoder, defaults);
  if (decoder.layers.empty())
    return;
  decoder.norm.kind = config.flag("norm_bias", false) ? NormKind::Layer : NormKind::LayerNoBias;
  bool bias = config.flag("attention_bias", false);
  setBiases(decoder, bias, bias, config.flag("mlp_bias", false));
  for (Layer &layer : decoder.layers)
    layer.feedForward.isFused = true;
  decoder.layers.front().lacksAttentionNorm = true;

  int64_t every = config.integer("global_attn_every_n_layers", 3);
  int64_t keys = config.optionalInteger("local_attention", 128, 0).value_or(0);
  config.harmless({"sliding_window"}); // what transformers makes of local_attention
  setNeededWindows(config, decoder,
                   slidingLayers(
                       config, decoder, [](int64_t layer, int64_t n) { return layer % n != 0; }, every),
                   keys / 2, "local_attention");
  decoder.ropes =
      readRopesPerLayerType(config, decoder, config.number("global_rope_theta", 160000), "local_rope_theta", 10000);

  decoder.headBias = config.flag("decoder_bias", true);
  HeadTransform transform{.dense = "lm_head.dense", .norm = "lm_head.norm"};
  transform.activation = activationOf(config, "classifier_activation", config.text("classifier_activation", "gelu"));
  transform.bias = config.flag("classifier_bias", false);
  decoder.headTransform = transform;
  noteDropout(config, decoder, {"mlp_dropout", "classifier_dropout"});
  config.harmless({"initializer_cutoff_factor", "cls_token_id"});

  decoder.embedding = "embeddings.tok_embeddings";
  decoder.embeddingNorm = "embeddings.norm";
  decoder.finalNorm = "final_norm";
  decoder.head = "decoder";
  BlockNames &names = decoder.names;
  names.attentionNorm = "attn_norm";
  names.feedForwardNorm = "mlp_norm";
  names.attention = "attn";
  names.output = "Wo";
  names.fusedGate = "Wi";
  names.down = "Wo";
}

} // namespace ztc::huggingface
