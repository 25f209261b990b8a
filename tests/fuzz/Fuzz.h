// What the fuzz targets share. A target defines LLVMFuzzerTestOneInput; with libFuzzer it runs on mutated inputs, with
// Replay.cpp on files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace ztc::fuzz {

/// A folder of this process for files that readers open by path; removed at the end.
class Scratch {
public:
  Scratch() : folder_(std::filesystem::temp_directory_path() / ("ztc-fuzz-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  /// The path of a file with this content.
  std::string write(const std::string &name, std::string_view content) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  void remove(const std::string &name) const { std::filesystem::remove(folder_ / name); }
  std::string folder() const { return folder_.string(); }

private:
  std::filesystem::path folder_;
};

inline std::string_view text(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// Inputs that consist of several files: parts end with this line, the last one with the input.
inline constexpr std::string_view kPartEnd = "\n--part--\n";
/// Takes the first part off `rest`.
inline std::string_view nextPart(std::string_view &rest) {
  const size_t end = rest.find(kPartEnd);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + kPartEnd.size());
  return part;
}

} // namespace ztc::fuzz
