#include "runtime/Train/RowSource.h"

namespace ztc {

namespace {

/// splitmix64 (Steele, Lea, Flood 2014): a counter in, 64 well-mixed bits out.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

} // namespace

Status RandomRows::read(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) {
  uint64_t key = mix(mix(seed_) + index);
  auto token = [&](uint64_t position) { return int32_t(mix(key + position) % vocabulary_); };
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = token(i);
    targets[i] = token(i + 1);
  }
  return Status::ok();
}

} // namespace ztc
