// The host's functions, compiled as kernels are, against those of long double: how many units in
// the last place they are off, infinities, zeros and NaN, and that a lane's bits are no other
// lane's.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "child_process.h"
#include "jit/platform/host/compiler.h"
#include "jit/prelude/two_arrays.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;

namespace {

/// A function, and the greatest error that docs/programs.md states of f32 and of f64, in units in
/// the last place.
struct MathFunction {
  const char* name;
  long double (*exact)(long double, long double);
  double f32_error, f64_error;
};
constexpr MathFunction functions[] = {
    {"exp_", [](long double x, long double) { return std::exp(x); }, 1, 1},
    {"expm1_", [](long double x, long double) { return std::expm1(x); }, 1.5, 1.9},
    {"log_", [](long double x, long double) { return std::log(x); }, 0.9, 0.9},
    {"log1p_", [](long double x, long double) { return std::log1p(x); }, 1.4, 1.4},
    {"sin_", [](long double x, long double) { return std::sin(x); }, 1.6, 1.6},
    {"cos_", [](long double x, long double) { return std::cos(x); }, 1.6, 1.6},
    {"tanh_", [](long double x, long double) { return std::tanh(x); }, 2.5, 2.6},
    {"erf_", [](long double x, long double) { return std::erf(x); }, 1.2, 1.1},
    {"pow_", [](long double x, long double y) { return std::pow(x, y); }, 0.6, 1.1},
    {"power_<-2>", [](long double x, long double) { return std::pow(x, -2.0L); }, 2, 2},
    {"power_<2>", [](long double x, long double) { return std::pow(x, 2.0L); }, 0.5, 0.5},
    {"power_<3>", [](long double x, long double) { return std::pow(x, 3.0L); }, 1.5, 1.5},
    {"power_<4>", [](long double x, long double) { return std::pow(x, 4.0L); }, 2, 2},
    {"root_", [](long double x, long double) { return std::pow(x, 0.5L); }, 0.5, 0.5}};

/// What every function is computed of: 0, 1, infinity and their like.
template <class S>
std::vector<S> ends() {
  using limits = std::numeric_limits<S>;
  std::vector<S> all = {0,
                        1,
                        2,
                        3,
                        S(0.5),
                        S(2.5),
                        limits::infinity(),
                        limits::quiet_NaN(),
                        700,
                        1000,
                        89,
                        1e30F,
                        limits::denorm_min(),
                        limits::min(),
                        limits::max(),
                        1 + limits::epsilon(),
                        1 - limits::epsilon()};
  const std::size_t count = all.size();
  for (std::size_t i = 0; i < count; ++i) all.push_back(-all[i]);
  return all;
}

/// Numbers of every exponent and both signs, and as many of those that functions mostly get: with
/// TESTS_ALL=1 5 million.
template <class S>
std::vector<S> numbers() {
  using Bits = std::conditional_t<sizeof(S) == 4, std::uint32_t, std::uint64_t>;
  constexpr int fraction_bits = std::numeric_limits<S>::digits - 1;
  constexpr int exponents = 2 * std::numeric_limits<S>::max_exponent;
  const int times = runs_all() ? 125 : 1, each = (sizeof(S) == 4 ? 40 : 5) * times;
  std::mt19937_64 random(7);
  std::vector<S> all = ends<S>();
  for (int exponent = 0; exponent < 2 * exponents; ++exponent) {  // sign and exponent
    for (int i = 0; i < each; ++i) {
      const Bits fraction = static_cast<Bits>(random()) >> (sizeof(Bits) * 8 - fraction_bits);
      all.push_back(std::bit_cast<S>(static_cast<Bits>(exponent) << fraction_bits | fraction));
    }
  }
  for (const double most : {1.0, 10.0, 100.0, 750.0}) {
    std::uniform_real_distribution<double> near(-most, most);
    for (int i = 0; i < 5000 * times; ++i) all.push_back(static_cast<S>(near(random)));
  }
  return all;
}

/// Pairs of x and y for x^y, one after the other.
template <class S>
std::vector<S> pairs() {
  std::vector<S> all;
  for (const S x : ends<S>()) {
    for (const S y : ends<S>()) all.insert(all.end(), {x, y});
  }
  std::mt19937_64 random(7);
  const std::vector<S> any = numbers<S>();
  for (const S x : any) all.insert(all.end(), {x, any[random() % any.size()]});
  std::uniform_real_distribution<double> one(-1, 1);
  for (std::size_t i = 0; i < any.size() / 3; ++i) {
    const double y = one(random);
    all.insert(all.end(), {static_cast<S>(2 + 2 * one(random)), static_cast<S>(300 * y)});
    all.insert(all.end(), {static_cast<S>(1 + 1e-3 * one(random)), static_cast<S>(8e4 * y)});
    all.insert(all.end(), {std::fabs(any[random() % any.size()]), static_cast<S>(y)});
  }
  return all;
}

/// How far `value` is from `exact`, in units in the last place of S; infinity where one of them is
/// NaN, infinite or a zero of a sign that the other is not.
template <class S>
double units_off(S value, long double exact) {
  using limits = std::numeric_limits<S>;
  constexpr double far = std::numeric_limits<double>::infinity();
  const S nearest = static_cast<S>(exact);
  if (std::isnan(value) || std::isnan(exact))
    return std::isnan(value) && std::isnan(exact) ? 0 : far;
  if (std::isinf(value) || std::isinf(nearest)) {
    const bool at_most = std::fabs(value) == limits::max() || std::fabs(nearest) == limits::max();
    return value == nearest ? 0 : at_most && std::signbit(value) == std::signbit(nearest) ? 1 : far;
  }
  if (value == 0 && nearest == 0) return std::signbit(value) == std::signbit(nearest) ? 0 : far;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const int unit = std::max(exponent, limits::min_exponent) - limits::digits;
  return static_cast<double>(std::ldexp(std::fabs(value - exact), -unit));
}

template <class S>
std::vector<S> computed(const std::string& statements, const std::vector<S>& in, std::size_t count,
                        const jit::Compiler& compiler) {
  const std::string type = sizeof(S) == 4 ? "f32" : "f64";
  const TwoArrays<S, S> kernel(type, type, statements, {"functions.h"}, compiler);
  std::vector<S> out(count);
  kernel(out, in);
  return out;
}

/// How many of `count` numbers have other bits, where one NaN is as good as another.
template <class S>
std::size_t differing(const S* some, const S* others, std::size_t count) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const bool both_nan = std::isnan(some[i]) && std::isnan(others[i]);
    found += !both_nan && std::memcmp(some + i, others + i, sizeof(S)) != 0 ? 1 : 0;
  }
  return found;
}

/// The compiler that kernels are compiled with, and clang++ where it is.
std::vector<jit::HostCompiler> compilers() {
  std::vector<jit::HostCompiler> all;
  all.emplace_back(config().cxx, config().cxx_flags, config().compile_timeout);
  if (run_shell("command -v clang++").code == 0)
    all.emplace_back("clang++", "", config().compile_timeout);
  return all;
}

/// The body of a kernel that computes `call` of each in[i], or in[2 * i] and in[2 * i + 1], twice:
/// in vectors of 32 lanes, of which the first begins at 0, and then at 5. What is left over is
/// computed by itself.
std::string of_all(const std::string& call, int arity) {
  const std::string count = arity == 2 ? "a.count / 2" : "a.count";
  const std::string take = arity == 2 ? "a.in[2 * (i + l)], a.in[2 * (i + l) + 1]" : "a.in[i + l]";
  const std::string store = "out[i + l] = " + call + "(" + take + ");";
  return "  const index_t count = " + count +
         ";\n  for (index_t begin = 0; begin <= 5; begin += 5) {\n"
         "    auto* const out = a.out + begin / 5 * count;\n    index_t i = 0;\n"
         "    while (i < count) {\n      if (i >= begin && i + 32 <= count) {\n"
         "        wave_lanes<32, sizeof(*a.out)>([&](int l, auto sin_, auto cos_) INLINED {\n"
         "          " +
         store +
         "\n        });\n        i += 32;\n      } else {\n"
         "        const int l = 0;\n        " +
         store + "\n        ++i;\n      }\n    }\n  }\n";
}

template <class S>
void check_function(const MathFunction& function, const std::vector<jit::HostCompiler>& compilers) {
  const bool is_pow = std::string(function.name) == "pow_";
  const std::vector<S> in = is_pow ? pairs<S>() : numbers<S>();
  const std::size_t arity = is_pow ? 2 : 1, count = in.size() / arity;
  const std::string body = of_all(function.name, static_cast<int>(arity));
  const std::vector<S> out = computed(body, in, 2 * count, compilers.front());
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double off = units_off(out[i], function.exact(in[arity * i], in[arity * (i + 1) - 1]));
    if (off > worst) {
      worst = off;
      where = i;
    }
  }
  INFO(function.name << " of " << in[arity * where]
                     << (is_pow ? ", " + std::to_string(in[2 * where + 1]) : "") << " is "
                     << out[where]);
  CHECK(worst <= (sizeof(S) == 4 ? function.f32_error : function.f64_error));
  CHECK(differing(out.data(), out.data() + count, count) == 0);
  for (std::size_t other = 1; other < compilers.size(); ++other) {
    INFO("compiler " << compilers[other].path());
    const std::vector<S> same = computed(body, in, 2 * count, compilers[other]);
    CHECK(differing(out.data(), same.data(), 2 * count) == 0);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("functions are as exact as documented, in the same bits everywhere", "", float,
                   double) {
  const std::vector<jit::HostCompiler> all = compilers();
  for (const MathFunction& function : functions) {
    INFO(function.name);
    check_function<TestType>(function, all);
  }
}
