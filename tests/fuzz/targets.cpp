// Which exceptions are answers, and which are findings.
#include "fuzz/targets.h"

#include "coconet/error.h"

namespace coconet::fuzz {

std::string run(const Target& target, Bytes bytes) {
  try {
    target.run(bytes);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& refusal) {
    require(!std::string_view(refusal.what()).empty(), "an error says what is wrong");
    return refusal.what();
  }
  return {};
}

}  // namespace coconet::fuzz
