// What this processor and its operating system can execute.
#pragma once
#include <string>

namespace ztc {

/// The best kernel target of the host: "x86-64-v4" (AVX-512 F, BW, CD, DQ, VL), "x86-64-v3" (AVX2, FMA, BMI2, F16C) or
/// "" where neither runs. Features that the operating system does not save (XCR0) do not count.
std::string bestHostTarget();

/// Whether a kernel image built for `target` runs here.
bool hostSupports(const std::string &target);

} // namespace ztc
