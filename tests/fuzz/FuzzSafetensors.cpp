// safetensors: a file, or "index, part end, shard": headers, indexes, every byte of every tensor.
#include "runtime/Format/Safetensors.h"
#include "tests/fuzz/Fuzz.h"

using namespace ztc;

static volatile unsigned kept;

static void readAll(const SafetensorsFile &file) {
  unsigned sum = 0;
  for (const SafetensorsTensor &tensor : file.tensors())
    for (const std::byte byte : file.data(tensor))
      sum += static_cast<unsigned>(byte);
  kept = sum;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::Scratch scratch;
  std::string_view rest = fuzz::text(data, size);
  const std::string_view first = fuzz::nextPart(rest);
  if (auto file = SafetensorsFile::open(scratch.write("one.safetensors", fuzz::text(data, size))); file.isOk())
    readAll(*file);
  scratch.write("model.safetensors.index.json", first);
  scratch.write("model-00001-of-00001.safetensors", rest);
  if (auto files = SafetensorsCollection::open(scratch.folder()); files.isOk())
    for (const auto &file : files->files())
      readAll(*file);
  return 0;
}
