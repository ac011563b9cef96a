// Shipped programs and schedules equal the reference, in the 16-bit floats.
#include "jit/conformance/shipped_conformance.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("every shipped program under every schedule equals the reference in f16") {
  require_shipped_programs_conform(f16);
}

TEST_CASE("every shipped program under every schedule equals the reference in bf16") {
  require_shipped_programs_conform(bf16);
}
