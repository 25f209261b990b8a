// Control channels between threads of one process, for tests: the code of the TCP channel over pairs of local sockets.
#pragma once
#include "runtime/Ranks/ControlChannel.h"
#include <memory>
#include <vector>

namespace ztc {

/// `world` connected channels, in rank order. Channel 0 serves the others. Destroying one without finish() is what a
/// killed process looks like.
StatusOr<std::vector<std::unique_ptr<ControlChannel>>> createThreadChannels(uint32_t world,
                                                                            double timeoutSeconds = 300);

} // namespace ztc
