// What another user may not: as root, a test becomes one for a while; other users are refused as
// they are.
#pragma once

#include <unistd.h>

#include <cstdlib>

namespace coconet::test {

class AsNobody {
 public:
  AsNobody() : is_root_(geteuid() == 0) {
    constexpr uid_t nobody = 65534;
    if (is_root_ && seteuid(nobody) != 0) std::abort();
  }
  ~AsNobody() {
    if (is_root_ && seteuid(0) != 0) std::abort();
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  bool is_root_;
};

}  // namespace coconet::test
