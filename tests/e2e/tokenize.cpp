// tokenize FOLDER: texts on standard input, each a line of JSON; tokens on standard output, a line for each. For tests
// that compare with the tokenizers library, and for measurements.
//   --decode          lines are arrays of tokens, and out come texts
//   --seconds         says on standard error how long encoding took
//   --threads=N
#include "runtime/Core/Json.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Text/Tokenizer.h"
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

using namespace ztc;

namespace {

struct Line {
  std::string text;
  std::vector<int32_t> tokens;
  Status status;
};

/// False, with a message, where the line is not what it should be.
bool readLine(const std::string &text, bool decodes, Line &line) {
  const nlohmann::json json = parseJson(text);
  if (!decodes && json.is_string()) {
    line.text = *json.get_ptr<const std::string *>();
    return true;
  }
  if (decodes && json.is_array()) {
    for (const nlohmann::json &token : json)
      line.tokens.push_back(tokenIdOf(token).value_or(-1));
    return true;
  }
  print(stderr, "tokenize: a line is not what it should be\n");
  return false;
}

void work(const Tokenizer &tokenizer, bool decodes, std::vector<Line> &lines, unsigned threads) {
  std::atomic<size_t> next = 0;
  constexpr size_t kTogether = 64;
  const auto run = [&] {
    WordCache cache;
    for (size_t begin = next.fetch_add(kTogether); begin < lines.size(); begin = next.fetch_add(kTogether))
      for (size_t i = begin; i < std::min(begin + kTogether, lines.size()); ++i) {
        Line &line = lines[i];
        if (!decodes) {
          line.status = tokenizer.encode(line.text, true, line.tokens, cache);
        } else if (auto text = tokenizer.decode(line.tokens, false); text.isOk()) {
          line.text = std::move(*text);
        } else {
          line.status = text.status();
        }
      }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i)
    others.emplace_back(run);
  run();
  for (std::thread &other : others)
    other.join();
}

} // namespace

int main(int argc, char **argv) {
  bool decodes = false, says = false;
  unsigned threads = 1;
  std::string folder;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--decode")
      decodes = true;
    else if (argument == "--seconds")
      says = true;
    else if (argument.starts_with("--threads="))
      threads = unsigned(std::atoi(argument.c_str() + 10));
    else
      folder = argument;
  }
  const auto tokenizer = Tokenizer::open(folder);
  if (!tokenizer.isOk()) {
    print(stderr, "tokenize: {}\n", tokenizer.status().message());
    return 1;
  }
  std::vector<Line> lines;
  for (std::string text; std::getline(std::cin, text);)
    if (!readLine(text, decodes, lines.emplace_back()))
      return 1;
  const double began = steadySeconds();
  work(*tokenizer, decodes, lines, threads);
  if (says)
    print(stderr, "{}\n", steadySeconds() - began);
  for (const Line &line : lines) {
    nlohmann::json out = decodes ? nlohmann::json(line.text) : nlohmann::json(line.tokens);
    if (!line.status.isOk())
      out = {{"error", line.status.message()}};
    print(stdout, "{}\n", out.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  }
  return 0;
}
