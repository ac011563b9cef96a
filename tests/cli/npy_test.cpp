// The user's own data: .npy files are read, refused with a reason, and written as NumPy does.
#include "cli/npy.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "child_process.h"
#include "cli/command.h"
#include "cli/npy_files.h"
#include "coconet/error.h"
#include "refusal.h"

using namespace coconet;
using Catch::Matchers::Contains;
using namespace coconet::test;

namespace {

/// A file of version 1 with that header.
std::string with_header(std::string header, const std::string& elements) {
  std::string text = "\x93NUMPY";
  text += {'\x01', '\x00', static_cast<char>(header.size()), '\x00'};
  return text + header + elements;
}

}  // namespace

TEST_CASE("arrays survive their files, which are laid out as NumPy's") {
  const ScratchDirectory scratch;
  const auto file = scratch.path() / "a.npy";
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{6}, {2, 3}, {1, 6, 1}}) {
    const std::string text = cli::npy_text(floats(shape, {1, 2, 3, 4, 5, 6}));
    CHECK((text.size() - 24) % 64 == 0);
    write_file(file, text);
    const cli::NpyArray read = cli::read_npy(file);
    CHECK(read.dtype == f32);
    CHECK(read.shape == shape);
    CHECK(values_of(read) == std::vector<float>{1, 2, 3, 4, 5, 6});
  }
  // As numpy.save wrote numpy.arange(3, dtype='<i4').
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";
  header.resize(117, ' ');
  write_file(file, with_header(header + "\n", std::string("\0\0\0\0\1\0\0\0\2\0\0\0", 12)));
  CHECK(cli::read_npy(file).dtype == i32);
  CHECK(cli::read_npy(file).shape == std::vector<std::int64_t>{3});
  CHECK(cli::npy_text(cli::read_npy(file)).size() == 128 + 12);
  write_file(file, cli::npy_text({DType::f64, {}, std::vector<std::byte>(8)}));
  CHECK(cli::read_npy(file).shape.empty());
}

TEST_CASE("a header is read as NumPy reads it") {
  const auto read = [](const std::string& header, const std::string& elements) {
    return cli::parse_npy(with_header(header, elements), "a.npy");
  };
  // The order of elements makes no difference where one extent is above 1.
  for (const char* shape : {"(4,)", "(1, 4)", "(1, 4, 1)"}) {
    const auto array =
        read(fmt::format("{{'descr': '|u1', 'fortran_order': True, 'shape': {}}}", shape), "abcd");
    CHECK(array.dtype == u8);
    CHECK(array.elements.size() == 4);
  }
  CHECK(read("{'descr': '<f4', 'fortran_order': True, 'shape': (0, 2, 2)}", "").elements.empty());
  const struct {
    const char* descr;
    DType dtype;
  } descrs[] = {{"=f4", f32}, {"f4", f32},        {"<u1", u8},      {">u1", u8},
                {"=i1", i8},  {"?", boolean},     {"|b1", boolean}, {"<b1", boolean},
                {"=f8", f64}, {"<i2", DType::i16}};
  for (const auto& one : descrs) {
    INFO(one.descr);
    CHECK(read(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ()}}", one.descr),
               std::string(size_of(one.dtype), '\1'))
              .dtype == one.dtype);
  }
  const auto spaced =
      read("{ \"shape\" :\n(2L , 1,),'fortran_order':False , 'descr'  : \"<i4\" ,} \n",
           std::string(8, '\0'));
  CHECK(spaced.dtype == i32);
  CHECK(spaced.shape == std::vector<std::int64_t>{2, 1});
}

TEST_CASE("what is no array that can be read is refused with the file and the reason") {
  const ScratchDirectory scratch;
  const std::string file = (scratch.path() / "a.npy").string();
  const auto refused = [&](const std::string& text) {
    write_file(file, text);
    return refusal<ConfigError>([&] { (void)cli::read_npy(file); });
  };
  const std::string start = "'" + file + "' is no .npy file that can be read: ";
  CHECK(refusal<ConfigError>([&] { (void)cli::read_npy("/no/such.npy"); }) ==
        "cannot read the file '/no/such.npy': No such file or directory");
  CHECK(refusal<ConfigError>([&] { (void)cli::read_npy("/"); }) ==
        "cannot read the file '/': it is a directory");
  CHECK(refused("") == start + "it does not begin as one");
  CHECK(refused("PK\3\4 something else") == start + "it does not begin as one");
  CHECK(refused(with_header("{'descr': '<c8', 'fortran_order': False, 'shape': (), }", "")) ==
        start +
            "its elements are '<c8'; those that can be read are <f8, <f4, <f2, <i8, <i4, <i2, "
            "|i1, |u1, |b1");
  CHECK(
      refused(with_header("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2), }", "abcd")) ==
      start + "it is in Fortran's order; save numpy.ascontiguousarray of it");
  CHECK(refused(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "abcd")) ==
        start + "its 4 bytes of elements are not what its shape and dtype need");
  CHECK(refused(with_header(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", "")) ==
        start + "its 0 bytes of elements are not what its shape and dtype need");
  CHECK(refused(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "")) ==
        start + "its 'shape' has something else than extents");
  CHECK(refused(
            with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }", "")) ==
        start + "its 'descr' is no text, as that of arrays with several fields is not");
  CHECK(refused(with_header("{'descr': '<f4'}", "")) ==
        start + "its header has no 'fortran_order'");
  CHECK(refused(with_header("{'descr': '|u1', 'fortran_order': 0, 'shape': (1,)}", "a")) ==
        start + "its 'fortran_order' is neither True nor False");
  CHECK(refused(with_header("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", "abcd"))
            .starts_with(start + "its elements are '>f4'"));
  CHECK(refused(with_header("{'descr' '<f4'}", "")) ==
        start + "its header has no ':' behind 'descr'");
  CHECK(refused(with_header("{'descr': '<f4', 'order': 1}", "")) ==
        start + "its header has the key 'order', beside descr, fortran_order and shape");
  CHECK(refused(with_header("{'descr': '<f4' 'shape': ()}", "")) ==
        start + "its header has no ',' or '}' where one belongs");
  CHECK(refused(with_header("{'shape': (1 2)}", "")) ==
        start + "its 'shape' has something else than extents");
  std::string cut = with_header("{}", "");
  cut[8] = '\x7f';
  CHECK(refused(cut) == start + "it ends within its header");
}

TEST_CASE("a program runs on the user's data, whole or by rank, and writes what it made of them") {
  const ScratchDirectory scratch;
  const std::string at = scratch.path().string() + "/";
  write_file(at + "g0.npy", cli::npy_text(floats({5}, {1, 2, 3, 4, 5})));
  write_file(at + "g1.npy", cli::npy_text(floats({5}, {3, 2, 1, 0, -1})));
  write_file(at + "w.npy", cli::npy_text(floats({5}, {10, 20, 30, 40, 50})));
  for (const std::string schedule : {"unfused", "fused"}) {
    CHECK_THAT(printed("run sgd --schedule " + schedule +
                       " --world local:2 --set n=5 --scalar lr=1 --input g=" + at +
                       "g%r.npy --input w=" + at + "w.npy --output w=" + at + "new.npy"),
               Contains("the 1 step timed"));
    CHECK(values_of(cli::read_npy(at + "new.npy")) == std::vector<float>{8, 18, 28, 38, 48});
  }
  const std::string run = "run sgd --world local:2 --set n=5 ";
  CHECK_THAT(coconet_command(run + "--input w=" + at + "w.npy").err,
             Contains("--input is not given for 'g'; with data of your own all inputs need some."));
  CHECK_THAT(coconet_command(run + "--input g=" + at + "g%r.npy --set n=6").err, Contains("twice"));
  CHECK_THAT(coconet_command("run sgd --world local:2 --set n=6 --input g=" + at + "g%r.npy").err,
             Contains("g0.npy' has f32 [5], and 'g' takes f32 [6]") ||
                 Contains("g1.npy' has f32 [5], and 'g' takes f32 [6]"));
  CHECK_THAT(coconet_command(run + "--output m=x.npy").err,
             Contains("--output: the program 'sgd' has no state or output 'm'."));
  CHECK_THAT(coconet_command(run + "--input g").err, Contains("--input takes NAME=FILE, not 'g'."));
}

TEST_CASE("--growth-interval is how many steps the scale of the loss stays") {
  const ScratchDirectory scratch;
  const std::string file = scratch.path().string() + "/scale.npy";
  const std::string run = "run sgd --set n=5 --warmup 0 --growth-interval 2 ";
  const auto scale_after = [&](const std::string& steps) {
    (void)printed(run + "--loss-scaling --iters " + steps + " --output scale=" + file);
    return values_of(cli::read_npy(file)).at(0);
  };
  const float made_up = scale_after("1");
  CHECK(scale_after("2") == 2 * made_up);
  CHECK_THAT(complaint(run, "", 2), Contains("--growth-interval requires --loss-scaling"));
}
