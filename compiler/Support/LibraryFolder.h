// Where libZtc.so lies: what is installed beside it is found from there.
#pragma once
#include <string>

namespace ztc {

/// The folder of libZtc.so, as it was loaded; "" where the system does not say.
std::string libraryFolder();

} // namespace ztc
