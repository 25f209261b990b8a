// Stacks, the switch between them, and what sanitizers want to know about both.
#pragma once
#include <cstddef>

/// Saves the callee's registers on this stack, its pointer in *save, and goes on where `to` was saved.
extern "C" void ztcSimtSwitch(void **save, void *to);

namespace ztc::simt {

/// Bytes of one fiber's stack, without its guard page.
inline constexpr size_t kStackBytes = size_t(128) << 10;

/// A stack whose use below its lowest byte ends the process. Null where memory is out.
std::byte *makeStack();
/// What ztcSimtSwitch takes to begin `start` on an empty stack. `start` must not return.
void *beginOn(std::byte *stack, void (*start)());

// No operations unless the build has AddressSanitizer or ThreadSanitizer.
/// A thread that ThreadSanitizer has not seen; what the caller did comes before whatever it does.
void *makeSanitizerFiber();
void endSanitizerFiber(void *fiber);
void *currentSanitizerFiber();
/// Before a switch: away from a stack, which may be finished with, to another one.
void leaveFor(void **fakeStack, bool last, const void *bottom, size_t bytes, void *fiber);
/// After a switch: says where it came from.
void arrive(void *fakeStack, const void **fromBottom, size_t *fromBytes);
/// Forgets what an abandoned fiber left on its stack.
void cleanStack(std::byte *stack);
/// A kernel's access, by the instruction at `from`: kernels are not instrumented, the sanitizer is told.
void noteRead(const void *address, size_t bytes, const void *from);
void noteWrite(const void *address, size_t bytes, const void *from);
/// Whether AddressSanitizer guards a byte of these.
bool isGuarded(const void *address, size_t bytes);
/// Orders memory accesses before release(p) ahead of those after acquire(p).
void release(void *token);
void acquire(void *token);

/// While it lives ThreadSanitizer sees neither accesses nor locks: those of the engine and its host are not the
/// kernel's and order nothing for it.
class Unseen {
public:
#ifdef ZTC_SIMT_TSAN
  Unseen();
  ~Unseen();
#else
  Unseen() {}
#endif
  Unseen(const Unseen &) = delete;
  Unseen &operator=(const Unseen &) = delete;
};

} // namespace ztc::simt
