// Checkpoints by several ranks: the same files from any number of them, ranges in and out, one outcome for all.
#include "RankThreads.h"
#include "Scratch.h"
#include "runtime/Checkpoint/Checkpoint.h"
#include "runtime/Checkpoint/Export.h"
#include "runtime/Checkpoint/SharedWork.h"
#include "runtime/Checkpoint/Weights.h"
#include "runtime/Core/Random.h"
#include "runtime/Ranks/Agreement.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sched.h>
#include <unistd.h>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace ztc::test::checkpoints {
namespace {

constexpr int64_t kRows = 37, kColumns = 19; // 703 elements and small change: shards end inside tensors

/// The small plan with a larger matrix; `kind` is the form of moments and gradients, `parameterKind` of parameters.
plan::Plan shardedPlan(plan::SizeForm::Kind parameterKind, plan::SizeForm::Kind kind) {
  plan::Plan plan = smallPlan();
  plan.mutable_parameters(0)->set_shape(0, kRows), plan.mutable_parameters(0)->set_shape(1, kColumns);
  plan.mutable_parameters(1)->set_offset(kRows * kColumns);
  plan.mutable_parameters(2)->set_offset(kRows * kColumns + 6);
  plan.mutable_buckets(0)->set_elements(kRows * kColumns + 11);
  for (const plan::Bucket &bucket : plan.buckets())
    for (uint32_t slot :
         {bucket.parameter_slot(), bucket.gradient_slot(), stateSlot(bucket, 0), stateSlot(bucket, 1)}) {
      if (!bucket.trainable() && slot != bucket.parameter_slot())
        continue;
      plan::SizeForm &size = *plan.mutable_slots(static_cast<int>(slot))->mutable_size();
      size.set_elements(bucket.elements());
      size.set_kind(slot == bucket.parameter_slot() ? parameterKind : kind);
    }
  return plan;
}

struct Stage {
  const char *name;
  plan::SizeForm::Kind parameters, states;
};
constexpr Stage kStages[] = {{"0", plan::SizeForm::FULL, plan::SizeForm::FULL},
                             {"2", plan::SizeForm::FULL, plan::SizeForm::SHARD},
                             {"3", plan::SizeForm::SHARD, plan::SizeForm::SHARD}};

/// One rank's memory of a plan. Element i of a bucket's kind k has the value 1000 (3 bucket + k) + i / 8.
struct RankMemory {
  RankMemory(const Stage &stage, ControlChannel &channel, plan::DataType type = plan::F32)
      : plan(shardedPlan(stage.parameters, stage.states)), control(channel) {
    if (type != plan::F32)
      makeNarrow(plan, type);
    for (const plan::Slot &slot : plan.slots()) {
      slots.emplace_back((*sizeFormBytes(slot.size(), control.world(), true, 1) + 3) / 4, -1.0f);
      bases.push_back(reinterpret_cast<std::byte *>(slots.back().data()));
    }
    memory = std::make_unique<HostStateMemory>(bases);
  }
  StateContext context() { return {plan, *memory, staging, &control}; }

  /// What this rank owns gets values, the rest of full slots garbage that depends on the rank.
  void fill(float seed) {
    forEachSlot([&](uint64_t bucket, uint64_t kind, uint32_t slot, const ElementRange &held,
                    const ElementRange &owned) {
      for (uint64_t i = held.begin; i < held.end; ++i)
        slots[slot][i - held.begin] = i >= owned.begin && i < owned.end ? valueAt(seed, bucket, kind, i)
                                                                        : -7.0f - static_cast<float>(control.rank());
    });
  }
  /// Elements that this rank holds and that are not what fill() would have put there on one rank.
  uint64_t differences(float seed) {
    uint64_t count = 0;
    forEachSlot([&](uint64_t bucket, uint64_t kind, uint32_t slot, const ElementRange &held, const ElementRange &) {
      for (uint64_t i = held.begin; i < held.end && kind < 3; ++i)
        count += slots[slot][i - held.begin] != valueAt(seed, bucket, kind, i);
    });
    return count;
  }
  static float valueAt(float seed, uint64_t bucket, uint64_t kind, uint64_t i) {
    return seed + static_cast<float>(1000 * (3 * bucket + kind)) + static_cast<float>(i) / 8;
  }

  template <typename F> void forEachSlot(F f) {
    for (int b = 0; b < plan.buckets_size(); ++b) {
      const plan::Bucket &bucket = plan.buckets(b);
      const uint32_t all[] = {bucket.parameter_slot(), stateSlot(bucket, 0), stateSlot(bucket, 1),
                              bucket.gradient_slot()};
      for (uint64_t kind = 0; kind < (bucket.trainable() ? 4 : 1); ++kind)
        f(static_cast<uint64_t>(b), kind, all[kind],
          heldRange(plan, bucket, all[kind], control.rank(), control.world()),
          ownedRange(bucket, control.rank(), control.world()));
    }
  }

  plan::Plan plan;
  ControlChannel &control;
  std::vector<std::vector<float>> slots;
  std::vector<std::byte *> bases;
  std::unique_ptr<HostStateMemory> memory;
  std::vector<std::byte> staging = std::vector<std::byte>(kMinimumStagingBytes);
};

TrainerState stateAt(uint64_t step) {
  TrainerState state;
  state.step = step;
  state.globalBatch = 6;
  return state;
}

std::map<std::string, std::string> contents(const std::string &folder) {
  std::map<std::string, std::string> files;
  const StatusOr<std::vector<std::string>> names = listFolder(folder);
  if (names.isOk())
    for (const std::string &name : *names)
      files[name] = isFolder(folder + "/" + name) ? "" : *readWholeFile(folder + "/" + name);
  return files;
}

std::vector<Status> saveBy(uint32_t world, const Stage &stage, const std::string &folder, uint64_t step, float seed) {
  return runRanks(world, [&](ControlChannel &control) {
    RankMemory rank(stage, control);
    rank.fill(seed);
    return saveCheckpoint(rank.context(), stateAt(step), folder).status();
  });
}

TEST(Ranges, OwnedOnesAreTheBucket) {
  plan::Bucket bucket;
  for (uint64_t elements : {1, 63, 64, 65, 700, 714})
    for (uint32_t world : {1, 2, 3, 4, 8}) {
      bucket.set_elements(elements);
      uint64_t at = 0;
      for (uint32_t rank = 0; rank < world; ++rank) {
        const ElementRange range = ownedRange(bucket, rank, world);
        EXPECT_EQ(range.begin, at);
        EXPECT_GE(range.end, range.begin);
        at = range.end;
      }
      EXPECT_EQ(at, elements) << world;
    }
}

TEST(RankCheckpoint, TheSameStateGivesTheSameBytes) {
  const Scratch scratch;
  ASSERT_EQ(firstMessage(saveBy(1, kStages[0], scratch.path("one"), 5, 1)), "ok");
  const auto expected = contents(scratch.path("one/step-00000005"));
  ASSERT_EQ(expected.size(), 8u);
  for (const Stage &stage : kStages)
    for (uint32_t world : {1, 2, 3, 4, 12}) { // with twelve, some ranks own nothing of a small bucket
      const std::string folder = scratch.path(std::string(stage.name) + "-" + std::to_string(world));
      ASSERT_EQ(firstMessage(saveBy(world, stage, folder, 5, 1)), "ok");
      EXPECT_EQ(contents(folder + "/step-00000005"), expected) << stage.name << " on " << world;
      EXPECT_EQ(listFolder(folder)->size(), 1u) << "nothing temporary is left";
    }
}

TEST(RankCheckpoint, AnyRanksLoadWhatAnyRanksSaved) {
  const Scratch scratch;
  ASSERT_EQ(firstMessage(saveBy(3, kStages[2], scratch.path(), 5, 2)), "ok");
  for (const Stage &stage : kStages)
    for (uint32_t world : {1, 2, 3, 4})
      EXPECT_EQ(firstMessage(runRanks(world,
                                      [&](ControlChannel &control) -> Status {
                                        RankMemory rank(stage, control);
                                        std::vector<std::byte> staging(64);
                                        ZTC_ASSIGN_OR_RETURN(const FoundCheckpoint found,
                                                             findCheckpoint(scratch.path(), staging, &control));
                                        EXPECT_EQ(found.state.step, 5u);
                                        ZTC_RETURN_IF_ERROR(loadCheckpoint(rank.context(), found.path));
                                        EXPECT_EQ(rank.differences(2), 0u);
                                        return Status::ok();
                                      })),
                "ok");
}

TEST(RankCheckpoint, MastersOfNarrowParametersDoNotDependOnRanksAndStages) {
  const Scratch scratch;
  const std::string wide = scratch.path("wide");
  for (const Status &status : saveBy(1, kStages[0], wide, 4, 0.3333f))
    ASSERT_OK(status);
  for (plan::DataType type : {plan::BF16, plan::F16}) {
    std::map<std::string, std::string> want;
    for (uint32_t world : {1u, 2u, 3u})
      for (const Stage &stage : kStages) {
        const std::string folder = scratch.path(plan::DataType_Name(type) + stage.name + std::to_string(world));
        const auto done = runRanks(world, [&](ControlChannel &control) -> Status {
          RankMemory rank(stage, control, type);
          ZTC_RETURN_IF_ERROR(loadCheckpoint(rank.context(), wide + "/step-00000004"));
          return saveCheckpoint(rank.context(), stateAt(4), folder).status();
        });
        for (const Status &status : done)
          ASSERT_OK(status);
        const auto got = contents(folder + "/step-00000004");
        if (want.empty())
          want = got;
        EXPECT_EQ(got, want) << world << " ranks, stage " << stage.name;
      }
    const std::string squares = "exp_avg_sq-00001-of-00001.safetensors";
    EXPECT_EQ(want[squares], contents(wide + "/step-00000004")[squares]);
  }
}

TEST(RankCheckpoint, ADamagedOneIsPassedOverByAll) {
  const Scratch scratch;
  for (uint64_t step : {1, 2, 3})
    ASSERT_EQ(firstMessage(saveBy(2, kStages[1], scratch.path(), step, 1)), "ok");
  std::string bytes = *readWholeFile(scratch.path("step-00000003/exp_avg-00001-of-00001.safetensors"));
  bytes.back() ^= 1;
  scratch.write("step-00000003/exp_avg-00001-of-00001.safetensors", bytes);
  EXPECT_OK(removeAll(scratch.path("step-00000002/manifest.json")));
  EXPECT_EQ(firstMessage(runRanks(3,
                                  [&](ControlChannel &control) -> Status {
                                    std::vector<std::byte> staging(4096);
                                    ZTC_ASSIGN_OR_RETURN(const FoundCheckpoint found,
                                                         findCheckpoint(scratch.path(), staging, &control));
                                    EXPECT_EQ(found.state.step, 1u);
                                    EXPECT_EQ(found.skipped.size(), 2u);
                                    EXPECT_THAT(found.skipped[0], HasSubstr("corrupted"));
                                    return Status::ok();
                                  })),
            "ok");
}

/// Memory whose reads fail on one rank from some point on.
class FailingMemory final : public StateMemory {
public:
  FailingMemory(StateMemory &inner, bool fails) : inner_(inner), fails_(fails) {}
  Status read(uint32_t slot, uint64_t offset, void *to, uint64_t bytes) override {
    return fails_ ? internalError("the device is gone") : inner_.read(slot, offset, to, bytes);
  }
  Status write(uint32_t slot, uint64_t offset, const void *from, uint64_t bytes) override {
    return fails_ ? internalError("the device is gone") : inner_.write(slot, offset, from, bytes);
  }

private:
  StateMemory &inner_;
  bool fails_;
};

TEST(RankCheckpoint, WhatFailsOnOneRankFailsOnAll) {
  const Scratch scratch;
  ASSERT_EQ(firstMessage(saveBy(3, kStages[2], scratch.path("ck"), 1, 1)), "ok");
  ExportOptions to;
  to.folder = scratch.path("hf");
  const auto failing = [&](const std::function<Status(const StateContext &)> &action) {
    return runRanks(3, [&](ControlChannel &control) {
      RankMemory rank(kStages[2], control);
      rank.fill(1);
      FailingMemory memory(*rank.memory, control.rank() == 1);
      return action({rank.plan, memory, rank.staging, &control});
    });
  };
  const std::vector<Status> saved = failing([&](const StateContext &context) {
    return saveCheckpoint(context, stateAt(2), scratch.path("ck"), {.keep = 1}).status();
  });
  const std::vector<Status> exported = failing([&](const StateContext &context) { return exportModel(context, to); });
  const std::vector<Status> dumped =
      failing([&](const StateContext &context) { return dumpGradients(context, scratch.path("g.safetensors"), 1.0f); });
  const std::vector<Status> loaded =
      failing([&](const StateContext &context) { return loadCheckpoint(context, scratch.path("ck/step-00000001")); });
  for (const std::vector<Status> &results : {saved, exported, dumped, loaded})
    for (const Status &status : results)
      EXPECT_THAT(status.message(), HasSubstr("rank 1: the device is gone"));
  EXPECT_THAT(saved[0].message(), HasSubstr("checkpoint of step 2 was not saved"));
  EXPECT_EQ(*listFolder(scratch.path("ck")), std::vector<std::string>{"step-00000001"});
  EXPECT_EQ(*listFolder(scratch.path()), std::vector<std::string>{"ck"});
}

TEST(RankCheckpoint, ExportsAndGradientsAreWrittenTogether) {
  const Scratch scratch;
  const auto write = [&](uint32_t world, const Stage &stage, const std::string &folder) {
    return runRanks(world, [&](ControlChannel &control) -> Status {
      RankMemory rank(stage, control);
      rank.fill(3);
      ExportOptions options;
      options.folder = folder;
      options.type = plan::BF16;
      ZTC_RETURN_IF_ERROR(prepareExport(rank.plan, options, &control));
      ZTC_RETURN_IF_ERROR(exportModel(rank.context(), options));
      return dumpGradients(rank.context(), folder + "/gradients", 0.5f);
    });
  };
  ASSERT_EQ(firstMessage(write(1, kStages[0], scratch.path("one"))), "ok");
  const auto expected = contents(scratch.path("one"));
  ASSERT_EQ(expected.size(), 2u);
  for (const Stage &stage : kStages)
    for (uint32_t world : {2, 3}) {
      const std::string folder = scratch.path(std::string(stage.name) + "-" + std::to_string(world));
      ASSERT_EQ(firstMessage(write(world, stage, folder)), "ok");
      EXPECT_EQ(contents(folder), expected);
    }
}

TEST(RankCheckpoint, FirstValuesDoNotDependOnRanks) {
  const Scratch scratch;
  ASSERT_EQ(firstMessage(saveBy(1, kStages[0], scratch.path("ck"), 1, 4)), "ok");
  WeightOptions named, random;
  named.weights = scratch.path("ck/step-00000001");
  random.initDeviation = 0.5;
  random.seed = 7;
  for (const Stage &stage : kStages)
    EXPECT_EQ(firstMessage(runRanks(
                  3,
                  [&](ControlChannel &control) -> Status {
                    RankMemory rank(stage, control);
                    const plan::Bucket &bucket = rank.plan.buckets(0);
                    const uint32_t slot = bucket.parameter_slot();
                    const ElementRange held = heldRange(rank.plan, bucket, slot, control.rank(), control.world());
                    ZTC_RETURN_IF_ERROR(loadWeights(rank.context(), named));
                    for (uint64_t i = held.begin; i < held.end; ++i)
                      EXPECT_EQ(rank.slots[slot][i - held.begin], RankMemory::valueAt(4, 0, 0, i));
                    ZTC_RETURN_IF_ERROR(loadWeights(rank.context(), random));
                    for (uint64_t i = held.begin; i < std::min(held.end, uint64_t(kRows * kColumns)); ++i)
                      EXPECT_EQ(rank.slots[slot][i - held.begin], 0.5f * normalAt(7, hashName("layers.0.weight"), i));
                    return Status::ok();
                  })),
              "ok");
}

TEST(RankCheckpoint, AFolderThatARankDoesNotSeeIsRefused) {
  const Scratch scratch;
  const auto check = [&](bool apart) {
    return runRanks(3, [&, apart](ControlChannel &control) {
      // A working folder for each thread: the same name then means different places, as on hosts that share no files.
      const std::string folder = scratch.path(apart && control.rank() > 0 ? "other" : "first");
      EXPECT_OK(makeFolders(folder + "/ck"));
      EXPECT_EQ(::unshare(CLONE_FS), 0);
      EXPECT_EQ(::chdir(folder.c_str()), 0);
      return prepareCheckpoints(shardedPlan(plan::SizeForm::FULL, plan::SizeForm::FULL), "ck", &control);
    });
  };
  EXPECT_EQ(firstMessage(check(false)), "ok");
  for (const Status &status : check(true))
    EXPECT_THAT(status.message(), HasSubstr("rank 1: the folder 'ck' is not the one that rank 0 sees"));
  EXPECT_EQ(listFolder(scratch.path("first/ck"))->size(), 0u);
}

TEST(RankCheckpoint, WhatAKilledRunLeftWhileItLookedIsTakenAway) {
  const Scratch scratch;
  scratch.write(".ztc-seen-1-2.3", "");
  EXPECT_EQ(
      firstMessage(runRanks(2, [&](ControlChannel &control) { return checkSharedFolder(&control, scratch.path()); })),
      "ok");
  EXPECT_TRUE(listFolder(scratch.path())->empty());
}

TEST(Agreement, TheFirstFailureInRankOrder) {
  const std::vector<Status> results = runRanks(3, [&](ControlChannel &control) {
    const Status mine = control.rank() == 0 ? Status::ok() : dataLoss("broken " + std::to_string(control.rank()));
    const Status agreed = agree(&control, "test", mine);
    EXPECT_EQ(agreed.message(), "rank 1: broken 1");
    EXPECT_EQ(agreed.code(), StatusCode::DataLoss);
    const StatusOr<std::string> text = fromFirstRank(&control, "text", std::string(control.rank() ? "other" : "mine"));
    EXPECT_EQ(*text, "mine");
    EXPECT_EQ(fromFirstRank(&control, "text", Status(notFound("gone"))).status().message(), "rank 0: gone");
    return Status::ok();
  });
  EXPECT_EQ(firstMessage(results), "ok");
  EXPECT_EQ(agree(nullptr, "test", dataLoss("alone")).message(), "alone");
  EXPECT_TRUE(decodeStatus({}).code() == StatusCode::Internal);
}

} // namespace
} // namespace ztc::test::checkpoints
