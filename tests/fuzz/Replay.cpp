// Runs a target on the files of folders, once each, and on deterministic changes of each: a short test that needs no
// sanitizer. Usage: TARGET FOLDER... [-changes=N]
#include "tests/fuzz/Fuzz.h"
#include "tests/fuzz/WireMutator.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace fs = std::filesystem;

static std::string changed(const std::string &bytes, std::mt19937_64 &random) {
  std::string result = bytes;
  for (unsigned n = 1 + random() % 4; n && !result.empty(); --n)
    switch (random() % 3) {
    case 0:
      result[random() % result.size()] = static_cast<char>(random());
      break;
    case 1:
      result.erase(random() % result.size(), random() % 8);
      break;
    default:
      result.insert(random() % result.size(), std::string(random() % 8, static_cast<char>(random())));
    }
  return result;
}

static void runOn(const std::string &input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(input.data()), input.size());
}

int main(int argc, char **argv) {
  unsigned changes = 0, inputs = 0;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("-changes="))
      changes = static_cast<unsigned>(std::strtoul(argv[i] + 9, nullptr, 10));
    else
      for (const auto &entry : fs::recursive_directory_iterator(argument))
        if (entry.is_regular_file())
          files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::mt19937_64 random(1);
  for (const fs::path &file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(stream), {}};
    runOn(content);
    ++inputs;
    for (unsigned i = 0; i < changes; ++i, ++inputs)
      runOn(i % 2 ? ztc::fuzz::mutateWire(content, random, changed) : changed(content, random));
  }
  std::printf("%u inputs\n", inputs);
  return files.empty() ? 1 : 0;
}
