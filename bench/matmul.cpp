// Times products of the sizes that a transformer's layers have on a rank, and of matrices with
// vectors, against oneDNN and OpenBLAS called directly. Every rank does the whole.
#include <cblas.h>
#include <dlfcn.h>
#include <omp.h>

#include <cstdint>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "coconet/coconet.h"
#include "jit/platform/host/openblas.h"
#include "memory.h"
#include "rows.h"
#include "timing.h"

namespace {

using coconet::Dim;
using coconet::Executable;
using coconet::Program;
using coconet::World;

/// [rows, terms] x [terms, columns].
struct Shape {
  std::int64_t rows, terms, columns;
  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(rows * terms); }
  [[nodiscard]] std::size_t right() const { return static_cast<std::size_t>(terms * columns); }
  [[nodiscard]] std::size_t result() const { return static_cast<std::size_t>(rows * columns); }
};

/// Half of each layer's matrices, which two ranks share: tokens are B * S.
constexpr Shape shapes[] = {
    {128, 384, 768},                       // attention, H = 768, B * S = 128
    {1024, 384, 768},                      //   and 1024
    {1024, 512, 1024},                     // H = 1024
    {2048, 512, 1024}, {128, 1536, 3072},  // H = 3072
    {128, 1536, 768},                      // the second of an mlp, H = 768
    {1024, 1536, 768}, {1024, 2048, 1024}, {2048, 2048, 1024}, {128, 6144, 3072},
    {1024, 768, 1536},  // the first of an mlp
    {512, 1024, 1024}, {512, 512, 1},      {2048, 2048, 1},    {1, 1024, 4096},
};

/// oneDNN's product. Its right side may lie in an order that oneDNN chooses, into which every step
/// brings it: weights change from one step to the next.
class Dnnl {
 public:
  Dnnl(const Shape& shape, coconet::DType dtype, const void* a, const void* b, void* out,
       bool rearranges)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    const auto type = dtype == coconet::f32 ? memory::data_type::f32 : memory::data_type::bf16;
    const auto plain = [type](std::int64_t rows, std::int64_t columns) {
      return memory::desc({rows, columns}, type, memory::format_tag::ab);
    };
    const memory::desc left = plain(shape.rows, shape.terms);
    const memory::desc right = plain(shape.terms, shape.columns);
    const memory::desc any({shape.terms, shape.columns}, type, memory::format_tag::any);
    const memory::desc result = plain(shape.rows, shape.columns);
    const dnnl::matmul::primitive_desc kind(
        dnnl::matmul::desc(left, rearranges ? any : right, result), engine_);
    matmul_ = dnnl::matmul(kind);
    // oneDNN only reads them.
    a_ = memory(left, engine_, const_cast<void*>(a));
    b_ = memory(right, engine_, const_cast<void*>(b));
    out_ = memory(result, engine_, out);
    if (kind.weights_desc() != right) {
      rearranged_ = memory(kind.weights_desc(), engine_);
      reorder_ = dnnl::reorder(b_, rearranged_);
    }
  }

  void multiply() {
    if (reorder_) reorder_.execute(stream_, b_, rearranged_);
    matmul_.execute(stream_, {{DNNL_ARG_SRC, a_},
                              {DNNL_ARG_WEIGHTS, reorder_ ? rearranged_ : b_},
                              {DNNL_ARG_DST, out_}});
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  dnnl::reorder reorder_;
  dnnl::memory a_, b_, out_, rearranged_;
};

/// OpenBLAS, which the library has loaded with kernels that fit the processor, and with one thread.
class Blas {
 public:
  Blas() {
    const auto& facts = coconet::jit::openblas::facts();
    if (!facts.problem.empty()) throw std::runtime_error(facts.problem);
    void* const library = dlopen(facts.file.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) throw std::runtime_error(dlerror());
    sgemm_ = reinterpret_cast<decltype(sgemm_)>(dlsym(library, "cblas_sgemm"));
    sgemv_ = reinterpret_cast<decltype(sgemv_)>(dlsym(library, "cblas_sgemv"));
  }

  void multiply(const Shape& shape, const float* a, const float* b, float* out) const {
    const auto rows = static_cast<int>(shape.rows), terms = static_cast<int>(shape.terms);
    const auto columns = static_cast<int>(shape.columns);
    if (columns == 1) {
      sgemv_(CblasRowMajor, CblasNoTrans, rows, terms, 1, a, terms, b, 1, 0, out, 1);
    } else if (rows == 1) {
      sgemv_(CblasRowMajor, CblasTrans, terms, columns, 1, b, columns, a, 1, 0, out, 1);
    } else {
      sgemm_(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns, terms, 1, a, terms, b,
             columns, 0, out, columns);
    }
  }

 private:
  decltype(&cblas_sgemm) sgemm_;
  decltype(&cblas_sgemv) sgemv_;
};

template <class Element>
void measure(const World& world, const Blas& blas, const Shape& shape, bench::Rows& rows) {
  const coconet::DType dtype = coconet::dtype_of<Element>;
  const auto a = bench::make_array<Element>(shape.left());
  const auto b = bench::make_array<Element>(shape.right());
  const auto out = bench::make_array<Element>(shape.result());
  const auto fill = [](Element* to, std::size_t count, std::size_t stride) {
    for (std::size_t i = 0; i < count; ++i)
      to[i] = static_cast<Element>(0.02 * (static_cast<double>(i * stride % 19) - 9));
  };
  fill(a.get(), shape.left(), 7);
  fill(b.get(), shape.right(), 5);

  Program program("matmul", coconet::Mesh::over(world));
  const auto left =
      program.input("a", dtype, {Dim(shape.rows), Dim(shape.terms)}, coconet::replicated);
  const auto right =
      program.input("b", dtype, {Dim(shape.terms), Dim(shape.columns)}, coconet::replicated);
  program.output("out", matmul(left, right));
  Executable step = coconet::compile(program, coconet::Schedule("none"), world);
  step.bind("a", std::span(a.get(), shape.left()));
  step.bind("b", std::span(b.get(), shape.right()));
  step.bind("out", std::span(out.get(), shape.result()));

  Dnnl plain(shape, dtype, a.get(), b.get(), out.get(), false);
  Dnnl rearranged(shape, dtype, a.get(), b.get(), out.get(), true);
  std::vector<bench::Contestant> contestants;
  const auto add = [&](std::string name, std::function<void(int)> multiply) {
    contestants.push_back({.name = std::move(name), .step = std::move(multiply)});
  };
  add("coconet-jit", [&](int) { step.run(); });
  add("oneDNN", [&](int) { plain.multiply(); });
  add("oneDNN, rearranged", [&](int) { rearranged.multiply(); });
  if constexpr (std::is_same_v<Element, float>) {
    add("OpenBLAS", [&](int) { blas.multiply(shape, a.get(), b.get(), out.get()); });
  }
  bench::measure(contestants);
  const auto ms = [&](const char* name) { return bench::fastest(contestants, {name}); };
  rows.add({.name = std::string(coconet::to_string(dtype)) + " [" + std::to_string(shape.rows) +
                    ", " + std::to_string(shape.terms) + "] x [" + std::to_string(shape.terms) +
                    ", " + std::to_string(shape.columns) + "]",
            .n = static_cast<std::size_t>(shape.rows * shape.terms * shape.columns),
            .ms = ms("coconet-jit"),
            .peer_ms = bench::fastest(contestants, {"oneDNN", "oneDNN, rearranged", "OpenBLAS"})});
}

void run(const bench::Options& options) {
  const World world = World::mpi();
  const Blas blas;
  omp_set_num_threads(1);  // oneDNN's, as the library sets them
  bench::Rows rows("matmul", world.size(), world.rank() == 0, options.json);
  const std::span<const Shape> all(shapes);
  for (const Shape& shape : options.quick ? all.first(2) : all) {
    measure<float>(world, blas, shape, rows);
    measure<coconet::BFloat16>(world, blas, shape, rows);
  }
  rows.write();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program(argc, argv, run);
}
