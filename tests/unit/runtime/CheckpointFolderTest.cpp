// Folders of checkpoints: which of them stay, whose they are, what else lies in them.
#include "Scratch.h"
#include "TinyRun.h"
#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/CompanionFiles.h"
#include "runtime/Checkpoint/OutputFolder.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

TEST(Checkpoint, OldOnesGoAndLeftoversToo) {
  const Scratch scratch;
  TinyRun run;
  run.fill(1);
  EXPECT_OK(makeFolders(scratch.path(".tmp-step-9-1")));
  EXPECT_OK(makeFolders(scratch.path("step-by-step")));
  for (uint64_t step : {5, 10, 15, 20})
    ASSERT_OK(saveCheckpoint(run.context(), stateAt(step), scratch.path(), {.keep = 2}).status());
  EXPECT_EQ(names(scratch.path()), (std::vector<std::string>{"step-00000015", "step-00000020", "step-by-step"}));
  EXPECT_EQ(checkpointStep("step-00000015"), 15u);
  for (const char *bad : {"step-15", "step-0000001x", "step-", "step-00000015.old", "xstep-00000015"})
    EXPECT_FALSE(checkpointStep(bad).has_value()) << bad;
}

TEST(Checkpoint, KeepingCountsTheRunsOwn) {
  const Scratch scratch;
  TinyRun run;
  run.fill(1);
  const auto save = [&](const char *id, uint64_t step, const SaveOptions &options, std::optional<double> loss = {}) {
    TrainerState state = stateAt(step);
    state.run = id;
    state.evalLoss = loss;
    ASSERT_OK(saveCheckpoint(run.context(), state, scratch.path(), options).status());
  };
  save("older", 40, {});
  save("older", 60, {});
  for (uint64_t step : {1, 2, 3})
    save("newer", step, {.keep = 1});
  EXPECT_EQ(names(scratch.path()), (std::vector<std::string>{"step-00000003", "step-00000040", "step-00000060"}));
  const StatusOr<FoundCheckpoint> found = findCheckpoint(scratch.path(), run.staging);
  EXPECT_EQ(found.status().code(), StatusCode::FailedPrecondition);
  EXPECT_THAT(found.status().message(), HasSubstr("several runs"));
  EXPECT_EQ(findCheckpoint(scratch.path("step-00000003"), run.staging)->state.run, "newer");

  // The best by evaluation stays beside the newest.
  save("newer", 4, {.keep = 1, .keepBest = true}, 2.5);
  save("newer", 5, {.keep = 1, .keepBest = true}, 3.5);
  save("newer", 6, {.keep = 1, .keepBest = true});
  EXPECT_EQ(names(scratch.path()),
            (std::vector<std::string>{"step-00000004", "step-00000006", "step-00000040", "step-00000060"}));
  save("newer", 7, {.keep = 1, .keepBest = true}, 1.5);
  save("newer", 8, {.keep = 1, .keepBest = true}, 1.75);
  EXPECT_EQ(names(scratch.path()),
            (std::vector<std::string>{"step-00000007", "step-00000008", "step-00000040", "step-00000060"}));
  const std::vector<CheckpointEntry> entries = *readCheckpointEntries(scratch.path());
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].run, "newer");
  EXPECT_EQ(entries[0].evalLoss, 1.5);

  // --overwrite: what is another run's, or ahead of this one, goes.
  save("newer", 3, {.replacesOthers = true});
  EXPECT_EQ(names(scratch.path()), std::vector<std::string>{"step-00000003"});
}

TEST(Checkpoint, ItIsAFolderOfHuggingFace) {
  const Scratch scratch;
  TinyRun run;
  run.fill(1);
  EXPECT_OK(makeFolders(scratch.path("hf")));
  scratch.write("hf/config.json", R"({"model_type": "llama", "dtype": "bfloat16"})");
  scratch.write("hf/tokenizer.json", "{}");
  CompanionFiles companions = *findCompanions(run.plan, {.hfConfig = scratch.path("hf"), .weights = {}}, plan::F32);
  EXPECT_TRUE(companions.hasTokenizer());
  const std::string path = *saveCheckpoint(run.context(), stateAt(1), scratch.path("ck"), {.companions = companions});
  EXPECT_THAT(*readWholeFile(path + "/config.json"), HasSubstr("\"dtype\": \"float32\""));
  EXPECT_EQ(*readWholeFile(path + "/tokenizer.json"), "{}");
  EXPECT_THAT(*readWholeFile(path + "/manifest.json"), HasSubstr("tokenizer.json"));
  // A tokenizer that is gone meanwhile costs no state.
  EXPECT_OK(removeAll(scratch.path("hf")));
  const std::string later = *saveCheckpoint(run.context(), stateAt(2), scratch.path("ck"), {.companions = companions});
  EXPECT_EQ(findCheckpoint(scratch.path("ck"), run.staging)->path, later);
  // A resumed run has them from its checkpoint.
  companions = *findCompanions(run.plan, {.hfConfig = {}, .weights = {}, .checkpoint = path}, plan::F32);
  EXPECT_EQ(companions.folder, path);
  EXPECT_TRUE(companions.hasTokenizer());
}

TEST(Checkpoint, KeepingSomeTakesTheRoomOfOneMore) {
  const Scratch scratch;
  // A model of which one checkpoint fits the free space and two do not, by a wide margin.
  plan::Plan plan = smallPlan();
  const uint64_t present = *freeBytes(scratch.path());
  plan.mutable_parameters(0)->set_shape(0, int64_t(present / (6 * 4 * 3) * 2 / 3)); // [n, 6] in three kinds of f32
  EXPECT_OK(prepareCheckpoints(plan, scratch.path()));
  EXPECT_OK(prepareCheckpoints(plan, scratch.path(), nullptr, {.keep = 1, .saves = 1}));
  const Status refused = prepareCheckpoints(plan, scratch.path(), nullptr, {.keep = 1, .saves = 5});
  EXPECT_EQ(refused.code(), StatusCode::ResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("2 checkpoints (--keep=1 and the one being written)"));
  // The old one that makes room is there already.
  ASSERT_OK(makeFolders(scratch.path("step-00000001")));
  EXPECT_OK(prepareCheckpoints(plan, scratch.path(), nullptr, {.keep = 1, .saves = 5}));
}

TEST(OutputFolder, IsOneRunsAndGoesWhereItStayedEmpty) {
  const Scratch scratch;
  {
    const StatusOr<OutputFolder> one = OutputFolder::claim(scratch.path("a/b/"));
    ASSERT_OK(one.status());
    EXPECT_TRUE(one->is(scratch.path("a/../a/b")));
    EXPECT_FALSE(one->is(scratch.path()));
    const Status second = OutputFolder::claim(scratch.path("a/b")).status();
    EXPECT_EQ(second.code(), StatusCode::FailedPrecondition);
    EXPECT_THAT(second.message(), HasSubstr("another run is writing into '" + scratch.path("a/b") + "'"));
  }
  EXPECT_FALSE(pathExists(scratch.path("a")));
  {
    const StatusOr<OutputFolder> again = OutputFolder::claim(scratch.path("a/b"));
    ASSERT_OK(again.status());
    scratch.write("a/file", "content");
  }
  EXPECT_EQ(*listFolder(scratch.path("a")), std::vector<std::string>{"file"});
  ASSERT_OK(makeFolders(scratch.path("old")));
  EXPECT_OK(OutputFolder::claim(scratch.path("old")).status());
  EXPECT_TRUE(pathExists(scratch.path("old"))) << "an empty folder that was there before stays";
  EXPECT_FALSE(OutputFolder::claim("/proc/nothing").isOk());
}

} // namespace
