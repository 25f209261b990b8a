// The border between ztc-run and libztc-gloo.so: a C table of functions. No exception, no C++ object and no ownership
// of memory crosses it.
#pragma once
#include <stdint.h>

extern "C" {

/// Changes with every change of the table: program and module must be of one build.
#define ZTC_GLOO_VERSION 2u

typedef struct ZtcGloo ZtcGloo;

/// Filled where a function returns something else than 0.
typedef struct ZtcGlooError {
  int32_t peer; ///< the rank that is lost, or -1 where that is not known
  char message[500];
} ZtcGlooError;

/// Messages are waited for by lane, so that those of one piece are not confused with those of the next.
enum { ZTC_GLOO_LANES = 3 };

/// Point-to-point messages between all ranks. A message meets the receive of the same peer, tag and size; its tag is
/// not used twice at a time, and lanes are not part of it. After any error or abort() every function fails, and none of
/// the memory given is touched any more once the failing wait has returned. One thread at a time, except abort.
typedef struct ZtcGlooFunctions {
  uint32_t version; ///< ZTC_GLOO_VERSION of the module

  /// Without connections so far.
  int (*open)(uint32_t rank, uint32_t world, ZtcGloo **result, ZtcGlooError *error);
  /// Takes a connected socket as the connection with `peer`, and owns it from then on, even where it fails.
  int (*adopt)(ZtcGloo *gloo, uint32_t peer, int descriptor, ZtcGlooError *error);

  /// Begin; data must stay until the wait.
  int (*send)(ZtcGloo *gloo, uint32_t lane, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes,
              ZtcGlooError *error);
  int (*receive)(ZtcGloo *gloo, uint32_t lane, uint32_t peer, uint64_t tag, void *data, uint64_t bytes,
                 ZtcGlooError *error);
  /// Wait until `count` more sends or receives of a lane are complete; for ever, or until an error or abort().
  int (*waitSends)(ZtcGloo *gloo, uint32_t lane, uint32_t count, ZtcGlooError *error);
  int (*waitReceives)(ZtcGloo *gloo, uint32_t lane, uint32_t count, ZtcGlooError *error);

  /// Makes a wait under way, and every later function, fail. Any thread.
  void (*abort)(ZtcGloo *gloo);
  /// Closes all connections, which tells the other ranks, and frees everything.
  void (*close)(ZtcGloo *gloo);
} ZtcGlooFunctions;

/// The module's one symbol.
const ZtcGlooFunctions *ztcGlooFunctions(void);
}
