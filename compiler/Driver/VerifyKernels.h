// `ztc compile --verify` in phase `codegen`: the kernels of the small plan, those of the plan that was asked for.
#pragma once
#include "compiler/Driver/Session.h"
#include "compiler/Verification/KernelVerifier.h"

namespace ztc::driver {

/// Runs the kernels of the session's module, the small one, which has been through phase `schedule`. Where one is
/// wrong, the first plugin's pass over kernels with which it is so is named on stderr; false then.
bool kernelsHold(Session &session, verification::KernelReport &found);

/// Takes the session's module, which has been through phase `assign`, through phase `codegen` and runs a few units of
/// each of its kernels. Where a target is a GPU, kernels for a processor and for the engine that runs those for GPUs
/// are made of a copy. Prints what was verified and what could not be; false, with a message that names the pass, where
/// a kernel is wrong, or where the phase fails.
bool realKernelsHold(Session &session);

} // namespace ztc::driver
