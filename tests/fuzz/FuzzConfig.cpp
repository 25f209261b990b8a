// config.json of a Hugging Face folder without weights: a graph, or a message.
#include "frontends/huggingface/Folder.h"
#include "tests/fuzz/Fuzz.h"
#include <cstdio>
#include <cstdlib>

using namespace ztc;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Scratch scratch;
  scratch.write("config.json", fuzz::text(data, size));
  const auto built =
      huggingface::buildFolder(scratch.folder(), size % 2 ? StoragePrecision::Bf16 : StoragePrecision::Fp32, "");
  if (built.isOk() ? built->onnx.empty() : built.status().message().empty()) {
    std::fprintf(stderr, "neither a graph nor a message\n");
    std::abort();
  }
  return 0;
}
