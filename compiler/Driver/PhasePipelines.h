// Phases as pipelines of ztc-opt.
#pragma once

namespace ztc::driver {

/// Registers `--ztc-phase=NAME...`: the passes of these phases, in the order of compilation, each with its verifier, as
/// `ztc compile` runs them. Options follow the names: --ztc-phase="shard fuse zero=3".
void registerPhasePipelines();

} // namespace ztc::driver
