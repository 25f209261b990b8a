// adapter_config.json, key by key: what each does, and what is refused by name.
#include "runtime/Format/AdapterConfig.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/NamePattern.h"
#include "runtime/Format/AdapterNames.h"
#include "runtime/Format/WeightChange.h"
#include <cmath>
#include <gtest/gtest.h>

namespace ztc {
namespace {

using Json = nlohmann::ordered_json;

StatusOr<AdapterConfig> parse(const Json &more) {
  Json json{{"peft_type", "LORA"},
            {"task_type", "CAUSAL_LM"},
            {"r", 4},
            {"lora_alpha", 8},
            {"target_modules", Json::array({"q_proj"})}};
  json.update(more);
  return parseAdapterConfig(json.dump(), "DIR/adapter_config.json");
}

AdapterConfig good(const Json &more) {
  StatusOr<AdapterConfig> config = parse(more);
  EXPECT_TRUE(config.isOk()) << config.status().message();
  return config.isOk() ? *config : AdapterConfig();
}

const char *const kQuery = "model.layers.0.self_attn.q_proj", *const kUp = "model.layers.12.mlp.up_proj";

TEST(AdapterConfig, ListsNameModulesByTheirEnds) {
  AdapterConfig config = good({{"target_modules", {"q_proj", "model.layers.12.mlp.up_proj", "attn.v"}}});
  EXPECT_TRUE(config.targetsModule(kQuery));
  EXPECT_TRUE(config.targetsModule(kUp));
  EXPECT_TRUE(config.targetsModule("q_proj"));
  EXPECT_TRUE(config.targetsModule("h.1.attn.v"));
  EXPECT_FALSE(config.targetsModule("model.layers.0.self_attn.eq_proj"));
  EXPECT_FALSE(config.targetsModule("model.layers.1.mlp.up_proj"));
}

TEST(AdapterConfig, ExpressionsAreHeldAgainstWholeNames) {
  AdapterConfig config = good({{"target_modules", R"(.*\.(self_attn|mlp)\.(?!k_proj)\w+_proj)"}});
  EXPECT_TRUE(config.targetsModule(kQuery));
  EXPECT_FALSE(config.targetsModule("model.layers.0.self_attn.k_proj"));
  EXPECT_FALSE(config.targetsModule("model.layers.0.self_attn.q_proj.more"));
  EXPECT_TRUE(
      good({{"target_modules", R"((?:.*?(?:attn|mlp).*?(?:q_proj|up_proj).*?)|(?:\bmodel\.layers\.[\d]{1,}\.x))"}})
          .targetsModule(kUp));
  EXPECT_TRUE(good({{"target_modules", "(?P<name>model).*q_proj"}}).targetsModule(kQuery));
}

TEST(AdapterConfig, AllLinearIsTakenInAnyCase) {
  EXPECT_TRUE(good({{"target_modules", "All-Linear"}}).isAllLinear);
  EXPECT_FALSE(good(Json::object()).isAllLinear);
}

TEST(AdapterConfig, ExclusionsComeFirst) {
  EXPECT_TRUE(good({{"exclude_modules", {"q_proj"}}}).excludesModule(kQuery));
  EXPECT_TRUE(good({{"exclude_modules", R"(.*\.0\..*)"}}).excludesModule(kQuery));
  EXPECT_FALSE(good({{"exclude_modules", R"(.*\.1\..*)"}}).excludesModule(kQuery));
  AdapterConfig saved = good({{"modules_to_save", {"self_attn", "norm"}}});
  EXPECT_TRUE(saved.excludesModule(kQuery)) << "inside a module that is trained whole";
  EXPECT_TRUE(saved.saves("model.layers.0.input_layernorm")) << "any end of a name, as PEFT has it";
  EXPECT_TRUE(saved.saves(kQuery)) << "all that is in a module";
  EXPECT_FALSE(saved.saves("model.layers.0.normal.more"));
}

TEST(AdapterConfig, LayersAreCountedByTheFirstNumber) {
  AdapterConfig config = good({{"target_modules", {"q_proj", "up_proj"}}, {"layers_to_transform", {12, 3}}});
  EXPECT_FALSE(config.targetsModule(kQuery));
  EXPECT_TRUE(config.targetsModule(kUp));
  EXPECT_TRUE(config.targetsModule("model.layers.3.experts.0.up_proj"));
  EXPECT_FALSE(config.targetsModule("model.layers.4.experts.3.up_proj"));
  EXPECT_FALSE(config.targetsModule("up_proj.up_proj")) << "in no layer";
  EXPECT_TRUE(good({{"layers_to_transform", 0}}).targetsModule(kQuery));
  Json blocks{{"layers_to_transform", {0}}, {"layers_pattern", "h"}};
  EXPECT_FALSE(good(blocks).targetsModule(kQuery));
  EXPECT_TRUE(good(blocks).targetsModule("transformer.h.0.q_proj"));
  EXPECT_TRUE(good({{"layers_to_transform", {0}}, {"layers_pattern", {"h", "layers"}}}).targetsModule(kQuery));
  EXPECT_TRUE(good({{"target_modules", {kQuery}}, {"layers_to_transform", {5}}}).targetsModule(kQuery))
      << "a whole name is meant";
  AdapterConfig all = good({{"target_modules", "all-linear"}, {"layers_to_transform", {12}}});
  EXPECT_FALSE(all.isInLayers(kQuery)) << "all-linear stands for a list";
  EXPECT_TRUE(all.isInLayers(kUp));
  EXPECT_TRUE(good({{"target_modules", "all-linear"}}).isInLayers(kQuery));
}

TEST(AdapterConfig, LayersDoNotChooseAmongTheModulesOfAnExpression) {
  for (const auto &[more, key] : {std::pair(Json{{"layers_to_transform", {0}}}, "layers_to_transform: cannot choose"),
                                  std::pair(Json{{"layers_pattern", "layers"}}, "layers_pattern: cannot choose")}) {
    Json json{{"target_modules", ".*q_proj"}};
    json.update(more);
    const StatusOr<AdapterConfig> config = parse(json);
    ASSERT_FALSE(config.isOk());
    EXPECT_NE(config.status().message().find(std::string("DIR/adapter_config.json: ") + key), std::string::npos)
        << config.status().message();
    EXPECT_NE(config.status().message().find("'.*q_proj'"), std::string::npos) << config.status().message();
  }
}

TEST(AdapterConfig, RanksAndScalesByPattern) {
  AdapterConfig config = good({{"rank_pattern", {{"up_proj", 16}, {R"(layers\.\d+\.self_attn\.q_proj)", 2}}},
                               {"alpha_pattern", {{"q_proj", 3}}}});
  EXPECT_EQ(config.rankOf(kUp), 16);
  EXPECT_EQ(config.rankOf(kQuery), 2);
  EXPECT_EQ(config.rankOf("model.layers.0.mlp.soup_proj"), 4) << "a pattern begins after a dot";
  EXPECT_DOUBLE_EQ(config.scaleOf(kUp), 8.0 / 16);
  EXPECT_DOUBLE_EQ(config.scaleOf(kQuery), 3.0 / 2);
  EXPECT_DOUBLE_EQ(good({{"use_rslora", true}}).scaleOf(kQuery), 8.0 / 2);
  EXPECT_EQ(good({{"rank_pattern", {{"^model.layers.0.self_attn.q_proj", 7}}}}).rankOf(kQuery), 7);
}

TEST(AdapterConfig, TheRestOfWhatIsKnown) {
  EXPECT_EQ(good({{"bias", "all"}}).bias, AdapterBias::All);
  EXPECT_EQ(good({{"bias", "lora_only"}}).bias, AdapterBias::OfTargets);
  EXPECT_TRUE(good({{"lora_bias", true}}).hasBias);
  EXPECT_EQ(good({{"init_lora_weights", "gaussian"}}).start, AdapterStart::Gaussian);
  EXPECT_EQ(good({{"init_lora_weights", "orthogonal"}}).start, AdapterStart::Orthogonal);
  EXPECT_EQ(good({{"init_lora_weights", false}}).start, AdapterStart::Given);
  EXPECT_EQ(good({{"fan_in_fan_out", true}}).rank, 4);
}

TEST(AdapterConfig, DefaultsAreSilentKnownOrNot) {
  good({{"lora_dropout", 0.0},
        {"use_dora", false},
        {"megatron_core", "megatron.core"},
        {"qalora_group_size", 16},
        {"peft_version", "0.21.2"},
        {"inference_mode", true},
        {"base_model_name_or_path", "some/model"},
        {"revision", nullptr},
        {"eva_config", nullptr},
        {"loftq_config", Json::object()},
        {"something_new", nullptr},
        {"something_else", false},
        {"another", ""},
        {"more", Json::array()}});
}

TEST(AdapterConfig, SettingsOfOtherStartsAreNotRead) {
  // PEFT warns of these and reads none, unless init_lora_weights names what they are for.
  for (const char *key : {"corda_config", "eva_config", "loftq_config", "lora_ga_config"})
    EXPECT_TRUE(parse({{key, {{"rho", 2.0}}}}).isOk()) << key;
  EXPECT_TRUE(parse({{"megatron_config", nullptr}, {"megatron_core", "megatron.core"}}).isOk());
}

TEST(AdapterConfig, WhatIsNotThereIsRefusedByName) {
  const std::pair<Json, const char *> bad[] = {
      {{{"peft_type", "IA3"}}, "peft_type"},
      {{{"task_type", "SEQ_CLS"}}, "task_type"},
      {{{"r", 0}}, "r: a rank"},
      {{{"r", "4"}}, "r: expected a whole number"},
      {{{"lora_alpha", "8"}}, "lora_alpha"},
      {{{"rank_pattern", {{"q_proj", 2.5}}}}, "rank_pattern"},
      {{{"alpha_pattern", 4}}, "alpha_pattern"},
      {{{"target_modules", nullptr}}, "target_modules"},
      {{{"target_modules", "(q"}}, "regular expression"},
      {{{"target_modules", 3}}, "target_modules"},
      {{{"lora_dropout", 1.5}}, "lora_dropout"},
      {{{"bias", "some"}}, "bias"},
      {{{"use_rslora", "yes"}}, "use_rslora"},
      {{{"layers_to_transform", {"one"}}}, "layers_to_transform"},
      {{{"layers_pattern", "layers"}}, "layers_pattern"},
      {{{"init_lora_weights", "pissa_niter_4"}}, "principal part"},
      {{{"init_lora_weights", "olora"}}, "olora"},
      {{{"init_lora_weights", "loftq"}}, "quantised"},
      {{{"init_lora_weights", "corda"}}, "corda"},
      {{{"init_lora_weights", "eva"}}, "found in data"},
      {{{"init_lora_weights", "moon"}}, "init_lora_weights"},
      {{{"init_lora_weights", "orthogonal"}, {"r", 3}}, "even rank"},
      {{{"use_dora", true}, {"lora_bias", true}}, "use_dora"},
      {{{"target_parameters", {"experts.gate_up_proj"}}, {"lora_dropout", 0.5}}, "no lora_dropout"},
      {{{"target_parameters", {"experts.gate_up_proj"}}, {"use_dora", true}}, "no use_dora"},
      {{{"target_parameters", 3}}, "target_parameters"},
      {{{"trainable_token_indices", {1, 2, 1}}}, "trainable_token_indices"},
      {{{"trainable_token_indices", {-1}}}, "trainable_token_indices"},
      {{{"trainable_token_indices", {{"embed_tokens", "all"}}}}, "trainable_token_indices"},
      {{{"layer_replication", Json::array({Json::array({0, 2})})}}, "layer_replication"},
      {{{"use_qalora", true}}, "use_qalora"},
      {{{"qalora_group_size", 32}}, "qalora_group_size"},
      {{{"alora_invocation_tokens", {1}}}, "alora_invocation_tokens"},
      {{{"megatron_config", {{"tensor_model_parallel_size", 2}}}}, "megatron_config: {\"tensor_model"},
      {{{"megatron_core", "other.core"}}, "megatron_core"},
      {{{"kasa_config", {{"beta", 1e-4}}}}, "terms to the loss"},
      {{{"arrow_config", {{"top_k", 3}}}}, "several adapters"},
      {{{"ensure_weight_tying", true}}, "ensure_weight_tying"},
      {{{"eva_config", "yes"}}, "eva_config: expected an object"},
      {{{"init_lora_weights", "corda"}, {"corda_config", {{"corda_method", "kpm"}}}}, "init_lora_weights: 'corda'"},
      {{{"init_lora_weights", "lora_ga"}, {"lora_ga_config", {{"scale", "stable"}}}}, "init_lora_weights: 'lora_ga'"},
      {{{"something_new", 3}}, "something_new"},
  };
  for (const auto &[more, words] : bad) {
    const StatusOr<AdapterConfig> config = parse(more);
    ASSERT_FALSE(config.isOk()) << more.dump();
    EXPECT_NE(config.status().message().find(words), std::string::npos) << config.status().message();
    EXPECT_TRUE(config.status().message().starts_with("DIR/adapter_config.json: ")) << config.status().message();
  }
  EXPECT_FALSE(parseAdapterConfig("[]", "x").isOk());
  EXPECT_FALSE(parseAdapterConfig("{", "x").isOk());
}

TEST(AdapterConfig, RowsOfTablesThatAreTrained) {
  AdapterConfig config = good({{"trainable_token_indices", {7, 3}}});
  ASSERT_TRUE(config.rowsOf("model.embed_tokens"));
  EXPECT_EQ(config.rowsOf("model.embed_tokens")->rows, (std::vector<int64_t>{7, 3}));
  config = good({{"trainable_token_indices", {{"embed_tokens", {5}}}}, {"target_modules", nullptr}});
  EXPECT_TRUE(config.rowsOf("model.embed_tokens"));
  EXPECT_FALSE(config.rowsOf("model.lm_head"));
}

TEST(AdapterConfig, ExpertsArePartsOfStacks) {
  const std::optional<ExpertPart> up = expertPartOf("model.layers.1.mlp.experts.12.up_proj");
  ASSERT_TRUE(up);
  EXPECT_EQ(up->stack, "model.layers.1.mlp.experts.gate_up_proj");
  EXPECT_EQ(up->expert, 12);
  EXPECT_TRUE(up->isHalf && up->isSecond);
  const std::optional<ExpertPart> down = expertPartOf("model.layers.0.block_sparse_moe.experts.0.w2");
  ASSERT_TRUE(down);
  EXPECT_EQ(down->stack, "model.layers.0.mlp.experts.down_proj") << "as transformers calls it";
  EXPECT_FALSE(down->isHalf);
  for (const char *other : {"model.layers.1.mlp.up_proj", "experts.0.up_proj", "model.experts.up_proj",
                            "model.experts.1x.up_proj", "model.experts.1", "model.experts.1.gate"})
    EXPECT_FALSE(expertPartOf(other)) << other;
  AdapterConfig one = good({{"target_parameters", {"experts.gate_up_proj"}}});
  EXPECT_TRUE(one.targetsParameter(up->stack));
  EXPECT_FALSE(one.targetsParameter(down->stack));
  EXPECT_EQ(one.stackName(up->stack), "model.layers.1.mlp.experts");
  AdapterConfig both = good({{"target_parameters", {"experts.gate_up_proj", "mlp.experts.down_proj"}}});
  EXPECT_EQ(both.stackName(up->stack), "model.layers.1.mlp.experts.base_layer")
      << "the last parameter is the outer one";
  EXPECT_EQ(both.stackName(down->stack), "model.layers.0.mlp.experts");
}

TEST(AdapterConfig, WeightsAreParametersOfTheirModules) {
  AdapterConfig config = good({{"target_parameters", {"gate.weight"}},
                               {"rank_pattern", {{"gate.weight", 2}, {"mlp.gate", 3}}},
                               {"alpha_pattern", {{"gate", 1}}}});
  EXPECT_TRUE(config.targetsWeightOf("model.layers.0.mlp.gate"));
  EXPECT_FALSE(config.targetsWeightOf("model.layers.0.mlp.shared_expert_gate"));
  EXPECT_FALSE(config.targetsModule("model.layers.0.mlp.gate"));
  EXPECT_EQ(config.rankOf("model.layers.0.mlp.gate"), 2) << "patterns are held against the parameter's name";
  EXPECT_DOUBLE_EQ(config.scaleOf("model.layers.0.mlp.gate"), 8.0 / 2);
}

TEST(AdapterConfig, StacksHaveTransformersNames) {
  EXPECT_EQ(stacksOfTensor("model.layers.0.mlp.experts.down_proj"),
            (std::vector<std::string>{"model.layers.0.mlp.experts.down_proj"}));
  EXPECT_EQ(stacksOfTensor("model.layers.0.block_sparse_moe.input_linear.weight"),
            (std::vector<std::string>{"model.layers.0.block_sparse_moe.experts.gate_up_proj",
                                      "model.layers.0.block_sparse_moe.input_linear.weight"}));
  for (const char *other : {"model.layers.0.mlp.down_proj", "model.experts.down_proj_bias", "experts.down_proj.weight"})
    EXPECT_TRUE(stacksOfTensor(other).empty()) << other;
  EXPECT_TRUE(hasInputsFirst("gpt_oss") && !hasInputsFirst("granitemoe") && swapsStacks("llama4_text"));
}

TEST(AdapterConfig, RoutersHaveTransformersNames) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(routerNames("model.layers.0.block_sparse_moe.gate.weight"),
            (Names{"model.layers.0.mlp.gate.weight", "model.layers.0.mlp.router.weight"}));
  for (const char *other : {"model.layers.0.mlp.gate", "model.layers.0.block_sparse_moe.gates",
                            "model.layers.0.block_sparse_moe.experts.0.w1"}) {
    EXPECT_TRUE(routerNames(other).empty()) << other;
    EXPECT_EQ(moduleOfTransformers5(other, "mixtral"), other);
  }
  EXPECT_EQ(moduleOfTransformers5("layers.0.block_sparse_moe.gate", "mixtral"), "layers.0.mlp.gate");
  EXPECT_EQ(moduleOfTransformers5("layers.0.block_sparse_moe.gate", "phimoe"), "layers.0.mlp.router");
  const Names stored = checkpointNames("model.layers.0.mlp.gate.weight");
  EXPECT_EQ(stored.front(), "model.layers.0.mlp.gate.weight");
  EXPECT_EQ(stored[2], "model.layers.0.block_sparse_moe.gate.weight");
  EXPECT_EQ(checkpointNames("model.mlp.gate_proj.weight"),
            (Names{"model.mlp.gate_proj.weight", "mlp.gate_proj.weight", "model.feed_forward.w1.weight",
                   "model.block_sparse_moe.gate_proj.weight", "backbone.mlp.gate_proj.weight"}));
}

TEST(AdapterConfig, FamiliesHaveTransformersNames) {
  using Names = std::vector<std::string>;
  const std::string stored = "layers.1.mlp.shared_mlp.up_proj.weight",
                    module = "layers.1.mlp.shared_experts.up_proj.weight";
  EXPECT_EQ(moduleOfFamily(stored, "hy_v3"), module);
  EXPECT_EQ(storedOfFamily(module, "hy_v3"), stored);
  EXPECT_EQ(moduleOfFamily("layers.1.mlp.router.gate", "hy_v3"), "layers.1.mlp.gate");
  EXPECT_EQ(moduleOfFamily("layers.1.mlp.shared_expert.up_proj", "laguna"), "layers.1.mlp.shared_experts.up_proj");
  for (const char *other : {"layers.1.mlp.shared_mlp.up_proj", "layers.1.mlp.shared_expert.up_proj"})
    EXPECT_EQ(moduleOfFamily(other, "hunyuan_v1_moe"), other);
  const std::string down = "layers.1.attention.wkv_b", up = "model.language_model.layers.1.self_attn.kv_b_proj";
  EXPECT_EQ(moduleOfFamily(down, "mistral_large4"), up);
  EXPECT_EQ(storedOfFamily(up, "mistral_large4"), down);
  EXPECT_EQ(moduleOfFamily("layers.1.attention_norm", "mistral_large4"),
            "model.language_model.layers.1.attention_norm");
  const Names downs = checkpointNames(up), ups = familyNames(down);
  EXPECT_NE(std::ranges::find(downs, down), downs.end());
  EXPECT_NE(std::ranges::find(ups, up), ups.end());
  EXPECT_EQ(moduleOfFamily("model.layers.1.share_expert.up_proj", "step3p7"),
            "model.layers.1.mlp.shared_experts.up_proj");
  EXPECT_EQ(moduleOfFamily("layers.1.mlp.shared_expert_gate", "laguna"), "layers.1.mlp.shared_expert_gate");
  EXPECT_EQ(familyNames("model." + stored), Names{"model." + module});
  const std::string backbone = "backbone.layers.0.mixer.in_proj", model = "model.layers.0.mixer.in_proj";
  EXPECT_EQ(moduleOfFamily(backbone, "nemotron_h"), model);
  EXPECT_EQ(storedOfFamily(model, "nemotron_h"), backbone);
  EXPECT_EQ(moduleOfFamily(backbone, "mamba2"), backbone);
  EXPECT_EQ(moduleOfFamily("layers.0.self_attn.gate_proj", "lfm3"), "layers.0.self_attn.g_proj");
  EXPECT_EQ(moduleOfFamily("layers.0.self_attn.f_a_proj", "kimi_linear"), "layers.0.self_attn.forget_gate.f_a_proj");
  EXPECT_EQ(familyNames(backbone), Names{model});
  EXPECT_TRUE(refusesAdapter("model.layers.0.mixer.out_proj", "nemotron_h"));
  EXPECT_FALSE(refusesAdapter("model.layers.0.mixer.in_proj", "nemotron_h"));
  EXPECT_FALSE(refusesAdapter("model.layers.0.mamba.out_proj", "granitemoehybrid"));
  const Names names = checkpointNames("model." + module);
  EXPECT_NE(std::ranges::find(names, "model." + stored), names.end());
  EXPECT_TRUE(takesExpertsAsLinear("mixtral") && takesExpertsAsLinear("qwen3_moe"));
  EXPECT_TRUE(takesExpertsAsLinear("glm4v_moe") && takesExpertsAsLinear("qwen3_omni_moe_thinker"));
  EXPECT_FALSE(takesExpertsAsLinear("qwen2_moe") || takesExpertsAsLinear("hy_v3") || takesExpertsAsLinear(""));
}

TEST(AdapterConfig, StacksChangeExpertByExpert) {
  // Two experts of 2 outputs and 3 inputs, rank 1: W[e][o][i] += b[e][o] a[e][i].
  WeightChange change;
  change.rank = 1, change.experts = 2, change.scale = 2;
  change.a = {1, 2, 3, 4, 5, 6};
  change.b = {1, 10, 100, 1000};
  std::vector<float> all(12), piece(5);
  change.apply(3, 0, 12, all.data());
  EXPECT_EQ(all, (std::vector<float>{2, 4, 6, 20, 40, 60, 800, 1000, 1200, 8000, 10000, 12000}));
  change.apply(3, 4, 5, piece.data());
  EXPECT_EQ(piece, std::vector<float>(all.begin() + 4, all.begin() + 9));
  change.isTransposed = true; // the tensor is (experts, inputs, outputs)
  std::vector<float> turned(12);
  change.apply(2, 0, 12, turned.data());
  EXPECT_EQ(turned, (std::vector<float>{2, 20, 4, 40, 6, 60, 800, 8000, 1000, 10000, 1200, 12000}));
}

TEST(AdapterConfig, ShortFormsMakeOne) {
  StatusOr<std::string> text = adapterConfigText("r=16,alpha=32,targets=all-linear");
  ASSERT_TRUE(text.isOk());
  StatusOr<AdapterConfig> config = parseAdapterConfig(*text, "--lora");
  ASSERT_TRUE(config.isOk()) << config.status().message();
  EXPECT_TRUE(config->isAllLinear);
  EXPECT_EQ(config->rank, 16);
  EXPECT_DOUBLE_EQ(config->scaleOf(kQuery), 2.0);
  text = adapterConfigText("r=2,targets=q_proj+mlp.up_proj,rslora=true,bias=all,init=gaussian");
  ASSERT_TRUE(text.isOk());
  config = parseAdapterConfig(*text, "--lora");
  ASSERT_TRUE(config.isOk());
  EXPECT_EQ(config->targets.list, (std::vector<std::string>{"q_proj", "mlp.up_proj"}));
  EXPECT_TRUE(config->dividesByRoot);
  EXPECT_EQ(config->start, AdapterStart::Gaussian);
  text = adapterConfigText("r=2,dora=true");
  ASSERT_TRUE(text.isOk());
  EXPECT_TRUE(parseAdapterConfig(*text, "--lora")->hasMagnitude);
  for (const char *words : {"rank=4", "r", "r=", "targets"})
    EXPECT_FALSE(adapterConfigText(words).isOk()) << words;
}

TEST(AdapterConfig, ConfigurationsAreComparedByWhatTheyMean) {
  const std::string one = R"({"r": 4, "lora_alpha": 8})";
  EXPECT_EQ(differenceOfAdapters(one, R"({"r": 4, "lora_alpha": 8.0, "inference_mode": true, "bias": "none"})"), "");
  EXPECT_NE(differenceOfAdapters(one, R"({"r": 4, "lora_alpha": 16})").find("lora_alpha is 16"), std::string::npos);
  EXPECT_NE(differenceOfAdapters(one, R"({"r": 4, "lora_alpha": 8, "use_rslora": true})"), "");
  EXPECT_EQ(differenceOfAdapters("{}", R"({"r": 8, "lora_alpha": 8, "rank_pattern": {}})"), "");
}

TEST(AdapterConfig, DropoutIsAShare) {
  EXPECT_EQ(good({{"lora_dropout", 0.1}}).dropout, 0.1);
  EXPECT_EQ(good({{"lora_dropout", 0.0}}).dropout, 0);
  StatusOr<std::string> text = adapterConfigText("r=4,dropout=0.05");
  ASSERT_TRUE(text.isOk());
  EXPECT_EQ(parseAdapterConfig(*text, "--lora")->dropout, 0.05);
}

TEST(AdapterConfig, WrittenAsPeftReadsIt) {
  AdapterConfig config = good({{"target_modules", "all-linear"}, {"inference_mode", false}});
  const Json json =
      parseJson<Json>(writtenAdapterConfig(config, {"down_proj", "q_proj"}, "/some/model", /*fanInFanOut=*/true));
  EXPECT_EQ(json["target_modules"], Json({"down_proj", "q_proj"}));
  EXPECT_EQ(json["base_model_name_or_path"], "/some/model");
  EXPECT_EQ(json["inference_mode"], true);
  EXPECT_EQ(json["r"], 4);
}

TEST(NamePattern, TakesTimeThatGrowsWithTheName) {
  StatusOr<NamePattern> pattern = NamePattern::parse("(a*)*(a*)*(a|aa)+b");
  ASSERT_TRUE(pattern.isOk());
  EXPECT_FALSE(pattern->matches(std::string(60, 'a')));
  EXPECT_FALSE(NamePattern::parse("[z-a]").isOk());
}

} // namespace
} // namespace ztc
