#include "frontends/huggingface/Families.h"
#include "frontends/huggingface/Folder.h"

namespace ztc::huggingface {

static constexpr Family kFamilies[] = {
    {"llama", fillLlama},
    {"qwen3", fillQwen3},
    {"qwen2", fillQwen2},
    {"gemma3_text", fillGemma3},
    {"gemma3n_text", fillGemma3n},
    {"gemma4_text", fillGemma4},
    {"gemma4_unified_text", fillGemma4Unified},
    {"mistral", fillMistral},
    {"phi3", fillPhi3},
    {"smollm3", fillSmolLm3},
    {"olmo2", fillOlmo2},
    {"olmo3", fillOlmo3},
    {"granite", fillGranite},
    {"gemma", fillGemma},
    {"gemma2", fillGemma2},
    {"ministral", fillMinistral},
    {"qwen2_vl_text", fillQwen2Vl},
    {"qwen2_5_vl_text", fillQwen2Vl},
    {"qwen2_vl", fillQwen2Vl},
    {"qwen2_5_vl", fillQwen2Vl},
    {"qwen3_vl_text", fillQwen3Vl},
    {"qwen3_moe", fillQwen3Moe},
    {"mixtral", fillMixtral},
    {"gpt2", fillGpt2},
    {"gpt_oss", fillGptOss},
    {"stablelm", fillStableLm},
    {"starcoder2", fillStarCoder2},
    {"nemotron", fillNemotron},
    {"olmo", fillOlmo},
    {"phi", fillPhi},
    {"cohere", fillCohere},
    {"cohere2", fillCohere2},
    {"glm", fillGlm},
    {"glm4", fillGlm4},
    {"glm4_moe", fillGlm4Moe},
    {"deepseek_v3", fillDeepSeekV3},
    {"deepseek_v32", fillDeepSeekV32},
    {"glm_moe_dsa", fillGlmMoeDsa},
    {"axk2", fillAxk2},
    {"deepseek_v2", fillDeepSeekV2},
    {"dots1", fillDots1},
    {"minicpm3", fillMiniCpm3},
    {"arcee", fillArcee},
    {"seed_oss", fillSeedOss},
    {"ernie4_5", fillErnie45},
    {"helium", fillHelium},
    {"hunyuan_v1_dense", fillHunyuan},
    {"internlm3", fillInternLm3},
    {"cwm", fillCwm},
    {"exaone4", fillExaone4},
    {"gpt_neox", fillGptNeox},
    {"gptj", fillGptJ},
    {"falcon", fillFalcon},
    {"bloom", fillBloom},
    {"opt", fillOpt},
    {"olmoe", fillOlmoE},
    {"qwen2_moe", fillQwen2Moe},
    {"granitemoe", fillGraniteMoe},
    {"gpt_bigcode", fillGptBigCode},
    {"ministral3", fillMinistral3},
    {"apertus", fillApertus},
    {"nanochat", fillNanoChat},
    {"ernie4_5_moe", fillErnie45Moe},
    {"hunyuan_v1_moe", fillHunyuanMoe},
    {"granitemoeshared", fillGraniteMoeShared},
    {"minimax_m2", fillMiniMaxM2},
    {"minimax", fillMiniMax},
    {"glm4_moe_lite", fillGlm4MoeLite},
    {"flex_olmo", fillFlexOlmo},
    {"qwen3_vl_moe_text", fillQwen3VlMoe},
    {"vaultgemma", fillVaultGemma},
    {"jais2", fillJais2},
    {"mpt", fillMpt},
    {"persimmon", fillPersimmon},
    {"gpt_neo", fillGptNeo},
    {"codegen", fillCodeGen},
    {"xglm", fillXglm},
    {"biogpt", fillBioGpt},
    {"llama4_text", fillLlama4},
    {"phimoe", fillPhiMoe},
    {"exaone_moe", fillExaoneMoe},
    {"afmoe", fillAfMoe},
    {"solar_open", fillSolarOpen},
    {"youtu", fillYoutu},
    {"hyperclovax", fillHyperClovaX},
    {"granite_swa", fillGraniteSwa},
    {"granitemoe_swa", fillGraniteMoeSwa},
    {"mellum", fillMellum},
    {"laguna", fillLaguna},
    {"mimo_v2_flash", fillMimoV2Flash},
    {"hy_v3", fillHyV3},
    {"cohere2_moe", fillCohere2Moe},
    {"mistral4", fillMistral4},
    {"gpt_neox_japanese", fillGptNeoxJapanese},
    {"exaone", fillExaone},
    {"iquestcoder", fillIQuestCoder},
    {"emu3_text_model", fillEmu3},
    {"apertus1p5_text", fillApertus15},
    {"phi4_multimodal", fillPhi4Multimodal},
    {"sarvam_moe", fillSarvamMoe},
    {"sarvam_mla", fillSarvamMla},
    {"axk1", fillAxk1},
    {"aria_text", fillAriaText},
    {"dbrx", fillDbrx},
    {"openai-gpt", fillOpenAiGpt},
    {"ctrl", fillCtrl},
    {"modernbert-decoder", fillModernBert},
    {"cohere_compass_text", fillCohereCompass},
    {"flint", fillFlint},
    {"kolibri1", fillKolibri},
    {"lfm2", fillLfm2},
    {"lfm2_moe", fillLfm2Moe},
    {"lfm3", fillLfm3},
    {"qwen3_next", fillQwen3Next},
    {"qwen3_5_text", fillQwen35},
    {"qwen3_5_moe_text", fillQwen35Moe},
    {"granitemoehybrid", fillGraniteMoeHybrid},
    {"bamba", fillBamba},
    {"falcon_h1", fillFalconH1},
    {"nemotron_h", fillNemotronH},
    {"mamba2", fillMamba2},
    {"mamba", fillMamba},
    {"jamba", fillJamba},
    {"falcon_mamba", fillFalconMamba},
    {"zamba2", fillZamba2},
    {"recurrent_gemma", fillRecurrentGemma},
    {"olmo_hybrid", fillOlmoHybrid},
    {"kimi_linear", fillKimiLinear},
    {"diffllama", fillDiffLlama},
    {"jetmoe", fillJetMoe},
    {"longcat_flash", fillLongCat},
    {"beam", fillBeam},
    {"hrm_text", fillHrmText},
    {"doge", fillDoge},
    {"hy_v4", fillHyV4},
    {"dots3_note_text", fillDots3},
    {"minimax_m3_vl_text", fillMiniMaxM3},
    {"glm4v_text", fillGlm4v},
    {"glm4v_moe_text", fillGlm4vMoe},
    {"glm_ocr_text", fillGlmOcr},
    {"qwen2_5_omni_text", fillQwen25Omni},
    {"qwen3_omni_moe_text", fillQwen3OmniMoe},
    {"paddleocr_vl_text", fillPaddleOcr},
    {"hunyuan_vl_text", fillHunyuanVl},
    {"ernie4_5_vl_moe_text", fillErnie45VlMoe},
    {"granite_docling_text", fillGraniteDocling},
    {"granite4_vision_text", fillGranite},
    {"cosmos3_edge_text", fillCosmos3Edge},
    {"step3p5", fillStep35},
    {"muse_glimmer_text", fillMuseGlimmer},
    {"muse_spark_text", fillMuseSpark},
    {"mistral_large4_text", fillMistralLarge4},
    {"deepseek_ocr2_text", fillDeepSeekOcr2},
    {"unlimited_ocr_text", fillUnlimitedOcr},
};

/// Layers that carry a state from token to token: gated DeltaNet, Mamba, convolutions, linear attention.
static constexpr const char *kHybrids[] = {
    "zamba",          "rwkv", "plamo2",       "xlstm",         "bailing_hybrid",     "lara_mini",        "qwen4_exp",
    "qwen4_exp_text", "zaya", "inkling_text", "inkling2_text", "inkling2_loop_text", "inkling_mm_model", "inkling2",
    "inkling2_loop",
};

/// Tokens see those after them.
static constexpr const char *kEncoders[] = {
    "bert",
    "roberta",
    "camembert",
    "xlm-roberta",
    "xlm-roberta-xl",
    "electra",
    "modernbert",
    "deberta",
    "deberta-v2",
    "albert",
    "distilbert",
    "mpnet",
    "ernie",
    "rembert",
    "big_bird",
    "roformer",
    "roc_bert",
    "xmod",
    "megatron-bert",
    "xlm",
    "data2vec-text",
    "bert-generation",
    "roberta-prelayernorm",
    "eurobert",
};

/// A decoder that reads an encoder's states.
static constexpr const char *kWithEncoders[] = {
    "t5",      "mt5",      "umt5",       "longt5",           "bart",       "mbart",
    "marian",  "pegasus",  "pegasus_x",  "plbart",           "mvp",        "led",
    "whisper", "trocr",    "blenderbot", "blenderbot-small", "prophetnet", "bigbird_pegasus",
    "m2m_100", "nllb-moe", "musicgen",   "musicgen_melody",  "t5gemma",    "t5gemma2",
    "mllama",
};

/// Others that people try.
struct Refused {
  const char *modelType, *why;
};
static constexpr Refused kRefused[] = {
    {"paligemma", "attends in both directions within a prompt, which ztc does not build"},
    {"gemma4_assistant", "reads the keys and values of another model, which ztc does not build"},
    {"gemma4_unified_assistant", "reads the keys and values of another model, which ztc does not build"},
    {"bitnet", "has weights of three values with scales of their own, which ztc does not build"},
    {"csm", "predicts audio with two decoders, which ztc does not build"},
    {"moshi", "predicts audio with two decoders, which ztc does not build"},
    {"deepseek_v4", "chooses the keys that a query sees, which ztc does not build"},
    {"dory", "runs its layers several times over, which ztc does not build"},
    {"blt", "joins bytes to patches of other lengths each time, which ztc does not build"},
    {"xlnet", "predicts tokens in orders that are drawn, which ztc does not build"},
    {"reformer", "attends by hashes, which ztc does not build"},
    {"molmo2", "has tokens in a second table, which its head does not predict and ztc does not build"},
    {"molmo2_text", "has tokens in a second table, which its head does not predict and ztc does not build"},
    {"cpmant", "attends with learned distances within a prompt, which ztc does not build"},
};

static constexpr Wrapper kWrappers[] = {
    {"gemma3", "gemma3_text", true},
    {"llama4", "llama4_text", false},
    {"mistral3", "mistral", true},
    {"llava", "llama", false},
    {"llava_next", "llama", false},
    {"llava_onevision", "qwen2", false},
    {"vipllava", "llama", false},
    {"idefics3", "llama", false},
    {"smolvlm", "llama", false},
    {"internvl", "qwen2", true},
    {"qwen2_vl", "qwen2_vl_text", false, false, true},
    {"qwen2_5_vl", "qwen2_5_vl_text", false, false, true},
    {"qwen3_vl", "qwen3_vl_text", false},
    {"qwen3_vl_moe", "qwen3_vl_moe_text", false},
    {"aya_vision", "cohere2", true},
    {"cohere2_vision", "cohere2", true},
    {"deepseek_vl", "llama", true},
    {"deepseek_vl_hybrid", "llama", true},
    {"exaone4_5", "exaone4", false},
    {"fast_vlm", "qwen2", false},
    {"got_ocr2", "qwen2", true},
    {"pp_chart2table", "qwen2", true},
    {"idefics2", "mistral", false},
    {"janus", "llama", true},
    {"kimi_k25", "deepseek_v3", true},
    {"lighton_ocr", "qwen3", true},
    {"llava_next_video", "llama", false},
    {"ovis2", "qwen2", true},
    {"perception_lm", "llama", false},
    {"qianfan_ocr", "qwen3", false},
    {"shieldgemma2", "gemma3_text", true},
    {"video_llama_3", "qwen2", false},
    {"video_llava", "llama", false},
    {"hyperclovax_vision_v2", "hyperclovax", true, true},
    {"aria", "aria_text", false},
    {"emu3", "emu3_text_model", false},
    {"apertus1p5", "apertus1p5_text", false},
    {"cohere_compass", "cohere_compass_text", false},
    {"gemma3n", "gemma3n_text", true, true},
    {"gemma4", "gemma4_text", true, true},
    {"gemma4_unified", "gemma4_unified_text", true, true},
    {"minimax_m3_vl", "minimax_m3_vl_text", false},
    {"step3p7", "step3p5", false},
    {"muse_glimmer", "muse_glimmer_text", false, true},
    {"muse_spark", "muse_spark_text", false, true},
    {"mistral_large4", "mistral_large4_text", false, true},
    {"deepseek_ocr2", "deepseek_ocr2_text", false},
    {"unlimited_ocr", "unlimited_ocr_text", false, false, false, "text_config", "language_config"},
    {"dots3_note", "dots3_note_text", false},
    {"lfm2_vl", "lfm2", true},
    {"lfm3_vl", "lfm3", true},
    {"qwen3_5", "qwen3_5_text", false},
    {"qwen3_5_moe", "qwen3_5_moe_text", false},
    {"minicpm_ocr", "qwen3_5_text", true},
    {"minicpmv4_6", "qwen3_5_text", false},
    {"minicpmv4_7", "qwen3_5_text", false},
    {"nemotron_h_omni", "nemotron_h", false, false, false, "text_config", "llm_config"},
    {"cosmos3_omni", "qwen3_vl_text", false},
    {"glm4v", "glm4v_text", false, false, true},
    {"glm46v", "glm4v_text", false},
    {"glmga", "glm4v_text", false},
    {"glm4v_moe", "glm4v_moe_text", false, false, true},
    {"glm_ocr", "glm_ocr_text", false, false, true},
    {"qwen2_5_omni", "qwen2_5_omni_thinker", false, false, false, "thinker_config"},
    {"qwen2_5_omni_thinker", "qwen2_5_omni_text", false},
    {"qwen3_omni_moe", "qwen3_omni_moe_thinker", false, false, false, "thinker_config"},
    {"qwen3_omni_moe_thinker", "qwen3_omni_moe_text", false},
    {"paddleocr_vl", "paddleocr_vl_text", true, false, true},
    {"hunyuan_vl", "hunyuan_vl_text", true, false, true},
    {"ernie4_5_vl_moe", "ernie4_5_vl_moe_text", true},
    {"granite_docling", "granite_docling_text", true, true},
    {"granite4_vision", "granite4_vision_text", false, true},
    {"cosmos3_edge", "cosmos3_edge_text", false},
};

const Wrapper *findWrapper(const std::string &modelType) {
  for (const Wrapper &wrapper : kWrappers)
    if (modelType == wrapper.modelType)
      return &wrapper;
  return nullptr;
}

const Family *findFamily(const std::string &modelType) {
  for (const Family &family : kFamilies)
    if (modelType == family.modelType)
      return &family;
  return nullptr;
}

std::string familyNames() {
  std::string names;
  for (const Family &family : kFamilies)
    names += (names.empty() ? "" : ", ") + std::string(family.modelType);
  return names;
}

std::string whyRefused(const std::string &modelType) {
  for (const char *hybrid : kHybrids)
    if (modelType == hybrid)
      return "has recurrent or convolutional layers of a kind that ztc does not build";
  for (const char *encoder : kEncoders)
    if (modelType == encoder)
      return "is an encoder, whose tokens see those after them, which ztc does not build";
  for (const char *decoder : kWithEncoders)
    if (modelType == decoder)
      return "has a decoder that attends to what an encoder gives, which ztc does not build";
  for (const Refused &refused : kRefused)
    if (modelType == refused.modelType)
      return refused.why;
  return "";
}

} // namespace ztc::huggingface
