// Token files. The first byte says which kind: 0 a .bin (llm.c, nanoGPT), 1 Megatron ("index, part end, tokens"), 2 a
// safetensors data set, 3 text.
#include "runtime/Data/DataSet.h"
#include "tests/fuzz/Fuzz.h"
#include <cstdlib>

using namespace ztc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Scratch scratch;
  if (size < 1)
    return 0;
  std::string_view content = fuzz::text(data + 1, size - 1);
  DataOptions options;
  options.seq = 16;
  options.vocabulary = 300;
  options.shuffle = data[0] & 4;
  options.bytesTokenizer = (data[0] & 3) == 3;
  scratch.remove("tokens.idx");
  switch (data[0] & 3) {
  case 0:
    options.files = {scratch.write("tokens.bin", content)};
    break;
  case 1:
    options.files = {scratch.write("tokens.idx", fuzz::nextPart(content))};
    scratch.write("tokens.bin", content);
    break;
  case 2:
    options.files = {scratch.write("tokens.safetensors", content)};
    break;
  default:
    options.files = {scratch.write("tokens.txt", content)};
  }
  auto set = DataSet::open(options);
  if (!set.isOk())
    return 0;
  (void)(*set)->fingerprint();
  int32_t tokens[16], targets[16];
  for (uint64_t row = 0; row < (*set)->rows() + 2 && row < 100; ++row) {
    if (!(*set)->fillRow(row, tokens, targets).isOk())
      continue;
    for (int i = 0; i < 16; ++i)
      if (tokens[i] < 0 || tokens[i] >= 300 || targets[i] < kIgnoredTarget || targets[i] >= 300)
        std::abort(); // outside of the vocabulary
    (void)(*set)->countTargets(row, 1);
  }
  return 0;
}
