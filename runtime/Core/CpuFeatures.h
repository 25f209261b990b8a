// What this processor and its operating system can execute.
#pragma once
#include "runtime/Core/Status.h"
#include <string>

namespace ztc {

/// The best kernel target of the host: "x86-64-v4" (AVX-512 F, BW, CD, DQ, VL), "x86-64-v3" (AVX2, FMA, BMI2, F16C) or
/// "" where neither runs. Features that the operating system does not save (XCR0) do not count.
std::string bestHostTarget();

/// Whether a kernel image built for `target` runs here; of "avx512-bf16" (x86-64-v4 and VDPBF16PS) and "amx-bf16" (that
/// and TDPBF16PS, with the operating system's permission to use tiles), for which no image is built, whether our own
/// products may use it.
bool hostSupports(const std::string &target);

/// From here on this process uses nothing beyond `target`, whatever the processor has, so that one machine can run what
/// others would. Before anything asks what is supported. Fails (FailedPrecondition) where the processor lacks `target`.
Status limitHostTarget(const std::string &target);

} // namespace ztc
