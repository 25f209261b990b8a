// Algorithms of matrix products: which one is chosen, remembered, shared. On the stand-ins of tests/standin, whose
// cuBLASLt adds in another order with each algorithm.
#include "runtime/Train/Algorithms.h"
#include "tests/unit/runtime/CudaRunner.h"
#include "tests/unit/runtime/RankThreads.h"
#include "tests/unit/runtime/Scratch.h"
#include <chrono>
#include <gmock/gmock.h>
#include <thread>

namespace ztc::test {
namespace {

using ::testing::HasSubstr;

/// The stand-in's algorithms by number: 0 adds forward, 1 in halves (it needs workspace), 2 backward. 3 is not the same
/// each time, 4 wants too much workspace, 5 is none for these products.
constexpr const char *kFast = "ZTC_STAND_IN_ALGORITHMS";
constexpr uint64_t kSize = 48, kElements = kSize * kSize;

/// Two products, one with workspace; both of the same call signature but for that.
class Products : public CudaRunner {
public:
  Products() {
    const uint32_t a = slot(randomFloats(kElements, 1)), b = slot(randomFloats(kElements, 2));
    const uint32_t workspace = scratch(1 << 12, false);
    for (uint32_t &to : results_) {
      to = scratch(kElements * 4, false);
      plan::Step *product = step("product", {a, b, to});
      if (&to == &results_[1])
        product->add_operands()->set_slot(workspace);
      plan::Gemm &gemm = *product->mutable_gemm();
      gemm.set_m(kSize), gemm.set_n(kSize), gemm.set_k(kSize);
      gemm.set_lda(kSize), gemm.set_ldb(kSize), gemm.set_ldc(kSize);
      gemm.set_alpha(1);
      gemm.set_type_a(plan::F32);
      gemm.set_type_c(plan::F32);
    }
    scratch(1 << 18, false); // room for operands that no cache holds
  }

  /// Prepared, the arena zero.
  void prepareAll() {
    const Status status = prepare(1);
    ASSERT_TRUE(status.isOk()) << status.message();
  }
  TunedAlgorithms tune(const TuningRequest &request) {
    auto tuned = device().tuner()->tuneAlgorithms(arena(), request);
    EXPECT_TRUE(tuned.isOk()) << tuned.status().message();
    return tuned.isOk() ? *tuned : TunedAlgorithms();
  }
  /// Both results, with the algorithms that are chosen now.
  std::vector<float> results() {
    Status status = executor().initialize(arena());
    EXPECT_TRUE(status.isOk()) << status.message();
    status = run();
    EXPECT_TRUE(status.isOk()) << status.message();
    std::vector<float> all = read(results_[0], kElements);
    const std::vector<float> second = read(results_[1], kElements);
    all.insert(all.end(), second.begin(), second.end());
    return all;
  }

private:
  uint32_t results_[2] = {};
};

std::vector<float> resultsWithFast(const char *fast, double seconds = 100) {
  const Variable variable(kFast, fast);
  Products products;
  products.prepareAll();
  products.tune({.known = {}, .seconds = seconds});
  return products.results();
}

TEST(CudaTuning, TheFastestIsTakenOfThoseThatMayBe) {
  const std::vector<float> forward = resultsWithFast("0"), halves = resultsWithFast("1"),
                           backward = resultsWithFast("2");
  const auto first = [](const std::vector<float> &all) { return std::vector(all.begin(), all.begin() + kElements); };
  const auto second = [](const std::vector<float> &all) { return std::vector(all.begin() + kElements, all.end()); };
  EXPECT_EQ(first(forward), second(forward));
  EXPECT_EQ(first(backward), second(backward));
  EXPECT_NE(first(forward), first(backward));
  EXPECT_EQ(first(halves), first(forward)) << "without workspace it is none to choose from";
  EXPECT_NE(second(halves), second(forward));
  EXPECT_NE(second(halves), second(backward));
  // The first stays where nothing is measured, and where the library offers no other.
  EXPECT_EQ(resultsWithFast("2", 0), forward);
  Products one;
  one.prepareAll();
  EXPECT_EQ(one.tune({.known = {}, .seconds = 100}).measured.algorithms.size(), 0u);
  EXPECT_EQ(one.results(), forward);
}

TEST(CudaLimits, AreMeasuredOnOrdinaryNumbers) {
  auto device = standInDevice()(1);
  ASSERT_TRUE(device.isOk()) << device.status().message();
  const uint64_t before = calls("products of zeros");
  const auto limits = (*device)->gauges().measureLimits();
  ASSERT_TRUE(limits.isOk()) << limits.status().message();
  EXPECT_GT(limits->matmulFlopsPerSecond, 0);
  EXPECT_EQ(calls("products of zeros"), before) << "a GPU multiplies them some 13 % faster";
}

TEST(CudaTuning, TheArenaIsZeroAfterwards) {
  const Variable variable(kFast, "1");
  Products products;
  products.prepareAll();
  size_t seen = 0;
  products.tune({.known = {}, .seconds = 100, .progress = [&](size_t done, size_t all) {
                   EXPECT_EQ(done, seen++);
                   EXPECT_EQ(all, 2u);
                 }});
  EXPECT_EQ(seen, 2u);
  std::vector<uint32_t> words(products.arena().bytes() / 4, 1);
  ASSERT_TRUE(products.device().memory().download(words.data(), products.arena().base(), words.size() * 4).isOk());
  EXPECT_EQ(std::count(words.begin(), words.end(), 0u), ptrdiff_t(words.size()));
}

TEST(CudaTuning, WhatIsKnownIsNotMeasuredAgain) {
  TunedAlgorithms tuned;
  std::vector<float> want;
  {
    const Variable variable(kFast, "2");
    Products products;
    products.prepareAll();
    tuned = products.tune({.known = {}, .seconds = 100});
    want = products.results();
    EXPECT_EQ(tuned.all, tuned.measured);
    EXPECT_EQ(tuned.all.algorithms.size(), 2u);
    EXPECT_THAT(tuned.all.key, HasSubstr("cuBLASLt 13.1.0 on STAND-IN"));
    EXPECT_EQ(tuned.all.algorithms.count("48x48x48 NN f32->f32 ld 48,48,48 align 256,256,256"), 1u)
        << tuned.all.algorithms.begin()->first;
  }
  const Variable variable(kFast, "0"); // another one would win now
  Products products;
  products.prepareAll();
  const TunedAlgorithms again = products.tune({.known = tuned.all, .seconds = 100});
  EXPECT_EQ(again.known.size(), 2u);
  EXPECT_EQ(again.measured.algorithms.size(), 0u);
  EXPECT_EQ(again.all, tuned.all);
  EXPECT_EQ(products.results(), want);
  // What is for another device is not known.
  AlgorithmChoices foreign = tuned.all;
  foreign.key = "cuBLASLt 12.0.0 on another GPU";
  EXPECT_EQ(products.tune({.known = foreign, .seconds = 0}).known.size(), 0u);
  EXPECT_EQ(products.device().tuner()->useAlgorithms(foreign).code(), StatusCode::FailedPrecondition);
}

TEST(CudaTuning, AlgorithmsThatMayNotBeAreRefusedWhereverTheyComeFrom) {
  const Variable variable(kFast, "2");
  Products products;
  products.prepareAll();
  const TunedAlgorithms tuned = products.tune({.known = {}, .seconds = 100});
  // The stand-in keeps its version in the first half of the fifth word, the number in the other one.
  const auto with = [&](const std::string &version, const std::string &number) {
    AlgorithmChoices changed = tuned.all;
    for (auto &[signature, algorithm] : changed.algorithms)
      algorithm.replace(64, 16, number + version);
    return changed;
  };
  const std::string version = "0001fc34"; // 130100
  EXPECT_EQ(products.tune({.known = with(version, "00000000")}).known.size(), 2u);
  for (const auto &[what, changed] : {std::pair("not the same each time", with(version, "00000003")),
                                      std::pair("none of this library", with(version, "00000009")),
                                      std::pair("another version", with("0001fc35", "00000000")),
                                      std::pair("no number", with(version, "0000000g"))}) {
    EXPECT_EQ(products.tune({.known = changed}).known.size(), 0u) << what;
    EXPECT_THAT(products.device().tuner()->useAlgorithms(changed).message(),
                HasSubstr("refuses the algorithm chosen for 48x48"))
        << what;
  }
}

TEST(CudaTuning, TimeIsBounded) {
  const Variable variable(kFast, "2");
  Products products;
  products.prepareAll();
  // Over when the first product has its turn.
  const TunedAlgorithms tuned = products.tune({.known = {}, .seconds = 0.02, .progress = [](size_t, size_t) {
                                                 std::this_thread::sleep_for(std::chrono::milliseconds(21));
                                               }});
  EXPECT_EQ(tuned.measured.algorithms.size(), 0u);
  EXPECT_EQ(tuned.unmeasured, 2u);
  EXPECT_EQ(tuned.all.algorithms.size(), 2u);
  EXPECT_LT(tuned.seconds, 5);
  EXPECT_EQ(products.results(), resultsWithFast("0"));
}

/// What a run of one rank chooses, with its cache in `folder`.
ChosenAlgorithms chooseAlone(Products &products, const std::string &folder, const AlgorithmChoices *resumed = nullptr,
                             double seconds = 100) {
  const std::unique_ptr<ControlChannel> alone = createSingleChannel();
  auto chosen = chooseAlgorithms(products.device(), products.arena(), *alone,
                                 {.resumed = resumed, .cacheFolder = folder, .seconds = seconds});
  EXPECT_TRUE(chosen.isOk()) << chosen.status().message();
  return chosen.isOk() ? *chosen : ChosenAlgorithms();
}

TEST(Algorithms, TheCacheIsUsedAndABrokenOneIsNot) {
  const Scratch folder;
  const std::string cache = folder.path() + "/cache/ztc";
  const auto chosenWith = [&](const char *fast) {
    const Variable variable(kFast, fast);
    Products products;
    products.prepareAll();
    return chooseAlone(products, cache);
  };
  const ChosenAlgorithms first = chosenWith("2");
  EXPECT_EQ(first.measured, 2u);
  EXPECT_THAT(first.text(), HasSubstr("2 matrix products: 2 measured in "));
  const std::string path = algorithmCacheFile(cache, first.choices.key);
  EXPECT_EQ(path.substr(cache.size()), "/algorithms-cuBLASLt-13.1.0-on-STAND-IN-NO-GPU-sm_90-1-multiprocessors.json");
  const ChosenAlgorithms second = chosenWith("0");
  EXPECT_EQ(second.cached, 2u);
  EXPECT_EQ(second.text(), "2 matrix products: 2 from the cache");
  EXPECT_EQ(second.choices, first.choices);
  EXPECT_TRUE(second.notes.empty());
  // A library of another version has a file of its own.
  {
    const Variable version("ZTC_STAND_IN_CUBLASLT", "130200");
    EXPECT_EQ(chosenWith("0").cached, 0u);
  }
  for (const std::string &content :
       {std::string("{\"key\": 3"), std::string("{\"key\":\"another\",\"algorithms\":{}}")}) {
    ASSERT_TRUE(replaceFile(path, content).isOk());
    const ChosenAlgorithms third = chosenWith("0");
    EXPECT_EQ(third.measured, 2u);
    ASSERT_EQ(third.notes.size(), 1u);
    EXPECT_THAT(third.notes[0], HasSubstr("the cache of tuned algorithms is ignored: '" + path + "' "));
    EXPECT_NE(third.choices, first.choices);
    EXPECT_EQ(chosenWith("2").cached, 2u) << "it was written anew";
  }
}

TEST(Algorithms, ACheckpointsChoicesComeFirst) {
  const Scratch folder;
  AlgorithmChoices before;
  {
    const Variable variable(kFast, "2");
    Products products;
    products.prepareAll();
    before = chooseAlone(products, "").choices;
  }
  const Variable variable(kFast, "0");
  Products products;
  products.prepareAll();
  const ChosenAlgorithms fresh = chooseAlone(products, folder.path());
  EXPECT_NE(fresh.choices, before);
  EXPECT_EQ(fresh.differs, "");
  const ChosenAlgorithms resumed = chooseAlone(products, folder.path(), &before);
  EXPECT_EQ(resumed.choices, before);
  EXPECT_EQ(resumed.resumed, 2u);
  EXPECT_EQ(resumed.differs, "");
  EXPECT_EQ(chooseAlone(products, "", &before, 0).choices, before) << "also where nothing may be measured";
  before.algorithms.erase(before.algorithms.begin());
  EXPECT_EQ(chooseAlone(products, "", &before).differs,
            "for 1 of 2 matrix products the checkpoint has no algorithm: bits may differ");
  before.key = "cuBLASLt 12.0.0 on another GPU";
  const ChosenAlgorithms another = chooseAlone(products, folder.path(), &before);
  EXPECT_EQ(another.choices, fresh.choices);
  EXPECT_THAT(another.differs, HasSubstr("the checkpoint's for cuBLASLt 12.0.0 on another GPU: bits may differ"));
  before = {};
  EXPECT_THAT(chooseAlone(products, "", &before).differs, HasSubstr("the checkpoint names no algorithms"));
}

TEST(Algorithms, RanksTakeWhatRankZeroChose) {
  const Variable variable(kFast, "2");
  std::vector<float> results[2];
  const std::vector<Status> ended = runRanks(2, [&](ControlChannel &control) {
    Products products; // of this rank: its context belongs to the thread
    ZTC_RETURN_IF_ERROR(products.prepare(1));
    // The second rank may not measure; alone it would add forward.
    const double seconds = control.rank() == 0 ? 100 : 0;
    ZTC_ASSIGN_OR_RETURN(const ChosenAlgorithms chosen, chooseAlgorithms(products.device(), products.arena(), control,
                                                                         {.cacheFolder = "", .seconds = seconds}));
    EXPECT_EQ(chosen.choices.algorithms.size(), 2u);
    EXPECT_TRUE(chosen.notes.empty()) << chosen.notes[0];
    results[control.rank()] = products.results();
    return Status::ok();
  });
  EXPECT_EQ(firstMessage(ended), "ok");
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[1], resultsWithFast("0"));
}

TEST(Algorithms, ARankThatRefusesThemGoesOnWithItsOwn) {
  const Variable variable(kFast, "2");
  const std::vector<Status> ended = runRanks(2, [&](ControlChannel &control) {
    Products products;
    if (control.rank() == 1) // a product that the first rank does not have
      products.plan().mutable_programs(0)->mutable_steps(0)->mutable_gemm()->set_m(kSize - 8);
    ZTC_RETURN_IF_ERROR(products.prepare(1));
    ZTC_ASSIGN_OR_RETURN(const ChosenAlgorithms chosen, chooseAlgorithms(products.device(), products.arena(), control,
                                                                         {.cacheFolder = "", .seconds = 100}));
    EXPECT_EQ(chosen.notes.size(), control.rank() == 0 ? 1u : 0u);
    for (const std::string &note : chosen.notes)
      EXPECT_THAT(note, HasSubstr("rank 1 keeps algorithms of its own: cuBLASLt 13.1.0 refuses the algorithm chosen "
                                  "for 40x48x48 NN"));
    return products.run();
  });
  EXPECT_EQ(firstMessage(ended), "ok");
}

TEST(AlgorithmChoices, TextAndBack) {
  const AlgorithmChoices choices{"a \"key\"", {{"one", "00ff"}, {"two", ""}}};
  const auto back = parseAlgorithmChoices(printAlgorithmChoices(choices), "text");
  ASSERT_TRUE(back.isOk());
  EXPECT_EQ(*back, choices);
  for (const char *text :
       {"", "[]", "{\"key\":\"k\"}", "{\"key\":1,\"algorithms\":{}}", "{\"key\":\"k\",\"algorithms\":{\"a\":1}}"})
    EXPECT_EQ(parseAlgorithmChoices(text, "file").status().message(), "'file' holds no choices of algorithms") << text;
}

} // namespace
} // namespace ztc::test
