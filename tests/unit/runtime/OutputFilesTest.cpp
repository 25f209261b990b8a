// Single files that a run would write over what it reads, or could not write in the end.
#include "runtime/Train/OutputFiles.h"
#include "Scratch.h"
#include <filesystem>

using namespace ztc;
using ztc::test::Scratch;

namespace {

class TrainOutputFiles : public testing::Test {
protected:
  void SetUp() override {
    options_.plan = scratch_.write("plan.bin", "plan");
    options_.data = {scratch_.write("one.bin", "x"), scratch_.write("two.bin", "x")};
    options_.evalData = {"held=" + scratch_.write("held.bin", "x")};
    ASSERT_OK(makeFolders(scratch_.path("model")));
    options_.weights = scratch_.path("model");
    (void)scratch_.write("model/model.safetensors", "x");
    (void)scratch_.write("model/log", "x");
    plan_.add_parameters()->mutable_source()->set_path(scratch_.write("source.safetensors", "x"));
  }
  /// The messages about a file that each of the options names.
  std::vector<std::string> saidOf(const std::string &path) const {
    std::vector<std::string> said;
    for (std::string RunOptions::*option : {&RunOptions::logJson, &RunOptions::trace, &RunOptions::dumpGradients}) {
      RunOptions options = options_;
      options.*option = path;
      said.push_back(test::messageOf(checkOutputFiles(options, plan_)));
    }
    return said;
  }

  Scratch scratch_;
  RunOptions options_;
  plan::Plan plan_;
};

TEST_F(TrainOutputFiles, WhatTheRunReadsIsNotWrittenOver) {
  options_.overwrite = true;
  std::filesystem::create_symlink(scratch_.path("two.bin"), scratch_.path("link"));
  for (const auto &[name, reader] :
       {std::pair("plan.bin", "(the plan)"), std::pair("two.bin", "(--data)"), std::pair("link", "(--data)"),
        std::pair("held.bin", "(--eval-data)"), std::pair("model/model.safetensors", "(--weights)"),
        std::pair("source.safetensors", "(the model's weights)")})
    for (const std::string &said : saidOf(scratch_.path(name))) {
      EXPECT_TRUE(said.starts_with("--")) << said;
      EXPECT_NE(said.find("is a file that this run reads"), std::string::npos) << said;
      EXPECT_NE(said.find(reader), std::string::npos) << said;
    }
}

TEST_F(TrainOutputFiles, AllElseIs) {
  for (const char *name : {"new", "model/log", "model/new.safetensors"})
    EXPECT_EQ(saidOf(scratch_.path(name)), std::vector<std::string>(3, "ok")) << name;
  EXPECT_EQ(saidOf("/dev/null"), std::vector<std::string>(3, "ok"));
  options_.trace = options_.dumpGradients = options_.logJson = "/dev/null";
  EXPECT_OK(checkOutputFiles(options_, plan_));
}

TEST_F(TrainOutputFiles, TwoOptionsHaveTwoFiles) {
  options_.trace = scratch_.path("same");
  options_.dumpGradients = scratch_.path() + "/./same";
  EXPECT_OK(checkOutputFiles(options_, plan_)); // it is not there yet: other words for it are not known
  (void)scratch_.write("same", "x");
  const std::string said = test::messageOf(checkOutputFiles(options_, plan_));
  EXPECT_NE(said.find("--trace and --dump-gradients both name"), std::string::npos) << said;
}

TEST_F(TrainOutputFiles, WhatCouldNotBeWrittenIsSaidBeforeTheFirstStep) {
  options_.trace = scratch_.path("model");
  EXPECT_NE(test::messageOf(checkOutputFiles(options_, plan_)).find("is a folder: name a file in it"),
            std::string::npos);
  options_.trace = scratch_.path("made/trace.json");
  EXPECT_OK(checkOutputFiles(options_, plan_));
  options_.dumpGradients = scratch_.path("nowhere/gradients.safetensors");
  const std::string said = test::messageOf(checkOutputFiles(options_, plan_));
  EXPECT_NE(said.find("--dump-gradients: cannot write"), std::string::npos) << said;
  EXPECT_NE(said.find("make it first"), std::string::npos) << said;
}

} // namespace
