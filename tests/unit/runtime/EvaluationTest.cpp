// What evaluation is made of, without a plan: names of sets, the best so far, rows and scores of choices.
#include "runtime/Checkpoint/BestEvaluation.h"
#include "runtime/Train/Choices.h"
#include "runtime/Train/EvaluationFiles.h"
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>

using namespace ztc;

namespace {

TEST(Evaluation, FilesOfANameAreOneSet) {
  const auto sets = evaluationFiles({"wiki=a.bin", "plain.bin", "code.v1=x=y.bin", "wiki=b.bin", "./odd=name.bin"});
  ASSERT_EQ(sets.size(), 3u);
  EXPECT_EQ(sets[0].name, "wiki");
  EXPECT_EQ(sets[0].files, (std::vector<std::string>{"a.bin", "b.bin"}));
  EXPECT_EQ(sets[1].name, "");
  EXPECT_EQ(sets[1].files, (std::vector<std::string>{"plain.bin", "./odd=name.bin"}));
  EXPECT_EQ(sets[2].files, (std::vector<std::string>{"x=y.bin"}));
  EXPECT_EQ(*watchedEvaluation(sets, ""), 0u);
  EXPECT_EQ(*watchedEvaluation(sets, "code.v1"), 2u);
  EXPECT_EQ(watchedEvaluation(sets, "news").status().message(),
            "--keep-best=news: no --eval-data has this name (known are wiki, code.v1)");
}

TEST(Evaluation, TheBestIsTheFirstOfEquals) {
  BestEvaluation best;
  EXPECT_FALSE(best.add("", std::numeric_limits<double>::quiet_NaN(), 1));
  EXPECT_EQ(best.since, 1u) << "what is not a number is not good";
  EXPECT_TRUE(best.add("", 2, 2));
  EXPECT_FALSE(best.add("", 2, 3));
  EXPECT_FALSE(best.add("", 3, 4));
  EXPECT_EQ(best, (BestEvaluation{.name = "", .loss = 2, .step = 2, .since = 2}));
  EXPECT_TRUE(best.add("other", 9, 5)) << "another set begins anew";
}

TEST(Evaluation, AChoiceIsARowOfWhichItsOwnTokensCount) {
  const Choice choice{.tokens = {5, 6, 7, 8}, .scored = 2, .bytes = 3};
  std::vector<int32_t> tokens(5), targets(5);
  fillChoice(choice, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{5, 6, 7, 0, 0}));
  EXPECT_EQ(targets, (std::vector<int32_t>{-1, 7, 8, -1, -1}));
  tokens.resize(1), targets.resize(1); // what is too long loses its beginning
  fillChoice(choice, tokens, targets);
  EXPECT_EQ(tokens, (std::vector<int32_t>{7}));
  EXPECT_EQ(targets, (std::vector<int32_t>{8}));
}

TEST(Evaluation, AccuracyBySumAndByByte) {
  const std::vector<Question> questions{
      {.choices = {{.tokens = {}, .scored = 1, .bytes = 1}, {.tokens = {}, .scored = 1, .bytes = 10}}, .answer = 1},
      {.choices = {{.tokens = {}, .scored = 1, .bytes = 2}, {.tokens = {}, .scored = 1, .bytes = 2}}, .answer = 0}};
  const ChoiceScores scores = scoreChoices(questions, std::vector<double>{-2, -5, -1, -1});
  EXPECT_EQ(scores.accuracy, 0.5);   // -2 is likelier than -5; of equals the first
  EXPECT_EQ(scores.normalized, 1.0); // by byte -2 and -0.5
  EXPECT_EQ(scores.accuracyError, 0.5);
  EXPECT_EQ(scores.normalizedError, 0);
}

TEST(Evaluation, QuestionsOfBytes) {
  const std::string path = testing::TempDir() + "ztc-questions.jsonl";
  std::ofstream(path) << R"({"context": "ab ", "choices": ["c", " d"], "answer": "c"})" << "\n"
                      << R"({"context": "e", "choices": ["f", "g"], "answer": 1, "delimiter": ""})" << "\n";
  const auto questions = readQuestions(path, nullptr, 256);
  ASSERT_TRUE(questions.isOk()) << questions.status().message();
  ASSERT_EQ(questions->size(), 2u);
  const Choice &first = (*questions)[0].choices[0];
  EXPECT_EQ(first.tokens, (std::vector<int32_t>{'a', 'b', ' ', 'c'}));
  EXPECT_EQ(first.scored, 2u) << "the context's space belongs to the choice";
  EXPECT_EQ(first.bytes, 1u);
  EXPECT_EQ((*questions)[0].answer, 0u);
  EXPECT_EQ((*questions)[1].choices[1].tokens, (std::vector<int32_t>{'e', 'g'}));
  EXPECT_EQ((*questions)[1].answer, 1u);
  std::remove(path.c_str());
}

} // namespace
