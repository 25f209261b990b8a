// The model types that ztc builds itself: each has a function that turns its configuration into a description.
#pragma once
#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/Decoder.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>

namespace ztc::huggingface {

struct Family {
  const char *modelType;
  void (*fill)(Config &config, Decoder &decoder);
};

/// A multi-modal model type, whose language model alone is built.
struct Wrapper {
  const char *modelType, *textType; ///< `textType` where text_config does not say it
  bool isTied;                      ///< where tie_word_embeddings is absent
  bool scalesLogits = false;        ///< as the language model's own class does, in every version
  bool eitherTies = false;          ///< text_config may tie the head too, where the key above is false
  const char *part = "text_config"; ///< where its configuration stands, which may be that of a wrapper too
  const char *olderPart = nullptr;  ///< read where `part` is absent, whatever model type stands there; a sliding_window
                                    ///< beside it is its own
};
const Wrapper *findWrapper(const std::string &modelType);

/// Null where ztc builds none.
const Family *findFamily(const std::string &modelType);
/// Why a known model type is not built: "" where ztc does not know it.
std::string whyRefused(const std::string &modelType);

// What several families share.

/// Sizes, activation, head width and the keys of every configuration; `keyHeads`: where num_key_value_heads is absent,
/// 0: as many as heads. `headWidth` likewise, 0: hidden_size / num_attention_heads.
struct Defaults {
  int64_t vocabulary = 32000, hidden = 4096, width = 11008, layers = 32, heads = 32, keyHeads = 0, headWidth = 0,
          positions = 2048;
  double epsilon = 1e-6;
  const char *epsilonKey = "rms_norm_eps";
  const char *activationKey = "hidden_act";
  const char *activation = "silu";
  bool isTied = false;
  double theta = 10000;
  std::optional<int64_t> padding = std::nullopt;
};
/// Cosmos 3's names of a block's parts, beside transformers'.
void setCosmosNames(Decoder &decoder);
/// Fails where the rotary embedding is of a kind other than default.
void requireDefaultRope(Config &config);
/// Fails where partial_rotary_factor, which transformers does not read of the model type, says that a part turns.
void requireWholeHeads(Config &config);
/// Heads that share the hidden dimensions among them.
void setHeads(Decoder &decoder, Layer &layer, int64_t heads, int64_t keyHeads);
/// Makes layers like `layer`, as many as `layersKey` says, of GPT-NeoX and its contemporaries: sizes are checked, the
/// feed-forward is not gated.
void fillOld(Config &config, Decoder &decoder, const Layer &layer, const char *layersKey, int64_t layers);
/// Keys of transformers' base class and of generation.
void readBase(Config &config, Decoder &decoder);
/// The same of models that are state space layers alone, Mamba 1 and 2: what they call their parts too, and a layer as
/// they have it, without its mixer.
Layer readStateSpaces(Config &config, Decoder &decoder, int64_t vocabulary, int64_t hidden, bool isTied);
/// A note for each of these rates that is not 0.
void noteDropout(Config &config, Decoder &decoder, std::initializer_list<const char *> keys);
/// Names of a block's parts that BART gave, and OPT, XGLM and BioGPT kept.
void setBartNames(BlockNames &names);
/// The number of layers, within what ztc builds.
int64_t layerCount(Config &config, const char *key, int64_t otherwise);
void readCommon(Config &config, Decoder &decoder, const Defaults &defaults);
Activation activationOf(Config &config, const char *key, const std::string &name);
/// Which layers are of `type` and which of `other`, from the list `key` where it is there, else from `isOtherwise`.
std::vector<bool> layersOfType(Config &config, const Decoder &decoder, const char *key, const std::string &type,
                               const std::string &other, const std::function<bool(int64_t)> &isOtherwise);
/// "sliding_attention" or "full_attention" for each layer, from layer_types where it is there, else from `isSliding`.
std::vector<bool> slidingLayers(Config &config, const Decoder &decoder,
                                bool (*isSliding)(int64_t layer, int64_t interval), int64_t interval);
/// For slidingLayers(): all layers but every interval-th.
inline bool allButEvery(int64_t layer, int64_t interval) {
  return (layer + 1) % interval != 0;
}
/// Names of norms of what each half of a block reads, and of what it gives, as Gemma has them since its second version.
void setNormsAroundHalves(Decoder &decoder);
/// The context of the one rotary embedding of a model.
RopeContext ropeContext(const Decoder &decoder, double theta);

/// A kind for "full_attention" layers and one for "sliding_attention" layers, and sets which layer has which.
std::vector<Rope> readRopesPerLayerType(Config &config, Decoder &decoder, double fullTheta, const char *slidingKey,
                                        double slidingTheta);
/// Which of the projections of all layers have biases.
void setBiases(Decoder &decoder, bool query, bool output, bool feedForward = false);
/// The window of the layers whose type is sliding_attention; null: none.
void setWindows(Decoder &decoder, const std::vector<bool> &sliding, std::optional<int64_t> window);
/// The same of model types of which transformers makes no mask without a window; `key` says that there is none.
void setNeededWindows(Config &config, Decoder &decoder, const std::vector<bool> &sliding, std::optional<int64_t> window,
                      const char *key = "sliding_window");
/// Attention and feed-forward read the same norm's result.
void makeParallel(Decoder &decoder);
/// ALiBi's slopes as in the paper: powers of 2^(-8 / n); where the heads are not a power of two, every second one of
/// twice as many follows.
std::vector<double> alibiSlopes(int64_t heads);
/// A cap above 0; null and 0 are none.
std::optional<double> softCap(Config &config, const char *key, std::optional<double> otherwise);

/// Makes layers mixtures of experts of this width, all but those that `isDense` names. A count of 0: none.
void setExperts(
    Config &config, Decoder &decoder, const Experts &experts, int64_t width,
    const std::function<bool(int64_t)> &isDense = [](int64_t) { return false; });
/// The same with layers that are dense.
void setExperts(Config &config, Decoder &decoder, const Experts &experts, int64_t width,
                const std::vector<bool> &dense);
/// The loss that balances a router is said, not trained.
void readRouterLoss(Config &config, Decoder &decoder);
/// So is noise in front of it.
void readRouterNoise(Config &config, Decoder &decoder);
/// The last `num_kv_shared_layers` see the keys and values of the last layer of their type before them; `otherwise`:
/// how many, where the key is absent.
void shareKeys(Config &config, Decoder &decoder, int64_t otherwise);
/// Reads hidden_size_per_layer_input, 0 of which is none, and the size of its table.
void setLayerInputs(Config &config, Decoder &decoder);

/// How dt_bias begins: as steps of Mamba, by three keys that have their least, their greatest and their floor.
FreshValues freshSteps(Config &config, const std::array<const char *, 3> &keys);
/// A matrix that PyTorch draws as it does by itself (kaiming_uniform_ with a = sqrt(5)), divided by `divisor`.
FreshValues freshUniform(const char *name, int64_t in, double divisor = 1);
/// Heads of values share those of queries and keys evenly, else an error.
void checkDeltaNet(Config &config, const DeltaNet &delta);

/// Reads swiglu_limit and swiglu_alpha of all feed-forwards.
void readClampedGlu(Config &config, Decoder &decoder);

/// Reads index_topk, and the keys of what chooses; `otherwise`: where it is absent.
void readIndexer(Config &config, Decoder &decoder, int64_t otherwise = 2048);

/// Ranks and widths of latent attention in all layers; `defaults`: where no key has them.
void setLatent(Config &config, Decoder &decoder, const Latent &defaults);

/// Defaults of DeepSeek's mixture of experts.
struct DeepSeekExperts {
  int64_t count = 0, perToken = 1, width = 2048, shared = 0, firstDense = 0, groups = 1, chosenGroups = 1;
  double scale = 1;
  bool normalised = false;
  const char *countKey = "n_routed_experts", *sharedKey = "n_shared_experts";
};
/// Reads it: routed experts in groups beside shared ones, after `first_k_dense_replace` dense layers, or in all that
/// `dense` does not name, where it is not empty.
void setDeepSeekExperts(Config &config, Decoder &decoder, const DeepSeekExperts &defaults,
                        Experts experts = {.router = Experts::Router::SigmoidThenTop,
                                           .normalisedFrom = 1e-20,
                                           .hasChoiceBias = true},
                        const std::vector<bool> &dense = {});

/// Llama's keys with other defaults, and a base of its rotary embedding.
void readLlama(Config &config, Decoder &decoder, const Defaults &defaults, double theta);

/// What Cohere's model types have in common: sizes, norms, biases, parallel halves; `headWidth` as in Defaults.
void readCohere(Config &config, Decoder &decoder, int64_t headWidth = 0);

/// What dense ERNIE 4.5 and its mixture have in common, with these sizes; whether projections have biases.
bool readErnie45(Config &config, Decoder &decoder, Defaults sizes);

/// How many layers before the first mixture are dense: mlp_layer_types where it is there, else
/// first_k_dense_replace.
int64_t denseLayers(Config &config, const Decoder &decoder, int64_t otherwise);
/// EXAONE 4's attention: where some layers have windows the others have no rotation.
void setExaoneAttention(Config &config, Decoder &decoder);

/// transformers' names of keys that a model type also reads under another: (other, its own). Its own goes first.
void readAliases(Config &config, std::initializer_list<std::pair<const char *, const char *>> aliases);

void fillLlama(Config &config, Decoder &decoder);
void fillMistral(Config &config, Decoder &decoder);
void fillQwen2(Config &config, Decoder &decoder);
void fillQwen3(Config &config, Decoder &decoder);
void fillQwen2Vl(Config &config, Decoder &decoder);
void fillQwen3Vl(Config &config, Decoder &decoder);
void fillQwen25Omni(Config &config, Decoder &decoder);
void fillQwen3OmniMoe(Config &config, Decoder &decoder);
void fillMinistral(Config &config, Decoder &decoder);
void fillQwen3Moe(Config &config, Decoder &decoder);
void fillMixtral(Config &config, Decoder &decoder);
void fillGemma(Config &config, Decoder &decoder);
void fillGemma2(Config &config, Decoder &decoder);
void fillGemma3(Config &config, Decoder &decoder);
void fillGemma3n(Config &config, Decoder &decoder);
void fillGemma4(Config &config, Decoder &decoder);
void fillGemma4Unified(Config &config, Decoder &decoder);
void fillPhi3(Config &config, Decoder &decoder);
void fillSmolLm3(Config &config, Decoder &decoder);
void fillOlmo2(Config &config, Decoder &decoder);
void fillOlmo3(Config &config, Decoder &decoder);
void fillGranite(Config &config, Decoder &decoder);
void fillGpt2(Config &config, Decoder &decoder);
void fillGptOss(Config &config, Decoder &decoder);
void fillStableLm(Config &config, Decoder &decoder);
void fillStarCoder2(Config &config, Decoder &decoder);
void fillNemotron(Config &config, Decoder &decoder);
void fillOlmo(Config &config, Decoder &decoder);
void fillPhi(Config &config, Decoder &decoder);
void fillCohere(Config &config, Decoder &decoder);
void fillCohere2(Config &config, Decoder &decoder);
void fillGlm(Config &config, Decoder &decoder);
void fillGlm4(Config &config, Decoder &decoder);
void fillGlm4Moe(Config &config, Decoder &decoder);
void fillGlm4v(Config &config, Decoder &decoder);
void fillGlm4vMoe(Config &config, Decoder &decoder);
void fillGlmOcr(Config &config, Decoder &decoder);
void fillPaddleOcr(Config &config, Decoder &decoder);
void fillHunyuanVl(Config &config, Decoder &decoder);
void fillErnie45VlMoe(Config &config, Decoder &decoder);
void fillGraniteDocling(Config &config, Decoder &decoder);
void fillCosmos3Edge(Config &config, Decoder &decoder);
void fillDeepSeekV3(Config &config, Decoder &decoder);
void fillDeepSeekV32(Config &config, Decoder &decoder);
void fillGlmMoeDsa(Config &config, Decoder &decoder);
void fillDeepSeekV2(Config &config, Decoder &decoder);
void fillDots1(Config &config, Decoder &decoder);
void fillMiniCpm3(Config &config, Decoder &decoder);
void fillArcee(Config &config, Decoder &decoder);
void fillSeedOss(Config &config, Decoder &decoder);
void fillErnie45(Config &config, Decoder &decoder);
void fillHelium(Config &config, Decoder &decoder);
void fillHunyuan(Config &config, Decoder &decoder);
void fillInternLm3(Config &config, Decoder &decoder);
void fillCwm(Config &config, Decoder &decoder);
void fillExaone4(Config &config, Decoder &decoder);
void fillGptNeox(Config &config, Decoder &decoder);
void fillGptJ(Config &config, Decoder &decoder);
void fillFalcon(Config &config, Decoder &decoder);
void fillBloom(Config &config, Decoder &decoder);
void fillOpt(Config &config, Decoder &decoder);
void fillOlmoE(Config &config, Decoder &decoder);
void fillQwen2Moe(Config &config, Decoder &decoder);
void fillGraniteMoe(Config &config, Decoder &decoder);
void fillGptBigCode(Config &config, Decoder &decoder);
void fillMinistral3(Config &config, Decoder &decoder);
void fillApertus(Config &config, Decoder &decoder);
void fillNanoChat(Config &config, Decoder &decoder);
void fillErnie45Moe(Config &config, Decoder &decoder);
void fillHunyuanMoe(Config &config, Decoder &decoder);
void fillGraniteMoeShared(Config &config, Decoder &decoder);
void fillMiniMax(Config &config, Decoder &decoder);
void fillMiniMaxM2(Config &config, Decoder &decoder);
void fillGlm4MoeLite(Config &config, Decoder &decoder);
void fillFlexOlmo(Config &config, Decoder &decoder);
void fillQwen3VlMoe(Config &config, Decoder &decoder);
void fillVaultGemma(Config &config, Decoder &decoder);
void fillJais2(Config &config, Decoder &decoder);
void fillMpt(Config &config, Decoder &decoder);
void fillPersimmon(Config &config, Decoder &decoder);
void fillGptNeo(Config &config, Decoder &decoder);
void fillCodeGen(Config &config, Decoder &decoder);
void fillXglm(Config &config, Decoder &decoder);
void fillBioGpt(Config &config, Decoder &decoder);
void fillLlama4(Config &config, Decoder &decoder);
void fillPhiMoe(Config &config, Decoder &decoder);
void fillExaoneMoe(Config &config, Decoder &decoder);
void fillAfMoe(Config &config, Decoder &decoder);
void fillSolarOpen(Config &config, Decoder &decoder);
void fillYoutu(Config &config, Decoder &decoder);
void fillHyperClovaX(Config &config, Decoder &decoder);
void fillGraniteSwa(Config &config, Decoder &decoder);
void fillGraniteMoeSwa(Config &config, Decoder &decoder);
void fillMellum(Config &config, Decoder &decoder);
void fillLaguna(Config &config, Decoder &decoder);
void fillMimoV2Flash(Config &config, Decoder &decoder);
void fillHyV3(Config &config, Decoder &decoder);
void fillCohere2Moe(Config &config, Decoder &decoder);
void fillMistral4(Config &config, Decoder &decoder);
void fillGptNeoxJapanese(Config &config, Decoder &decoder);
void fillExaone(Config &config, Decoder &decoder);
void fillIQuestCoder(Config &config, Decoder &decoder);
void fillEmu3(Config &config, Decoder &decoder);
void fillApertus15(Config &config, Decoder &decoder);
void fillPhi4Multimodal(Config &config, Decoder &decoder);
void fillSarvamMoe(Config &config, Decoder &decoder);
void fillSarvamMla(Config &config, Decoder &decoder);
void fillAxk1(Config &config, Decoder &decoder);
void fillAriaText(Config &config, Decoder &decoder);
void fillDbrx(Config &config, Decoder &decoder);
void fillOpenAiGpt(Config &config, Decoder &decoder);
void fillCtrl(Config &config, Decoder &decoder);
void fillModernBert(Config &config, Decoder &decoder);
void fillCohereCompass(Config &config, Decoder &decoder);
void fillFlint(Config &config, Decoder &decoder);
void fillKolibri(Config &config, Decoder &decoder);
void fillLfm2(Config &config, Decoder &decoder);
void fillLfm2Moe(Config &config, Decoder &decoder);
void fillLfm3(Config &config, Decoder &decoder);
void fillQwen3Next(Config &config, Decoder &decoder);
void fillQwen35(Config &config, Decoder &decoder);
void fillQwen35Moe(Config &config, Decoder &decoder);
void fillGraniteMoeHybrid(Config &config, Decoder &decoder);
void fillBamba(Config &config, Decoder &decoder);
void fillFalconH1(Config &config, Decoder &decoder);
void fillNemotronH(Config &config, Decoder &decoder);
void fillZamba2(Config &config, Decoder &decoder);
void fillJamba(Config &config, Decoder &decoder);
void fillMamba(Config &config, Decoder &decoder);
void fillFalconMamba(Config &config, Decoder &decoder);
void fillRecurrentGemma(Config &config, Decoder &decoder);
void fillMamba2(Config &config, Decoder &decoder);
void fillKimiLinear(Config &config, Decoder &decoder);
void fillOlmoHybrid(Config &config, Decoder &decoder);
void fillDiffLlama(Config &config, Decoder &decoder);
void fillJetMoe(Config &config, Decoder &decoder);
void fillAxk2(Config &config, Decoder &decoder);
void fillHrmText(Config &config, Decoder &decoder);
void fillDoge(Config &config, Decoder &decoder);
void fillHyV4(Config &config, Decoder &decoder);
void fillDots3(Config &config, Decoder &decoder);
void fillLongCat(Config &config, Decoder &decoder);
void fillBeam(Config &config, Decoder &decoder);
void fillMiniMaxM3(Config &config, Decoder &decoder);
void fillStep35(Config &config, Decoder &decoder);
void fillMuseGlimmer(Config &config, Decoder &decoder);
void fillMuseSpark(Config &config, Decoder &decoder);
void fillMistralLarge4(Config &config, Decoder &decoder);
void fillDeepSeekOcr2(Config &config, Decoder &decoder);
void fillUnlimitedOcr(Config &config, Decoder &decoder);

} // namespace ztc::huggingface
