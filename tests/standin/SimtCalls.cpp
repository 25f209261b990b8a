// The engine for programs that open this library: `ztc compile --verify` runs single kernels by these three functions
// (compiler/Verification/SimtEngine.cpp declares them again, as it would those of a driver).
#include "tests/standin/Simt.h"
#include <algorithm>
#include <mutex>
#include <vector>

namespace ztc::simt {
namespace {

/// What the kernel that runs may touch.
struct Piece {
  const char *begin;
  uint64_t bytes;
};
std::vector<Piece> allowed;
std::mutex one;

bool isInBuffers(const void *address, uint64_t bytes) {
  const char *at = static_cast<const char *>(address);
  return reinterpret_cast<uintptr_t>(at) % std::min<uint64_t>(bytes, 16) == 0 &&
         std::any_of(allowed.begin(), allowed.end(),
                     [&](const Piece &piece) { return at >= piece.begin && at + bytes <= piece.begin + piece.bytes; });
}

} // namespace

extern "C" {

/// A loaded image, or null with a message of at most `room` bytes in `error`.
void *ztcSimtLoad(const char *bytes, uint64_t count, char *error, uint64_t room) {
  StatusOr<std::unique_ptr<Image>> image = Image::load({bytes, count});
  if (image.isOk())
    return image->release();
  error[image.status().message().copy(error, room - 1)] = 0;
  return nullptr;
}

void ztcSimtUnload(void *image) {
  delete static_cast<Image *>(image);
}

/// Runs blocks [firstBlock, firstBlock + someBlocks) of a kernel, all of them where that is none. Its parameters are
/// `words`, of which the first `buffers` are addresses of memory of sizes[i] bytes: an access elsewhere, or at no
/// multiple of its size, ends it. `descending`: blocks and threads take their turns in that order. 0, or 1 with a
/// message.
int ztcSimtRun(void *image, const char *kernel, uint32_t blocks, uint64_t firstBlock, uint64_t someBlocks,
               uint32_t threads, int descending, const uint64_t *words, uint64_t count, const uint64_t *sizes,
               uint64_t buffers, char *error, uint64_t room) {
  const Entry entry = static_cast<Image *>(image)->find(kernel);
  Status status = failedPrecondition("it is not in the image");
  if (entry) {
    const std::lock_guard lock(one);
    allowed.clear();
    for (uint64_t i = 0; i < buffers; ++i)
      allowed.push_back({reinterpret_cast<const char *>(words[i]), sizes[i]});
    std::vector<void *> parameters;
    for (uint64_t i = 0; i < count; ++i)
      parameters.push_back(const_cast<uint64_t *>(&words[i]));
    const LaunchShape shape{
        {blocks}, {threads}, descending ? Order::Descending : Order::Ascending, firstBlock, someBlocks};
    setMemoryCheck(isInBuffers);
    status = launch(entry, shape, parameters.data());
    setMemoryCheck(nullptr);
  }
  if (status.isOk())
    return 0;
  error[status.message().copy(error, room - 1)] = 0;
  return 1;
}

} // extern "C"
} // namespace ztc::simt
