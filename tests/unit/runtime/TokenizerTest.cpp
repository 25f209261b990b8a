// Tokenizers against recorded results of the tokenizers library; regular expressions; what is wrong with bad files.
#include "runtime/Text/Tokenizer.h"
#include "Scratch.h"
#include "runtime/Text/Unicode.h"
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ztc;
using namespace ztc::test;
using testing::HasSubstr;

namespace {

const std::filesystem::path kGolden =
    std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "golden/tokenizers";

/// Parts that match, between bars the others in brackets.
std::string parts(std::string_view pattern, std::string_view text) {
  const auto compiled = Pattern::compile(pattern);
  if (!compiled.isOk())
    return compiled.status().message();
  std::vector<TextMatch> found;
  EXPECT_OK(compiled->split(text, found));
  std::string out;
  for (const TextMatch &part : found) {
    const std::string inner(text.substr(part.begin, part.end - part.begin));
    out += (out.empty() ? "" : "|") + (part.matches ? inner : "(" + inner + ")");
  }
  return out;
}

std::string errorOf(std::string_view json) {
  const auto tokenizer = Tokenizer::parse(json, "t.json");
  EXPECT_FALSE(tokenizer.isOk());
  return tokenizer.status().message();
}

/// A tokenizer.json with one part of it given.
std::string with(const std::string &part, const std::string &model = R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2,
  "<s>":3},"merges":["a b"]})") {
  return "{" + part + (part.empty() ? "" : ",") + "\"model\":" + model + "}";
}

} // namespace

TEST(TokenizerTest, FamiliesAsTheTokenizersLibrary) {
  int families = 0;
  for (const auto &folder : std::filesystem::directory_iterator(kGolden)) {
    SCOPED_TRACE(folder.path().filename().string());
    ++families;
    const auto tokenizer = Tokenizer::open(folder.path().string());
    ASSERT_OK(tokenizer.status());
    std::ifstream lines(folder.path() / "expected.jsonl");
    WordCache cache;
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      const nlohmann::json expected = parseJson(line);
      const auto text = expected["text"].get<std::string>();
      const auto tokens = expected["tokens"].get<std::vector<int32_t>>();
      std::vector<int32_t> found;
      ASSERT_OK(tokenizer->encode(text, true, found, cache));
      EXPECT_EQ(found, tokens) << line;
      const auto decoded = tokenizer->decode(tokens, false);
      ASSERT_OK(decoded.status());
      EXPECT_EQ(*decoded, expected["decoded"].get<std::string>()) << line;
      TextStream stream(*tokenizer);
      std::string streamed;
      for (const int32_t token : tokens) {
        const auto part = stream.push(token);
        ASSERT_OK(part.status());
        EXPECT_FALSE(findInvalidUtf8(*part)) << line;
        streamed += *part;
      }
      const auto rest = stream.finish();
      ASSERT_OK(rest.status());
      const auto plain = tokenizer->decode(tokens, true);
      ASSERT_OK(plain.status());
      if (plain->find("\xef\xbf\xbd") == std::string::npos) { // what is broken may come in other parts
        EXPECT_EQ(streamed + *rest, *plain) << line;
      }
    }
    EXPECT_GT(count, 100);
  }
  EXPECT_GE(families, 8);
}

TEST(TokenizerTest, PatternsMeanWhatOnigurumaMakesOfThem) {
  EXPECT_EQ(parts(R"(\s+)", "a \xe1\xa0\x8e b"), "(a)| |(\xe1\xa0\x8e)| |(b)") << "U+180E is not white space";
  EXPECT_EQ(parts(R"(\w+)", "nai\xcc\x88ve\xe2\x80\xbfx y"), "nai\xcc\x88ve\xe2\x80\xbfx|( )|y")
      << "marks and connectors are";
  EXPECT_EQ(parts(R"(\h+)", "12af g"), "12af|( g)") << "hexadecimal digits";
  EXPECT_EQ(parts(R"(a{2}+)", "aaaaa"), "aaaa|(a)") << "an interval repeated, not a possessive one";
  EXPECT_EQ(parts(R"(a{,2}b)", "aaab"), "(a)|aab");
  EXPECT_EQ(parts(R"(a++b|a)", "aac"), "a|a|(c)") << "possessive";
  EXPECT_EQ(parts(R"(a{x})", "a{x}"), "a{x}");
  EXPECT_EQ(parts(R"([a-z&&[^aeiou]]+)", "hello"), "h|(e)|ll|(o)");
  EXPECT_EQ(parts(R"([^\S\n]+)", "a \t\n b"), "(a)| \t|(\n)| |(b)");
  EXPECT_EQ(parts(R"([[:alpha:]\d]+)", "x1-y2"), "x1|(-)|y2");
  EXPECT_EQ(parts(R"([\W]+)", "x, y"), "(x)|, |(y)");
  EXPECT_EQ(parts(R"(\p{Han}+)", "\xe4\xb8\x80\xe3\x80\x82"), "\xe4\xb8\x80|(\xe3\x80\x82)")
      << "the script, not its extensions";
  EXPECT_EQ(parts(R"(\p{^L}+)", "a1b"), "(a)|1|(b)");
  EXPECT_EQ(parts(R"((?i:'s|'T))", "it'S 't"), "(it)|'S|( )|'t");
  EXPECT_EQ(parts(R"(x(?i)a|b)", "xA xB b"), "xA|( )|xB|( b)") << "the option lasts over the alternative";
  EXPECT_EQ(parts(R"(^b$)", "a\nb\nc"), "(a\n)|b|(\nc)") << "lines";
  EXPECT_EQ(parts(R"((?m:a.b))", "a\nb"), "a\nb");
  EXPECT_EQ(parts("", "ab"), "(a)||(b)|") << "at all places";
  EXPECT_THAT(parts("(a", "a"), HasSubstr("a parenthesis is not closed"));
  EXPECT_THAT(parts("[a", "a"), HasSubstr("a bracket is not closed"));
  EXPECT_THAT(parts(R"(\p{Nonsense})", "a"), HasSubstr("unknown property 'Nonsense'"));
  const auto slow = Pattern::compile("(?:a|a|ab?)*[cd]");
  ASSERT_OK(slow.status());
  std::vector<TextMatch> found;
  EXPECT_THAT(slow->split(std::string(60, 'a') + "e", found).message(), HasSubstr("gives up"));
}

TEST(TokenizerTest, StreamsGoOnFromPrompts) {
  const auto tokenizer = Tokenizer::parse(
      R"({"added_tokens":[{"id":0,"content":"<s>","special":true}],"decoder":{"type":"Metaspace","replacement":"_"},
        "model":{"type":"WordLevel","vocab":{"<s>":0,"_a":1,"_b":2}}})",
      "t.json");
  ASSERT_OK(tokenizer.status());
  const auto textOf = [&](std::vector<int32_t> before, std::vector<int32_t> tokens) {
    TextStream stream(*tokenizer, before);
    std::string text;
    for (const int32_t token : tokens)
      text += *stream.push(token);
    return text + *stream.finish();
  };
  EXPECT_EQ(textOf({}, {1, 2}), "a b");
  EXPECT_EQ(textOf({1}, {2, 1}), " b a") << "not the first word of a text";
  EXPECT_EQ(textOf({0}, {2}), " b");
  EXPECT_EQ(textOf({1}, {0, 2}), " b") << "a special token's own text is left out";
}

TEST(TokenizerTest, Unicode) {
  EXPECT_FALSE(findInvalidUtf8("a\xc3\xa9\xf0\x9f\x98\x80"));
  EXPECT_EQ(*findInvalidUtf8("ab\xc0\x80"), 2u) << "overlong";
  EXPECT_EQ(*findInvalidUtf8("\xed\xa0\x80"), 0u) << "a surrogate";
  EXPECT_EQ(*findInvalidUtf8("a\xe2\x82"), 1u);
  EXPECT_EQ(replaceInvalidUtf8("a\xe2\x82z\xff"), "a\xef\xbf\xbdz\xef\xbf\xbd");
  EXPECT_EQ(normalizeUnicode("e\xcc\x81", NormalForm::C), "\xc3\xa9");
  EXPECT_EQ(normalizeUnicode("\xef\xac\x81", NormalForm::KC), "fi");
}

TEST(TokenizerTest, BadFiles) {
  EXPECT_THAT(errorOf("[]"), HasSubstr("'t.json' is not a JSON object"));
  EXPECT_THAT(errorOf("{}"), HasSubstr("'t.json': model is missing"));
  EXPECT_THAT(errorOf(with(R"("normalizer":{"type":"NFX"})")),
              HasSubstr("normalizer: the type 'NFX' is not known (known"));
  EXPECT_THAT(errorOf(with(R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Replace","content":""}]})")),
              HasSubstr("normalizer.Sequence.Replace: 'pattern' is missing"));
  EXPECT_THAT(errorOf(with(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated",
    "invert":false})")),
              HasSubstr("the regular expression '(' cannot be used"));
  EXPECT_THAT(errorOf(with("", R"({"type":"BPE","vocab":{"a":0},"merges":["a b"]})")),
              HasSubstr("merge 0 names 'b', which is not in 'vocab'"));
  EXPECT_THAT(errorOf(with("", R"({"type":"BPE","vocab":{"a":-1},"merges":[]})")), HasSubstr("the id of 'a'"));
  EXPECT_THAT(errorOf(with("", R"({"type":"BPE","dropout":0.1,"vocab":{"a":1},"merges":[]})")), HasSubstr("'dropout'"));
  EXPECT_THAT(errorOf(with("", R"({"type":"Unigram","vocab":[["a",-1]],"unk_id":1})")), HasSubstr("'unk_id'"));
  const std::string deep(200, '[');
  EXPECT_THAT(errorOf(deep), HasSubstr("is not a JSON object"));
  const Scratch scratch;
  EXPECT_THAT(Tokenizer::open(scratch.path()).status().message(), HasSubstr("has no tokenizer.json"));
  EXPECT_THAT(Tokenizer::open(scratch.path("none")).status().message(), HasSubstr("is not a folder"));
}

TEST(TokenizerTest, WhatIsNotKnown) {
  const auto tokenizer =
      Tokenizer::parse(with(R"("added_tokens":[{"id":9,"content":"<s>","special":true}])"), "t.json");
  ASSERT_OK(tokenizer.status());
  std::vector<int32_t> tokens;
  WordCache cache;
  ASSERT_OK(tokenizer->encode("ab<s>b", true, tokens, cache));
  EXPECT_EQ(tokens, (std::vector<int32_t>{2, 3, 1})) << "the model's id counts, not the file's";
  EXPECT_THAT(tokenizer->encode("a\xff", true, tokens, cache).message(), HasSubstr("byte 1 is not UTF-8"));
  EXPECT_EQ(tokenizer->textOf(2), "ab");
  EXPECT_FALSE(tokenizer->textOf(100));
  EXPECT_EQ(tokenizer->idOf("<s>"), 3);
  EXPECT_EQ(tokenizer->endOfIds(), 4);
}
