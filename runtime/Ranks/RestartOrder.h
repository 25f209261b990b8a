// What a run that has lost a rank is started again with.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace ztc {

/// Ranks for a run that W were too many for: the most below W that divide the `globalBatch` rows of a step into
/// micro-batches of `batch`; 0 where there is no such number.
uint64_t fewerRanks(uint64_t world, uint64_t globalBatch, uint64_t batch);

/// `arguments` with `option`, which takes one value, given once, as `--option=value`.
std::vector<std::string> withOption(std::vector<std::string> arguments, const std::string &option,
                                    const std::string &value);

/// `arguments` as a shell takes them.
std::string commandLine(const std::vector<std::string> &arguments);

/// CUDA_VISIBLE_DEVICES without its entry `lost`; `visible` is what it says, empty for all `count` GPUs.
std::string devicesWithout(const std::string &visible, uint64_t count, uint64_t lost);

} // namespace ztc
