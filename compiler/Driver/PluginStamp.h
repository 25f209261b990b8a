// What a plugin and the compiler that loads it must have in common. Both compile this header; ztc_add_plugin puts the
// text into an ELF note of the plugin (PluginStamp.cpp), which is read before the plugin is opened.
#pragma once
#include "compiler/Driver/PublicHeaders.inc" // ZTC_PUBLIC_HEADERS
#include "runtime/Core/Version.h"
#include "llvm/Config/llvm-config.h"
#include <cstdint>
#include <string> // which C++ library

#ifdef _GLIBCXX_RELEASE
#define ZTC_STAMP_TEXT(x) #x
#define ZTC_STAMP_OF(x) ZTC_STAMP_TEXT(x)
#define ZTC_STAMP_LIBRARY "libstdc++ ABI " ZTC_STAMP_OF(_GLIBCXX_USE_CXX11_ABI)
#else
#define ZTC_STAMP_LIBRARY "another C++ library"
#endif
#if LLVM_ENABLE_ABI_BREAKING_CHECKS
#define ZTC_STAMP_CHECKS " with checks"
#else
#define ZTC_STAMP_CHECKS ""
#endif

/// "ztc 0.1.0, headers 0123456789abcdef, LLVM 22.1.2, libstdc++ ABI 1".
#define ZTC_PLUGIN_STAMP                                                                                               \
  "ztc " ZTC_VERSION ", headers " ZTC_PUBLIC_HEADERS ", LLVM " LLVM_VERSION_STRING ZTC_STAMP_CHECKS                    \
  ", " ZTC_STAMP_LIBRARY

namespace ztc {

/// An ELF note as the section `.note.ztc` holds it.
struct PluginNote {
  uint32_t nameBytes = 4, textBytes = sizeof(ZTC_PLUGIN_STAMP), type = 1;
  char name[4] = {'z', 't', 'c', 0};
  char text[(sizeof(ZTC_PLUGIN_STAMP) + 3) / 4 * 4] = ZTC_PLUGIN_STAMP;
};

} // namespace ztc
