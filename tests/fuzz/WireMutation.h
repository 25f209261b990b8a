// For targets whose inputs are protobuf messages: libFuzzer's mutations go through the message's fields.
#pragma once
#include "tests/fuzz/WireMutator.h"
#include <cstring>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  std::mt19937_64 random(seed);
  if (random() % 16 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  const auto mutateBytes = [](const std::string &bytes, std::mt19937_64 &) {
    std::string changed = bytes;
    changed.resize(std::min<size_t>(bytes.size() * 2 + 16, 1 << 16));
    const size_t held = std::min(bytes.size(), changed.size());
    changed.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(changed.data()), held, changed.size()));
    return changed;
  };
  const std::string changed = ztc::fuzz::mutateWire({reinterpret_cast<const char *>(data), size}, random, mutateBytes);
  if (changed.size() > maxSize)
    return size;
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}
