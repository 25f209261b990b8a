// Weights in, checkpoints out and in again, export, gradient dumps: values exact, failures leave what was there.
#include "runtime/Checkpoint/Checkpoint.h"
#include "Scratch.h"
#include "TinyRun.h"
#include "runtime/Checkpoint/Export.h"
#include "runtime/Checkpoint/Weights.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Core/Random.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Format/Safetensors.h"
#include <cmath>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sys/resource.h>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

constexpr const char *kNames[] = {"layers.0.weight", "layers.0.bias", "layers.0.norm.weight", "embed.weight"};

std::vector<float> floatsOf(const SafetensorsFile &file, const std::string &name) {
  const SafetensorsTensor *tensor = file.find(name);
  if (!tensor)
    return {};
  std::vector<float> values(tensor->bytes / 4);
  std::memcpy(values.data(), file.data(*tensor).data(), tensor->bytes);
  return values;
}

TEST(Checkpoint, WhatIsSavedIsLoaded) {
  const Scratch scratch;
  TinyRun first, second;
  first.fill(1);
  const StatusOr<std::string> path = saveCheckpoint(first.context(), stateAt(10), scratch.path("ck"));
  ASSERT_OK(path.status());
  EXPECT_EQ(*path, scratch.path("ck/step-00000010"));
  const StatusOr<FoundCheckpoint> found = findCheckpoint(scratch.path("ck"), second.staging);
  ASSERT_OK(found.status());
  EXPECT_EQ(found->path, *path);
  EXPECT_EQ(printTrainerState(found->state), printTrainerState(stateAt(10)));
  ASSERT_OK(loadCheckpoint(second.context(), found->path));
  for (const char *name : kNames) {
    EXPECT_EQ(second.values(name), first.values(name)) << name;
    if (std::string_view(name) != "embed.weight") {
      EXPECT_EQ(second.values(name, 1), first.values(name, 1)) << name;
      EXPECT_EQ(second.values(name, 2), first.values(name, 2)) << name;
    }
  }
  EXPECT_EQ(second.slots[0][35], -1.0f) << "padding is not touched";
  EXPECT_EQ(names(*path),
            (std::vector<std::string>{"exp_avg-00001-of-00001.safetensors", "exp_avg.safetensors.index.json",
                                      "exp_avg_sq-00001-of-00001.safetensors", "exp_avg_sq.safetensors.index.json",
                                      "manifest.json", "model-00001-of-00001.safetensors",
                                      "model.safetensors.index.json", "trainer.json"}));
  EXPECT_TRUE(findCheckpoint(*path, second.staging).isOk()) << "a step folder itself";
  EXPECT_TRUE(findCheckpoint(*path + "/", second.staging).isOk());
}

TEST(Checkpoint, HoldsTheStatesThatThePlanNames) {
  plan::Plan plan = smallPlan();
  plan.mutable_buckets(0)->mutable_states()->RemoveLast();
  plan.mutable_buckets(0)->mutable_states(0)->set_name("momentum");
  const Scratch scratch;
  TinyRun first(plan), second(plan), adam;
  first.fill(1);
  const StatusOr<std::string> path = saveCheckpoint(first.context(), stateAt(1), scratch.path());
  ASSERT_OK(path.status());
  EXPECT_EQ(names(*path),
            (std::vector<std::string>{"manifest.json", "model-00001-of-00001.safetensors",
                                      "model.safetensors.index.json", "momentum-00001-of-00001.safetensors",
                                      "momentum.safetensors.index.json", "trainer.json"}));
  EXPECT_OK(findCheckpoint(scratch.path(), second.staging).status());
  ASSERT_OK(loadCheckpoint(second.context(), *path));
  EXPECT_EQ(second.values("layers.0.weight", 1), first.values("layers.0.weight", 1));
  EXPECT_THAT(loadCheckpoint(adam.context(), *path).message(), HasSubstr("neither exp_avg.safetensors nor"));
}

/// The bytes of the tensors of a file, by name.
std::map<std::string, std::string> tensorsOf(const std::string &path) {
  std::map<std::string, std::string> tensors;
  const StatusOr<SafetensorsFile> file = SafetensorsFile::open(path);
  EXPECT_OK(file.status());
  for (const SafetensorsTensor &tensor : file->tensors()) {
    const auto data = file->data(tensor);
    tensors[tensor.name] = tensor.typeName + std::string(reinterpret_cast<const char *>(data.data()), data.size());
  }
  return tensors;
}

TEST(Checkpoint, NarrowParametersAreSavedAsTheirMasters) {
  const Scratch scratch;
  TinyRun wide;
  wide.fill(1.2345678f);
  const std::string first = *saveCheckpoint(wide.context(), stateAt(1), scratch.path("fp32"));
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    plan::Plan plan = smallPlan();
    makeNarrow(plan, type);
    TinyRun run(plan);
    ASSERT_OK(loadCheckpoint(run.context(), first)); // a checkpoint is not tied to a precision
    const auto *parameters = reinterpret_cast<const uint16_t *>(run.slots[plan.buckets(0).parameter_slot()].data());
    const std::vector<float> masters = wide.values("layers.0.weight");
    for (size_t i = 0; i < masters.size(); ++i)
      EXPECT_EQ(parameters[i], type == plan::BF16 ? splitMaster(masters[i]).parameter : toF16(masters[i])) << i;

    const std::string folder = scratch.path(plan.precision());
    const std::string second = *saveCheckpoint(run.context(), stateAt(1), folder);
    auto want = tensorsOf(first + "/model-00001-of-00001.safetensors"),
         got = tensorsOf(second + "/model-00001-of-00001.safetensors");
    EXPECT_NE(want["embed.weight"], got["embed.weight"]) << "frozen: it has no master, and is rounded";
    want.erase("embed.weight"), got.erase("embed.weight");
    EXPECT_EQ(got, want) << "masters are exact";
    EXPECT_EQ(tensorsOf(second + "/exp_avg_sq-00001-of-00001.safetensors"),
              tensorsOf(first + "/exp_avg_sq-00001-of-00001.safetensors"));
    for (float value :
         floatsOf(*SafetensorsFile::open(second + "/exp_avg-00001-of-00001.safetensors"), "layers.0.weight"))
      EXPECT_EQ(value, fromBf16(toBf16(value))) << "moments in bf16 are saved as f32, exactly";

    // What was saved is loaded and saved again: the same bytes.
    TinyRun again(plan);
    ASSERT_OK(loadCheckpoint(again.context(), second));
    const std::string third = *saveCheckpoint(again.context(), stateAt(1), folder + "2");
    for (const std::string &name : names(second))
      EXPECT_EQ(*readWholeFile(third + "/" + name), *readWholeFile(second + "/" + name)) << name;
  }
}

TEST(Export, NarrowParametersGoAsTheyAre) {
  const Scratch scratch;
  plan::Plan plan = smallPlan();
  makeNarrow(plan, plan::BF16);
  TinyRun run(plan);
  // The master 1 + 2^-8: the parameter rounds half away from zero, to 1 + 2^-7; nearest even would be 1.
  auto *parameters = reinterpret_cast<uint16_t *>(run.slots[plan.buckets(0).parameter_slot()].data());
  auto *remainders = reinterpret_cast<int16_t *>(run.slots[plan.buckets(0).master_slot()].data());
  const SplitMaster split = splitMaster(1 + 0x1p-8f);
  std::fill_n(parameters, 35, split.parameter);
  std::fill_n(remainders, 35, split.remainder);
  ASSERT_OK(exportModel(run.context(), {.folder = scratch.path("bf16"), .type = plan::BF16, .weightTypes = {}}));
  ASSERT_OK(exportModel(run.context(), {.folder = scratch.path("fp32"), .type = plan::F32, .weightTypes = {}}));
  const uint16_t wanted = toBf16(1 + 0x1p-7f);
  EXPECT_EQ(tensorsOf(scratch.path("bf16/model.safetensors"))["layers.0.bias"].substr(4, 2),
            std::string(reinterpret_cast<const char *>(&wanted), 2));
  EXPECT_EQ(floatsOf(*SafetensorsFile::open(scratch.path("fp32/model.safetensors")), "layers.0.bias"),
            std::vector<float>(6, 1 + 0x1p-8f));
}

TEST(Checkpoint, MastersSplitWithoutLoss) {
  for (float value : {0.0f, -0.0f, 1.0f, -1.0f, 1 + 0x1p-8f, -1 - 0x1p-8f, 1 + 0x1p-8f - 0x1p-23f, 3.4028235e38f,
                      1.17549435e-38f, 1e-45f, -2.7182818f, INFINITY}) {
    const SplitMaster split = splitMaster(value);
    EXPECT_EQ(joinMaster(split.parameter, split.remainder), value);
    EXPECT_EQ(std::signbit(joinMaster(split.parameter, split.remainder)), std::signbit(value));
    if (std::isfinite(fromBf16(split.parameter)))
      EXPECT_LE(std::abs(double(fromBf16(split.parameter)) - value), 0x1p-8 * std::abs(double(value)) + 0x1p-133);
  }
}

TEST(Checkpoint, FilesDependOnTheStateAloneAndTheSameStepIsReplaced) {
  const Scratch scratch;
  TinyRun run;
  run.fill(1);
  const auto content = [&](const std::string &folder) {
    std::string all;
    for (const std::string &name : names(folder))
      all += *readWholeFile(folder + "/" + name);
    return all;
  };
  const std::string path = *saveCheckpoint(run.context(), stateAt(3), scratch.path("a"));
  const std::string before = content(path);
  run.staging.resize(kMinimumStagingBytes * 3 + 4);
  EXPECT_EQ(content(*saveCheckpoint(run.context(), stateAt(3), scratch.path("b"))), before);
  run.fill(2);
  EXPECT_NE(content(*saveCheckpoint(run.context(), stateAt(3), scratch.path("a"))), before);
  EXPECT_EQ(names(scratch.path("a")).size(), 1u);
}

TEST(Checkpoint, ADamagedOneIsNamedAndSkipped) {
  const Scratch scratch;
  TinyRun run;
  run.fill(1);
  for (uint64_t step : {1, 2, 3, 4})
    ASSERT_OK(saveCheckpoint(run.context(), stateAt(step), scratch.path()).status());
  const auto damage = [&](const std::string &file, const std::function<void(std::string &)> &change) {
    std::string bytes = *readWholeFile(scratch.path(file));
    change(bytes);
    scratch.write(file, bytes);
  };
  damage("step-00000004/model-00001-of-00001.safetensors", [](std::string &bytes) { bytes.pop_back(); });
  damage("step-00000003/exp_avg-00001-of-00001.safetensors", [](std::string &bytes) { bytes.back() ^= 1; });
  EXPECT_OK(removeAll(scratch.path("step-00000002/manifest.json")));
  const StatusOr<FoundCheckpoint> found = findCheckpoint(scratch.path(), run.staging);
  ASSERT_OK(found.status());
  EXPECT_EQ(found->state.step, 1u);
  ASSERT_EQ(found->skipped.size(), 3u);
  EXPECT_THAT(found->skipped[0], HasSubstr("step-00000004"));
  EXPECT_THAT(found->skipped[1], HasSubstr("corrupted"));
  EXPECT_OK(removeAll(scratch.path("step-00000001/trainer.json")));
  EXPECT_EQ(findCheckpoint(scratch.path(), run.staging).status().code(), StatusCode::NotFound);
  EXPECT_EQ(findCheckpoint(scratch.path("none"), run.staging).status().code(), StatusCode::NotFound);
  EXPECT_EQ(findCheckpoint(scratch.path("step-00000004"), run.staging).status().code(), StatusCode::DataLoss);
}

TEST(Checkpoint, AnotherModelIsRefused) {
  const Scratch scratch;
  TinyRun run;
  run.fill(1);
  const std::string path = *saveCheckpoint(run.context(), stateAt(1), scratch.path());
  plan::Plan renamed = smallPlan(), reshaped = smallPlan(), thawed = smallPlan();
  renamed.mutable_parameters(1)->set_name("layers.1.bias");
  reshaped.mutable_parameters(0)->set_shape(0, 6), reshaped.mutable_parameters(0)->set_shape(1, 4);
  TinyRun a(renamed), b(reshaped);
  EXPECT_THAT(loadCheckpoint(a.context(), path).message(), HasSubstr("layers.1.bias"));
  EXPECT_THAT(loadCheckpoint(b.context(), path).message(), HasSubstr("[4, 6]"));
}

TEST(Checkpoint, AFullDiskLeavesOlderCheckpoints) {
  const Scratch scratch;
  TinyRun run;
  run.fill(1);
  ASSERT_OK(saveCheckpoint(run.context(), stateAt(1), scratch.path(), {.keep = 1}).status());
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{300, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const StatusOr<std::string> saved = saveCheckpoint(run.context(), stateAt(2), scratch.path(), {.keep = 1});
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(saved.status().code(), StatusCode::ResourceExhausted) << saved.status().message();
  EXPECT_EQ(names(scratch.path()), std::vector<std::string>{"step-00000001"});
  EXPECT_EQ(findCheckpoint(scratch.path(), run.staging)->state.step, 1u);
}

TEST(Checkpoint, SpaceAndAccessAreCheckedBeforeARun) {
  const Scratch scratch;
  EXPECT_OK(prepareCheckpoints(smallPlan(), scratch.path("new/folder")));
  EXPECT_TRUE(isFolder(scratch.path("new/folder")));
  EXPECT_FALSE(prepareCheckpoints(smallPlan(), "/proc/nothing").isOk());
  plan::Plan huge = smallPlan();
  huge.mutable_parameters(0)->set_shape(0, int64_t(1) << 50);
  EXPECT_EQ(prepareCheckpoints(huge, scratch.path()).code(), StatusCode::ResourceExhausted);
  ExportOptions options;
  options.folder = scratch.path();
  EXPECT_EQ(prepareExport(huge, options).code(), StatusCode::ResourceExhausted);
}

TEST(TrainerState, AbsoluteMaximaHaveNames) {
  const std::string text = printTrainerState(stateAt(7));
  const StatusOr<TrainerState> read = parseTrainerState(text, "t");
  ASSERT_OK(read.status());
  EXPECT_EQ(read->fp8Maxima, stateAt(7).fp8Maxima);
  for (const char *wrong : {"-1", "\"3.5\"", "1e60"}) {
    std::string damaged = text;
    damaged.replace(damaged.find("3.5"), 3, wrong);
    EXPECT_FALSE(parseTrainerState(damaged, "t").isOk()) << wrong;
  }
}

TEST(TrainerState, DamagedTextIsRefused) {
  const std::string text = printTrainerState(stateAt(7));
  EXPECT_TRUE(parseTrainerState(text, "t").isOk());
  for (size_t length = 0; length + 2 < text.size(); ++length)
    EXPECT_FALSE(parseTrainerState(std::string_view(text).substr(0, length), "t").isOk()) << length;
  EXPECT_FALSE(parseTrainerState(R"({"version":1,"step":-1})", "t").isOk());
  EXPECT_EQ(parseTrainerState(R"({"version":2})", "t").status().code(), StatusCode::FailedPrecondition);
}

/// weights.bin with the matrix transposed, as bf16, and the rest after it.
plan::Plan planWithSources(const Scratch &scratch, const std::string &path) {
  plan::Plan plan = smallPlan();
  std::string bytes = "header!";
  for (plan::Parameter &parameter : *plan.mutable_parameters()) {
    plan::WeightSource &source = *parameter.mutable_source();
    source.set_path(path);
    source.set_offset(bytes.size());
    const bool matrix = parameter.name() == "layers.0.weight";
    source.set_type(matrix ? plan::BF16 : plan::F32);
    source.set_transpose(matrix);
    const uint64_t count = *elementCount(parameter.shape());
    for (uint64_t i = 0; i < count; ++i) {
      if (matrix) { // stored [6, 4]: element (c, r) is 10 r + c
        const uint16_t bits = toBf16(static_cast<float>(10 * (i % 4) + i / 4));
        bytes.append(reinterpret_cast<const char *>(&bits), 2);
      } else {
        const auto value = static_cast<float>(i) + 0.25f;
        bytes.append(reinterpret_cast<const char *>(&value), 4);
      }
    }
    source.set_length(bytes.size() - source.offset());
    const Sha256Digest digest = Sha256::of(bytes.data() + source.offset(), source.length());
    source.set_sha256(digest.data(), digest.size());
  }
  for (plan::Parameter &parameter : *plan.mutable_parameters())
    parameter.mutable_source()->set_file_size(bytes.size());
  scratch.write("weights.bin", bytes);
  EXPECT_OK(validatePlan(plan));
  return plan;
}

TEST(Weights, FromThePlansSources) {
  const Scratch scratch;
  TinyRun run(planWithSources(scratch, scratch.path("weights.bin")));
  ASSERT_OK(checkWeights(run.plan, {}));
  ASSERT_OK(loadWeights(run.context(), {}));
  std::vector<float> matrix;
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 6; ++c)
      matrix.push_back(static_cast<float>(10 * r + c));
  EXPECT_EQ(run.values("layers.0.weight"), matrix);
  EXPECT_EQ(run.values("layers.0.bias"), (std::vector<float>{0.25f, 1.25f, 2.25f, 3.25f, 4.25f, 5.25f}));
  EXPECT_EQ(run.values("embed.weight")[20], 20.25f);

  WeightOptions relative;
  relative.planFolder = scratch.path();
  TinyRun other(planWithSources(scratch, "weights.bin"));
  EXPECT_OK(loadWeights(other.context(), relative));
  EXPECT_THAT(checkWeights(other.plan, {}).message(), HasSubstr("--weights"));

  // A plan that lies beside its weights on another machine than the one that compiled it.
  TinyRun copied(planWithSources(scratch, "/no/such/folder/weights.bin"));
  EXPECT_THAT(checkWeights(copied.plan, {}).message(), HasSubstr("/no/such/folder/weights.bin"));
  EXPECT_OK(loadWeights(copied.context(), relative));
  EXPECT_EQ(copied.values("embed.weight")[20], 20.25f);
}

TEST(Weights, DamagedSourcesAreNamed) {
  const Scratch scratch;
  TinyRun run(planWithSources(scratch, scratch.path("weights.bin")));
  const std::string good = *readWholeFile(scratch.path("weights.bin"));
  scratch.write("weights.bin", good.substr(0, good.size() - 1));
  EXPECT_THAT(checkWeights(run.plan, {}).message(), HasSubstr("when the plan was compiled"));
  for (plan::Parameter &parameter : *run.plan.mutable_parameters())
    parameter.mutable_source()->set_file_size(0);
  EXPECT_THAT(checkWeights(run.plan, {}).message(), HasSubstr("truncated"));
  std::string changed = good;
  changed[8] ^= 1;
  scratch.write("weights.bin", changed);
  EXPECT_OK(checkWeights(run.plan, {}));
  EXPECT_THAT(loadWeights(run.context(), {}).message(), HasSubstr("layers.0.weight"));
  EXPECT_OK(removeAll(scratch.path("weights.bin")));
  EXPECT_EQ(checkWeights(run.plan, {}).code(), StatusCode::NotFound);
  run.plan.mutable_parameters(1)->clear_source();
  const Status missing = checkWeights(run.plan, {});
  EXPECT_THAT(missing.message(), HasSubstr("layers.0.bias"));
  EXPECT_THAT(missing.message(), HasSubstr("--init"));
  EXPECT_EQ(loadWeights(run.context(), {}).message(), missing.message());
}

TEST(Weights, LargeTransposedMatricesInSmallPieces) {
  const Scratch scratch;
  constexpr int64_t kRows = 37, kColumns = 301; // more than one staging buffer, nothing divides anything
  plan::Plan plan = smallPlan();
  plan.mutable_parameters()->DeleteSubrange(1, 3);
  plan.mutable_parameters(0)->set_shape(0, kRows), plan.mutable_parameters(0)->set_shape(1, kColumns);
  plan.mutable_buckets(0)->set_elements(kRows * kColumns);
  plan.mutable_slots(0)->mutable_size()->set_elements(kRows * kColumns);
  std::string bytes;
  for (int64_t c = 0; c < kColumns; ++c)
    for (int64_t r = 0; r < kRows; ++r) {
      const auto value = static_cast<double>(r * kColumns + c);
      bytes.append(reinterpret_cast<const char *>(&value), 8);
    }
  plan::WeightSource &source = *plan.mutable_parameters(0)->mutable_source();
  source.set_path(scratch.write("w", bytes));
  source.set_type(plan::F64);
  source.set_length(bytes.size());
  source.set_transpose(true);
  TinyRun run(plan);
  ASSERT_OK(loadWeights(run.context(), {}));
  const std::vector<float> values = run.values("layers.0.weight");
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], static_cast<float>(i));
}

TEST(Weights, ByNameFromSafetensors) {
  const Scratch scratch;
  TinyRun first, second;
  first.fill(3);
  ExportOptions to;
  to.folder = scratch.path("hf");
  ASSERT_OK(exportModel(first.context(), to));
  WeightOptions options;
  options.weights = scratch.path("hf");
  ASSERT_OK(checkWeights(second.plan, options));
  ASSERT_OK(loadWeights(second.context(), options));
  for (const char *name : kNames)
    EXPECT_EQ(second.values(name), first.values(name));

  second.plan.mutable_parameters(3)->set_name("lm_head.weight");
  second.plan.mutable_parameters(3)->set_tied(0, "embed.weight");
  EXPECT_OK(loadWeights(second.context(), options)) << "found under its tied name";
  second.plan.mutable_parameters(0)->set_name("layers.7.weight");
  second.plan.mutable_parameters(1)->set_name("layers.7.bias");
  EXPECT_THAT(checkWeights(second.plan, options).message(),
              HasSubstr("lacks 2 of the model's 4 parameters: layers.7.weight, layers.7.bias"));
  TinyRun third;
  third.plan.mutable_parameters(0)->set_shape(0, 6), third.plan.mutable_parameters(0)->set_shape(1, 4);
  EXPECT_THAT(checkWeights(third.plan, options).message(), HasSubstr("has the shape [4, 6], the model needs [6, 4]"));
  options.weights = scratch.path("none");
  EXPECT_EQ(checkWeights(third.plan, options).code(), StatusCode::NotFound);
}

TEST(Weights, InitialisedByNameAndIndex) {
  TinyRun run, smaller;
  WeightOptions options;
  options.initDeviation = 0.02;
  options.seed = 9;
  EXPECT_OK(checkWeights(run.plan, options));
  ASSERT_OK(loadWeights(run.context(), options));
  const std::vector<float> matrix = run.values("layers.0.weight");
  for (size_t i = 0; i < matrix.size(); ++i)
    EXPECT_EQ(matrix[i], 0.02f * normalAt(9, hashName("layers.0.weight"), i));
  EXPECT_EQ(run.values("layers.0.bias"), std::vector<float>(6, 0.0f));
  EXPECT_EQ(run.values("layers.0.norm.weight"), std::vector<float>(5, 1.0f));
}

TEST(Export, FoldersAreCompleteAndTyped) {
  const Scratch scratch;
  plan::Plan plan = smallPlan();
  plan.mutable_model()->set_hf_config(R"({"model_type": "llama", "torch_dtype": "float32", "a": 1})");
  TinyRun run(plan);
  run.fill(1.5f);
  ExportOptions options;
  options.folder = scratch.path("out");
  options.type = plan::BF16;
  ASSERT_OK(prepareExport(plan, options));
  ASSERT_OK(exportModel(run.context(), options));
  EXPECT_EQ(names(options.folder), (std::vector<std::string>{"config.json", "model.safetensors"}));
  EXPECT_THAT(*readWholeFile(scratch.path("out/config.json")), HasSubstr("\"torch_dtype\": \"bfloat16\""));
  const StatusOr<SafetensorsFile> file = SafetensorsFile::open(scratch.path("out/model.safetensors"));
  ASSERT_OK(file.status());
  const SafetensorsTensor *tensor = file->find("layers.0.norm.weight");
  ASSERT_TRUE(tensor && tensor->type == plan::BF16);
  uint16_t bits[5];
  std::memcpy(bits, file->data(*tensor).data(), 10);
  for (size_t i = 0; i < 5; ++i)
    EXPECT_EQ(bits[i], toBf16(run.values("layers.0.norm.weight")[i]));
  EXPECT_EQ(file->find("lm_head.weight"), nullptr) << "tied once";
  EXPECT_EQ(file->tensors().size(), 4u);
}

TEST(Export, CompanionsAreCopiedStrangersStayOldShardsGo) {
  const Scratch scratch;
  TinyRun run;
  run.fill(1);
  ASSERT_OK(makeFolders(scratch.path("hf")));
  ASSERT_OK(makeFolders(scratch.path("out")));
  scratch.write("hf/config.json", R"({"dtype": "float16"})");
  scratch.write("hf/tokenizer.json", std::string(10'000, 't'));
  scratch.write("out/README.md", "mine");
  scratch.write("out/model-00001-of-00002.safetensors", "old");
  scratch.write("out/model.safetensors.index.json", "old");
  ExportOptions options;
  options.folder = scratch.path("out");
  options.companions.hfConfig = scratch.path("hf");
  ASSERT_OK(exportModel(run.context(), options));
  EXPECT_EQ(names(options.folder),
            (std::vector<std::string>{"README.md", "config.json", "model.safetensors", "tokenizer.json"}));
  EXPECT_THAT(*readWholeFile(scratch.path("out/config.json")), HasSubstr("float32"));
  EXPECT_EQ(readWholeFile(scratch.path("out/tokenizer.json"))->size(), 10'000u);
  options.companions.hfConfig = scratch.path("none");
  EXPECT_THAT(prepareExport(run.plan, options).message(), HasSubstr("config.json"));
  scratch.write("hf/config.json", "no json");
  options.companions.hfConfig = scratch.path("hf");
  EXPECT_FALSE(prepareExport(run.plan, options).isOk());
}

TEST(Export, AFullDiskLeavesTheOldModel) {
  const Scratch scratch;
  TinyRun run;
  run.fill(1);
  ExportOptions options;
  options.folder = scratch.path("out");
  ASSERT_OK(exportModel(run.context(), options));
  const std::string before = *readWholeFile(scratch.path("out/model.safetensors"));
  run.fill(2);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{300, old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status exported = exportModel(run.context(), options);
  const Status dumped = dumpGradients(run.context(), scratch.path("g.safetensors"), 1);
  options.folder = scratch.path("new");
  const Status fresh = exportModel(run.context(), options);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(exported.code(), StatusCode::ResourceExhausted) << exported.message();
  EXPECT_EQ(dumped.code(), StatusCode::ResourceExhausted);
  EXPECT_EQ(fresh.code(), StatusCode::ResourceExhausted);
  EXPECT_EQ(*readWholeFile(scratch.path("out/model.safetensors")), before);
  EXPECT_EQ(names(scratch.path()), std::vector<std::string>{"out"});
  EXPECT_EQ(names(scratch.path("out")).size(), 1u);
}

TEST(Export, TypesByName) {
  EXPECT_FALSE(parseExportType("")->has_value());
  EXPECT_EQ(**parseExportType("fp16"), plan::F16);
  EXPECT_FALSE(parseExportType("int4").isOk());
}

TEST(Export, EachTensorHasTheTypeOfItsWeights) {
  const Scratch scratch;
  plan::Plan plan = smallPlan();
  plan.set_precision("fp16");
  plan.mutable_model()->set_hf_config("{}");
  for (plan::Parameter &parameter : *plan.mutable_parameters()) {
    parameter.mutable_source()->set_path("somewhere");
    parameter.mutable_source()->set_type(parameter.shape_size() > 1 ? plan::BF16 : plan::F32);
  }
  TinyRun run(plan);
  run.fill(1.5f);
  ExportOptions options;
  options.folder = scratch.path("out");
  ASSERT_OK(exportModel(run.context(), options));
  const auto typeOf = [&](const char *name) {
    const StatusOr<SafetensorsFile> file = SafetensorsFile::open(scratch.path("out/model.safetensors"));
    return file.isOk() && file->find(name) ? file->find(name)->type : plan::DATA_TYPE_UNSPECIFIED;
  };
  EXPECT_EQ(typeOf("layers.0.weight"), plan::BF16);
  EXPECT_EQ(typeOf("layers.0.norm.weight"), plan::F32);
  EXPECT_THAT(*readWholeFile(scratch.path("out/config.json")), HasSubstr("\"torch_dtype\": \"bfloat16\""));
  // Weights that a run was given replace the plan's, in type too; what they do not name is as it is computed.
  options.companions.weights = scratch.path("out/model.safetensors");
  options.weightTypes = *typesOfWeights(plan, options.companions.weights);
  options.weightTypes["layers.0.weight"] = plan::F64;
  options.weightTypes.erase("layers.0.norm.weight");
  ASSERT_OK(exportModel(run.context(), options));
  EXPECT_EQ(typeOf("layers.0.weight"), plan::F32);
  EXPECT_EQ(typeOf("layers.0.norm.weight"), plan::F16);
}

TEST(Export, CompanionsComeFromTheWeightsFolderOrTheOneOfTheCompilation) {
  const Scratch scratch;
  for (const char *folder : {"compiled", "weights"}) {
    ASSERT_OK(makeFolders(scratch.path(folder)));
    scratch.write(std::string(folder) + "/config.json", std::string(R"({"of": ")") + folder + R"("})");
    scratch.write(std::string(folder) + "/tokenizer.json", folder);
    scratch.write(std::string(folder) + "/chat_template.jinja", folder);
  }
  scratch.write("compiled/modeling_own.py", "");
  plan::Plan plan = smallPlan();
  plan.mutable_model()->set_hf_config(R"({"of": "compiled"})");
  (*plan.mutable_options())[kModelFolder] = scratch.path("compiled");
  TinyRun run(plan);
  run.fill(1);
  ExportOptions options;
  options.folder = scratch.path("out");
  ASSERT_OK(exportModel(run.context(), options));
  EXPECT_EQ(names(options.folder), (std::vector<std::string>{"chat_template.jinja", "config.json", "model.safetensors",
                                                             "modeling_own.py", "tokenizer.json"}));
  EXPECT_EQ(*readWholeFile(scratch.path("out/tokenizer.json")), "compiled");
  EXPECT_THAT(describeExport(plan, options), HasSubstr("tokenizer of " + scratch.path("compiled")));
  scratch.write("weights/model.safetensors", *readWholeFile(scratch.path("out/model.safetensors")));
  options.companions.weights = scratch.path("weights");
  ASSERT_OK(exportModel(run.context(), options));
  EXPECT_EQ(*readWholeFile(scratch.path("out/tokenizer.json")), "weights");
  EXPECT_THAT(*readWholeFile(scratch.path("out/config.json")), HasSubstr("\"of\": \"weights\""));
}

TEST(Gradients, AreDumpedByNameTimesAFactor) {
  const Scratch scratch;
  TinyRun run;
  run.fill(1);
  ASSERT_OK(dumpGradients(run.context(), scratch.path("g.safetensors"), 0.5f));
  const StatusOr<SafetensorsFile> file = SafetensorsFile::open(scratch.path("g.safetensors"));
  ASSERT_OK(file.status());
  EXPECT_EQ(file->tensors().size(), 3u) << "the frozen parameter has no gradient";
  std::vector<float> expected = run.values("layers.0.weight", 3);
  for (float &x : expected)
    x *= 0.5f;
  EXPECT_EQ(floatsOf(*file, "layers.0.weight"), expected);
}

} // namespace
