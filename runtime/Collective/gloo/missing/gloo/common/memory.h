// Gloo's gloo/common/memory.h, which its headers of TCP pairs include and Debian's libgloo-dev leaves out: looked for
// after all other folders. The module makes no object of these types; their sizes are part of those of pairs.
#pragma once
#include <memory>

namespace gloo {

template <typename T> class NonOwningPtr {
  std::shared_ptr<T *> pointer;
};

template <typename T> class WeakNonOwningPtr {
  std::weak_ptr<T *> pointer;
};

template <typename T> class ShareableNonOwningPtr {
  std::shared_ptr<T *> pointer;
};

} // namespace gloo
