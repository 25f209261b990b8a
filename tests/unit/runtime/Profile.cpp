// Profile and timeline of a plan written by hand.
#include "runtime/Executor/Profile.h"
#include "runtime/Memory/StepBytes.h"
#include "tests/conformance/StepRunner.h"
#include <nlohmann/json.hpp>
#include <set>

namespace ztc::test {
namespace {

void twice(void *const *buffers, const int64_t *, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(buffers[1])[i] = 2 * static_cast<float *>(buffers[0])[i];
}

/// Two launches of one kernel, one product.
struct ProfiledRun {
  ProfiledRun() : runner({{"twice", twice}}) {
    uint32_t x = runner.slot(std::vector<float>(4096, 1)), y = runner.scratch(4096 * 4, false);
    runner.plan().mutable_kernels(0)->set_form("row");
    for (const char *name : {"first", "second"}) {
      plan::Step *step = runner.step(name, {x, y});
      step->mutable_operands(1)->set_access(plan::Operand::WRITE);
      step->set_flops(4096);
      step->mutable_launch()->set_kernel(0);
      step->mutable_launch()->set_extent(4096);
      step->mutable_launch()->set_grain(16);
    }
    plan::Step *product = runner.step("product", {x, y, runner.scratch(64 * 64 * 4, false)});
    product->set_flops(2 * 64 * 64 * 64);
    plan::Gemm &gemm = *product->mutable_gemm();
    for (auto set : {&plan::Gemm::set_m, &plan::Gemm::set_n, &plan::Gemm::set_k, &plan::Gemm::set_lda,
                     &plan::Gemm::set_ldb, &plan::Gemm::set_ldc})
      (gemm.*set)(64);
    gemm.set_alpha(1);
    gemm.set_type_a(plan::F32);
    gemm.set_type_c(plan::F32);
  }
  StepRunner runner;
};

TEST(Profile, EqualCallsShareALineAndAllTimeIsAccountedFor) {
  ProfiledRun run;
  run.runner.runOnce(2);
  run.runner.executor().resetStatistics();
  uint64_t begin = traceClock();
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(run.runner.run().isOk());
  double seconds = double(traceClock() - begin) / 1e9;
  auto limits = run.runner.device().gauges().measureLimits();
  ASSERT_TRUE(limits.isOk()) << limits.status().message();
  EXPECT_GT(limits->copyBytesPerSecond, 0);
  EXPECT_GT(limits->matmulFlopsPerSecond, 0);

  ProfileSource source{.plan = run.runner.plan(),
                       .memory = run.runner.executor().memory(),
                       .shape = {1, 1, 2},
                       .statistics = run.runner.executor().statistics(),
                       .limits = *limits,
                       .steps = 3,
                       .seconds = seconds};
  ProfileSummary summary = summarizeProfile(source);
  EXPECT_GT(summary.accounted, 0.5);
  EXPECT_LE(summary.accounted, 1);
  EXPECT_LE(summary.bestSeconds, summary.stepSeconds);
  EXPECT_EQ(summary.productFlops, 2 * 64 * 64 * 64);
  std::string text = profileText(source);
  EXPECT_NE(text.find("profile of 3 steps"), std::string::npos) << text;
  EXPECT_EQ(text.find("twice (row)"), text.rfind("twice (row)")) << text;
  EXPECT_NE(text.find("gemm 64x64x64"), std::string::npos) << text;
  EXPECT_NE(text.find("between steps"), std::string::npos) << text;
  source.everyStep = true;
  text = profileText(source);
  EXPECT_LT(text.find("microstep first: twice (row)"), text.find("microstep second: twice (row)")) << text;
}

TEST(Profile, BytesOfAStepAreThoseOfItsOperands) {
  ProfiledRun run;
  ASSERT_TRUE(run.runner.prepare(1).isOk());
  plan::Plan &plan = run.runner.plan();
  const MemoryPlan &memory = run.runner.executor().memory();
  plan::Step &step = *plan.mutable_programs(0)->mutable_steps(0);
  EXPECT_EQ(stepBytes(plan, memory, {}, step), 2 * 4096 * 4u);
  step.mutable_operands(1)->set_access(plan::Operand::READ_WRITE);
  EXPECT_EQ(stepBytes(plan, memory, {}, step), 3 * 4096 * 4u);
  step.mutable_operands(0)->set_bytes(256);
  EXPECT_EQ(stepBytes(plan, memory, {}, step), 256 + 2 * 4096 * 4u);
  plan::Step &product = *plan.mutable_programs(0)->mutable_steps(2);
  plan.mutable_slots(2)->set_slot_class(plan::WORKSPACE);
  EXPECT_EQ(stepBytes(plan, memory, {}, product), 2 * 4096 * 4u);
  plan::Step rows;
  rows.mutable_gather()->set_rows(10);
  rows.mutable_gather()->set_row_bytes(64);
  EXPECT_EQ(stepBytes(plan, memory, {}, rows), 10 * (128 + 4u));
}

TEST(Trace, StepsHaveTheirNamesOnEveryRow) {
  ProfiledRun run;
  ASSERT_TRUE(run.runner.prepare(2).isOk());
  TraceRecorder trace(4);
  run.runner.executor().setTrace(&trace);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(run.runner.run().isOk());
  run.runner.executor().setTrace(nullptr);
  ASSERT_TRUE(run.runner.run().isOk()); // not recorded
  nlohmann::json json = nlohmann::json::parse(trace.json(5));
  std::map<int, std::string> tracks;
  std::map<std::string, std::set<std::string>> names;
  std::map<std::string, int> spans;
  for (const nlohmann::json &event : json["traceEvents"]) {
    EXPECT_EQ(event["pid"], 5);
    if (event["ph"] == "M" && event["name"] == "thread_name")
      tracks[event["tid"]] = event["args"]["name"];
    if (event["ph"] != "X")
      continue;
    EXPECT_GE(event["ts"], 0);
    EXPECT_GE(event["dur"], 0);
    names[tracks[event["tid"]]].insert(event["name"]);
    ++spans[tracks[event["tid"]]];
  }
  using Names = std::set<std::string>;
  EXPECT_EQ(names["programs"], Names{"microstep"});
  // A ring of four: the newest of nine spans.
  EXPECT_EQ(names["stream 0: compute"], (Names{"first", "second", "product"}));
  EXPECT_EQ(spans["stream 0: compute"], 4);
  Names ofWorkers = names["worker 0"]; // either may have done it all
  ofWorkers.merge(names["worker 1"]);
  EXPECT_TRUE(ofWorkers.contains("second"));
}

} // namespace
} // namespace ztc::test
