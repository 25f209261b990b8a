// tokenizer.json, a part end, a text: tokens, and the text of these; or a message.
#include "runtime/Text/Tokenizer.h"
#include "runtime/Text/Unicode.h"
#include "tests/fuzz/Fuzz.h"
#include <cstdio>
#include <cstdlib>

using namespace ztc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view rest = fuzz::text(data, size);
  const std::string_view json = fuzz::nextPart(rest);
  const auto tokenizer = Tokenizer::parse(json, "fuzzed");
  if (!tokenizer.isOk()) {
    if (tokenizer.status().message().empty())
      std::abort();
    return 0;
  }
  static WordCache *cache = nullptr;
  delete cache; // words of another tokenizer
  cache = new WordCache();
  std::vector<int32_t> tokens;
  // A small file can ask for replacements that make a text longer and longer.
  if (!tokenizer->encode(rest.substr(0, 2000), true, tokens, *cache).isOk())
    return 0;
  const auto text = tokenizer->decode(tokens, false);
  if (text.isOk() && findInvalidUtf8(*text)) {
    std::fprintf(stderr, "decoded text is not UTF-8\n");
    std::abort();
  }
  TextStream stream(*tokenizer);
  for (size_t i = 0; i < tokens.size() && i < 50; ++i)
    if (!stream.push(tokens[i]).isOk())
      return 0;
  (void)stream.finish().isOk();
  return 0;
}
