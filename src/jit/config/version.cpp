// coconet::version.
#include "coconet/version.h"

#include "jit/config/build_info.h"

namespace coconet {

std::string_view version() {
  return jit::build_info::version;
}

}  // namespace coconet
