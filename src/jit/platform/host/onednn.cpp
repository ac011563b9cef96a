// Loading oneDNN, and products by it.
#include "jit/platform/host/onednn.h"

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "coconet/error.h"

namespace coconet::jit::onednn {

namespace {

/// The binary interface that the headers declare; oneDNN 3 has another.
constexpr const char* library_name = "libdnnl.so.2";
static_assert(DNNL_VERSION_MAJOR == 2);

#define COCONET_DNNL_FUNCTIONS(FUNCTION)                                 \
  FUNCTION(get_version, dnnl_version)                                    \
  FUNCTION(effective_isa, dnnl_get_effective_cpu_isa)                    \
  FUNCTION(sgemm, dnnl_sgemm)                                            \
  FUNCTION(engine_create, dnnl_engine_create)                            \
  FUNCTION(stream_create, dnnl_stream_create)                            \
  FUNCTION(stream_destroy, dnnl_stream_destroy)                          \
  FUNCTION(layout_by_strides, dnnl_memory_desc_init_by_strides)          \
  FUNCTION(layout_by_tag, dnnl_memory_desc_init_by_tag)                  \
  FUNCTION(layouts_equal, dnnl_memory_desc_equal)                        \
  FUNCTION(memory_create, dnnl_memory_create)                            \
  FUNCTION(memory_destroy, dnnl_memory_destroy)                          \
  FUNCTION(memory_set, dnnl_memory_set_data_handle)                      \
  FUNCTION(attr_create, dnnl_primitive_attr_create)                      \
  FUNCTION(attr_destroy, dnnl_primitive_attr_destroy)                    \
  FUNCTION(attr_set_scratchpad, dnnl_primitive_attr_set_scratchpad_mode) \
  FUNCTION(matmul_init, dnnl_matmul_desc_init)                           \
  FUNCTION(kind_create, dnnl_primitive_desc_create)                      \
  FUNCTION(reorder_kind_create, dnnl_reorder_primitive_desc_create)      \
  FUNCTION(kind_destroy, dnnl_primitive_desc_destroy)                    \
  FUNCTION(kind_query, dnnl_primitive_desc_query)                        \
  FUNCTION(kind_layout, dnnl_primitive_desc_query_md)                    \
  FUNCTION(primitive_create, dnnl_primitive_create)                      \
  FUNCTION(primitive_destroy, dnnl_primitive_destroy)                    \
  FUNCTION(execute, dnnl_primitive_execute)

COCONET_FUNCTION_TABLE(DnnlFunctions, COCONET_DNNL_FUNCTIONS);

struct Dnnl : DnnlFunctions, BlasFacts {
  dnnl_engine_t engine = nullptr;  ///< for as long as the process runs
  // OpenMP's numbers of threads; null where oneDNN is built without threads.
  int (*get_threads)() = nullptr;
  void (*set_threads)(int) = nullptr;
};

InstructionSet instructions_of(dnnl_cpu_isa_t isa) {
  switch (isa) {
    case dnnl_cpu_isa_sse41:
      return InstructionSet::baseline;
    case dnnl_cpu_isa_avx:
      return InstructionSet::avx;
    case dnnl_cpu_isa_avx2:
    case dnnl_cpu_isa_avx2_vnni:
      return InstructionSet::avx2;
    default:
      return InstructionSet::avx512;
  }
}

/// Finds out how the number of threads is set. What is wrong; empty when nothing is.
std::string examine_threads(Dnnl& dnnl, const SharedLibrary& library) {
  const unsigned runtime = dnnl.get_version()->cpu_runtime;
  if (runtime == DNNL_RUNTIME_SEQ) return "";
  if (runtime != DNNL_RUNTIME_OMP)
    return fmt::format("{} is built for threads other than OpenMP's", library_name);
  std::vector<std::string> missing;
  library.find("omp_get_max_threads", dnnl.get_threads, missing);
  library.find("omp_set_num_threads", dnnl.set_threads, missing);
  return missing.empty() ? "" : "its OpenMP has no function " + missing.front();
}

Dnnl load_onednn() {
  const SharedLibrary library({library_name}, {""});
  Dnnl dnnl;
  dnnl.problem = find_functions(dnnl, library, library_name);
  if (dnnl.problem.empty()) dnnl.problem = examine_threads(dnnl, library);
  if (dnnl.problem.empty() && dnnl.engine_create(&dnnl.engine, dnnl_cpu, 0) != dnnl_success)
    dnnl.problem = fmt::format("{} does not know this kind of processor", library_name);
  if (!dnnl.problem.empty()) return dnnl;
  const dnnl_version_t& version = *dnnl.get_version();
  dnnl.version = fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
  dnnl.file = library.file();
  dnnl.instructions = instructions_of(dnnl.effective_isa());
  return dnnl;
}

const Dnnl& loaded() {
  static const Dnnl dnnl = load_onednn();
  return dnnl;
}

/// While this lives, oneDNN works in the calling thread alone. OpenMP's number of threads is each
/// thread's own: this thread's is the application's again when this ends.
class OneThread {
 public:
  OneThread() {
    if (loaded().get_threads == nullptr) return;
    before_ = loaded().get_threads();
    if (before_ != 1) loaded().set_threads(1);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;
  ~OneThread() {
    if (before_ > 1) loaded().set_threads(before_);
  }

 private:
  int before_ = 0;
};

struct Destroy {
  void operator()(dnnl_stream_t stream) const { loaded().stream_destroy(stream); }
  void operator()(dnnl_memory_t memory) const { loaded().memory_destroy(memory); }
  void operator()(dnnl_primitive_attr_t attributes) const { loaded().attr_destroy(attributes); }
  void operator()(dnnl_primitive_desc_t kind) const { loaded().kind_destroy(kind); }
  void operator()(dnnl_primitive_t primitive) const { loaded().primitive_destroy(primitive); }
};
template <class T>
using Handle = std::unique_ptr<T, Destroy>;
using Layout = dnnl_memory_desc_t;
using Kind = Handle<dnnl_primitive_desc>;

void require(dnnl_status_t status, std::string_view what) {
  if (status == dnnl_success) return;
  throw BackendError(fmt::format("oneDNN cannot {}: status {}", what, static_cast<int>(status)));
}

dnnl_data_type_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return dnnl_f32;
    case DType::bf16:
      return dnnl_bf16;
    case DType::f16:
      return dnnl_f16;
    default:
      return dnnl_data_type_undef;
  }
}

Layout layout_of(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t row,
                 bool transposed) {
  Layout layout;
  const dnnl_dims_t dims = {rows, columns};
  const dnnl_dims_t strides = {transposed ? 1 : row, transposed ? row : 1};
  require(loaded().layout_by_strides(&layout, 2, dims, type_of(dtype), strides),
          "describe a matrix");
  return layout;
}

Layout any_layout(DType dtype, std::int64_t rows, std::int64_t columns) {
  Layout layout;
  const dnnl_dims_t dims = {rows, columns};
  require(loaded().layout_by_tag(&layout, 2, dims, type_of(dtype), dnnl_format_tag_any),
          "describe a matrix");
  return layout;
}

/// Scratch memory is ours: oneDNN's own belongs to the thread that made the primitive.
Handle<dnnl_primitive_attr> attributes() {
  dnnl_primitive_attr_t made = nullptr;
  require(loaded().attr_create(&made), "make attributes");
  Handle<dnnl_primitive_attr> attributes(made);
  require(loaded().attr_set_scratchpad(made, dnnl_scratchpad_mode_user), "take scratch memory");
  return attributes;
}

/// How oneDNN multiplies matrices of these layouts; null when it cannot.
Kind find_kind(const Layout& a, const Layout& b, const Layout& out) {
  dnnl_matmul_desc_t matmul;
  dnnl_primitive_desc_t kind = nullptr;
  if (loaded().matmul_init(&matmul, &a, &b, nullptr, &out) != dnnl_success ||
      loaded().kind_create(&kind, &matmul, attributes().get(), loaded().engine, nullptr) !=
          dnnl_success)
    return nullptr;
  return Kind(kind);
}

/// Its kernels of 16-bit floats. Others convert, which is slower than to widen and multiply f32.
bool is_native(const Kind& kind) {
  const char* name = nullptr;
  return kind != nullptr &&
         loaded().kind_query(kind.get(), dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
         std::string_view(name).starts_with("brg");
}

bool examine_dtype(DType dtype) {
  if (!loaded().problem.empty()) return false;
  const OneThread alone;
  const std::int64_t size = 128;
  const Layout plain = layout_of(dtype, size, size, size, false);
  return is_native(find_kind(plain, plain, plain)) &&
         is_native(find_kind(plain, any_layout(dtype, size, size), plain));
}

Handle<dnnl_memory> memory_of(const Layout& layout, void* data = DNNL_MEMORY_NONE) {
  dnnl_memory_t memory = nullptr;
  require(loaded().memory_create(&memory, &layout, loaded().engine, data), "make memory");
  return Handle<dnnl_memory>(memory);
}

Handle<dnnl_primitive> primitive_of(const Kind& kind) {
  dnnl_primitive_t primitive = nullptr;
  require(loaded().primitive_create(&primitive, kind.get()), "generate code");
  return Handle<dnnl_primitive>(primitive);
}

void point(const Handle<dnnl_memory>& memory, const std::byte* data) {
  require(loaded().memory_set(memory.get(), const_cast<std::byte*>(data)), "read a matrix");
}

/// A right side in an order of oneDNN's.
class Rearranged {
 public:
  Rearranged(const Layout& from, const Layout& to)
      : layout_(to), from_(memory_of(from)), to_(memory_of(to, DNNL_MEMORY_ALLOCATE)) {
    dnnl_primitive_desc_t kind = nullptr;
    require(loaded().reorder_kind_create(&kind, &from, loaded().engine, &to, loaded().engine,
                                         attributes().get()),
            "rearrange a matrix");
    const Kind owned(kind);
    primitive_ = primitive_of(owned);
    scratch_ =
        memory_of(*loaded().kind_layout(kind, dnnl_query_scratchpad_md, 0), DNNL_MEMORY_ALLOCATE);
  }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  void forget() { held_ = nullptr; }
  /// `b` in that order, made unless it is what was made last.
  dnnl_memory_t of(const std::byte* b, dnnl_stream_t stream) {
    if (held_ == b) return to_.get();
    point(from_, b);
    const std::array<dnnl_exec_arg_t, 3> arguments = {{{DNNL_ARG_FROM, from_.get()},
                                                       {DNNL_ARG_TO, to_.get()},
                                                       {DNNL_ARG_SCRATCHPAD, scratch_.get()}}};
    require(loaded().execute(primitive_.get(), stream, arguments.size(), arguments.data()),
            "rearrange a matrix");
    held_ = b;
    return to_.get();
  }

 private:
  Layout layout_;
  Handle<dnnl_memory> from_, to_, scratch_;
  Handle<dnnl_primitive> primitive_;
  const std::byte* held_ = nullptr;
};

class DnnlProduct final : public Product {
 public:
  DnnlProduct(const MatmulShape& shape, bool rearranged)
      : dtype_(shape.dtype),
        columns_(shape.columns),
        terms_(shape.terms),
        a_row_(shape.a.row),
        out_row_(shape.out.row),
        a_transposed_(shape.a.transposed),
        rearranges_(rearranged),
        b_(layout_of(dtype_, terms_, columns_, shape.b.row, shape.b.transposed)) {
    dnnl_stream_t stream = nullptr;
    require(loaded().stream_create(&stream, loaded().engine, dnnl_stream_default_flags),
            "make a stream");
    stream_.reset(stream);
  }

  void begin_run() override {
    for (const auto& rearranged : rearranged_) rearranged->forget();
  }

  void multiply(std::int64_t rows, const std::byte* a, const std::byte* b,
                std::byte* out) override {
    const OneThread alone;
    auto found = of_rows_.find(rows);
    if (found == of_rows_.end()) found = of_rows_.emplace(rows, make(rows)).first;
    const OfRows& product = found->second;
    point(product.a, a);
    point(product.out, out);
    if (product.rearranged == nullptr) point(product.b, b);
    const dnnl_memory_t right =
        product.rearranged == nullptr ? product.b.get() : product.rearranged->of(b, stream_.get());
    const std::array<dnnl_exec_arg_t, 4> arguments = {
        {{DNNL_ARG_SRC, product.a.get()},
         {DNNL_ARG_WEIGHTS, right},
         {DNNL_ARG_DST, product.out.get()},
         {DNNL_ARG_SCRATCHPAD, product.scratch.get()}}};
    require(loaded().execute(product.primitive.get(), stream_.get(), arguments.size(),
                             arguments.data()),
            "multiply");
  }

 private:
  /// The product of some number of rows.
  struct OfRows {
    Handle<dnnl_primitive> primitive;
    Handle<dnnl_memory> a, b, out, scratch;
    Rearranged* rearranged;  ///< null when the right side is taken as it is
  };

  OfRows make(std::int64_t rows) {
    const Layout a = layout_of(dtype_, rows, terms_, a_row_, a_transposed_);
    const Layout out = layout_of(dtype_, rows, columns_, out_row_, false);
    const Kind kind = find_kind(a, rearranges_ ? any_layout(dtype_, terms_, columns_) : b_, out);
    if (kind == nullptr)
      throw BackendError(fmt::format("oneDNN cannot multiply matrices of {0} x {1} and {1} x {2}",
                                     rows, terms_, columns_));
    const Layout& wanted = *loaded().kind_layout(kind.get(), dnnl_query_weights_md, 0);
    const Layout& scratch = *loaded().kind_layout(kind.get(), dnnl_query_scratchpad_md, 0);
    const bool is_plain = loaded().layouts_equal(&wanted, &b_) != 0;
    return {primitive_of(kind),
            memory_of(a),
            memory_of(b_),
            memory_of(out),
            memory_of(scratch, DNNL_MEMORY_ALLOCATE),
            is_plain ? nullptr : rearranged_in(wanted)};
  }

  /// Different numbers of rows may want different orders.
  Rearranged* rearranged_in(const Layout& layout) {
    for (const auto& one : rearranged_) {
      if (loaded().layouts_equal(&one->layout(), &layout) != 0) return one.get();
    }
    return rearranged_.emplace_back(std::make_unique<Rearranged>(b_, layout)).get();
  }

  DType dtype_;
  std::int64_t columns_, terms_, a_row_, out_row_;
  bool a_transposed_, rearranges_;
  Layout b_;
  Handle<dnnl_stream> stream_;
  std::vector<std::unique_ptr<Rearranged>> rearranged_;
  std::map<std::int64_t, OfRows> of_rows_;
};

}  // namespace

const BlasFacts& facts() {
  return loaded();
}

bool multiplies(DType dtype) {
  static const bool f32 = examine_dtype(DType::f32);
  static const bool bf16 = examine_dtype(DType::bf16);
  static const bool f16 = examine_dtype(DType::f16);
  return (dtype == DType::f32 && f32) || (dtype == DType::bf16 && bf16) ||
         (dtype == DType::f16 && f16);
}

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t terms, const Matrix<float>& a,
              const Matrix<float>& b, float* out, std::int64_t out_row) {
  const OneThread alone;
  const auto order = [](bool transposed) { return transposed ? 'T' : 'N'; };
  require(loaded().sgemm(order(a.transposed), order(b.transposed), rows, columns, terms, 1, a.data,
                         a.row, b.data, b.row, 0, out, out_row),
          "multiply");
}

std::unique_ptr<Product> make_product(const MatmulShape& shape, bool rearranged) {
  return std::make_unique<DnnlProduct>(shape, rearranged);
}

}  // namespace coconet::jit::onednn
