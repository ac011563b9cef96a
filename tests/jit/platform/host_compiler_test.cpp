// The host compiler: a shared object from text, and a sentence for everything that can go wrong.
#include <dlfcn.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "child_process.h"
#include "coconet/error.h"
#include "jit/codegen/codegen.h"
#include "jit/config/build_info.h"
#include "jit/platform/host/compiler.h"
#include "refusal.h"
#include "sample.h"

using namespace coconet::jit;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kernel = "extern \"C\" int answer(int x) { return x * 2; }\n";

std::string default_compiler() {
  return std::string(build_info::default_cxx);
}

std::string refusal_of(const std::string& compiler) {
  return refusal<coconet::CompileError>([&] { (void)HostCompiler(compiler, "", 10s); });
}

/// A program of the test's own in the compiler's place.
struct Script {
  coconet::test::ScratchDirectory scratch;

  std::string write_as_it_is(const std::string& text) const {
    const fs::path path = scratch.path() / "fake c++";
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  /// It answers what every compiler is asked, and does `body` else.
  std::string write(const std::string& body) const {
    return write_as_it_is(
        "#!/bin/sh\ncase \"$*\" in --version) echo fake 1.0; exit 0;; "
        "-dumpmachine) echo here; exit 0;; esac\n" +
        body + "\n");
  }
};

}  // namespace

TEST_CASE("text becomes a shared object that can be loaded and called") {
  const HostCompiler compiler(default_compiler(), "", 60s);
  const CompileResult result = compiler.compile(kernel);
  INFO(result.log);
  REQUIRE(result.ok);
  REQUIRE(result.binary.substr(1, 3) == "ELF");
  CHECK(result.log.empty());

  const coconet::test::ScratchDirectory scratch;
  const fs::path object = scratch.path() / "kernel.so";
  std::ofstream(object, std::ios::binary) << result.binary;
  void* handle = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  const auto answer = reinterpret_cast<int (*)(int)>(dlsym(handle, "answer"));
  REQUIRE(answer != nullptr);
  CHECK(answer(21) == 42);
  dlclose(handle);
}

TEST_CASE("the same text gives the same bytes") {
  const HostCompiler compiler(default_compiler(), "", 60s);
  CHECK((compiler.compile(kernel).binary == compiler.compile(kernel).binary));
  const HostCompiler debug(default_compiler(), "-g", 60s);
  CHECK((debug.compile(kernel).binary == debug.compile(kernel).binary));
}

TEST_CASE("blocks of many threads are another target with another half of the prelude") {
  const HostCompiler lane(default_compiler(), "", 60s);
  const HostCompiler threads(default_compiler(), "", 60s, 32);
  CHECK(lane.target() == "host");
  CHECK(threads.target() == "host_threads");
  const KernelSource source{"types.h 1\n", kernel, "answer"};
  CHECK(lane.key(source).digest() != threads.key(source).digest());
  CHECK(prelude("host").find("host half where a block runs as one lane") != std::string::npos);
  CHECK(prelude("host_threads").find("host half where a block is as many threads") !=
        std::string::npos);
}

TEST_CASE("an error in the text comes with its line, and without the private directory") {
  const HostCompiler compiler(default_compiler(), "", 60s);
  const CompileResult result = compiler.compile("int a;\nint b = nothing;\n");
  CHECK_FALSE(result.ok);
  CHECK(result.binary.empty());
  CHECK(result.log.find("kernel.cpp:2:9: error:") != std::string::npos);
  CHECK(result.log.find("It exited with status 1.") != std::string::npos);
  CHECK(result.log.find("coconet-") == std::string::npos);
  CHECK(result.command.ends_with(" -o kernel.so kernel.cpp"));
  CHECK(result.command.starts_with(compiler.path() + " -std=c++20 -O3 -march=native "));
}

TEST_CASE("nothing in the options changes what numbers come out") {
  const HostCompiler compiler(default_compiler(), "", 60s);
  const auto& options = compiler.options();
  const auto has = [&](const char* name) {
    return std::count(options.begin(), options.end(), name) == 1;
  };
  CHECK(has("-ffp-contract=off"));
  CHECK(has("-fwrapv"));
  CHECK_FALSE(has("-ffast-math"));
  CHECK_FALSE(has("-Ofast"));
}

TEST_CASE("COCONET_CXXFLAGS is split at blanks and comes last") {
  const HostCompiler compiler(default_compiler(), "  -DTWO=2 -O1\t-g ", 60s);
  const auto& options = compiler.options();
  REQUIRE(options.size() > 3);
  CHECK(std::vector<std::string>(options.end() - 3, options.end()) ==
        std::vector<std::string>{"-DTWO=2", "-O1", "-g"});
  CHECK(compiler.compile("int two = TWO;").ok);
}

TEST_CASE("a compiler that is not there is named, with what to set") {
  CHECK(
      refusal_of("/no/such/c++") ==
      "COCONET_CXX is '/no/such/c++'; there is no such program, set it to a C++20 compiler such as "
      "g++ or clang++.");
  CHECK(
      refusal_of("no-such-c++") ==
      "COCONET_CXX is 'no-such-c++'; there is no such program on PATH, set it to a C++20 compiler "
      "such as g++ or clang++.");
  CHECK(
      refusal_of("g++ -O2") ==
      "COCONET_CXX is 'g++ -O2'; there is no such program on PATH, set it to a C++20 compiler such "
      "as g++ or clang++; options belong in COCONET_CXXFLAGS.");
  CHECK(
      refusal_of("/tmp") ==
      "COCONET_CXX is '/tmp'; there is no such program, set it to a C++20 compiler such as g++ or "
      "clang++.");
  CHECK(
      refusal_of("") ==
      "COCONET_CXX is ''; there is no such program on PATH, set it to a C++20 compiler such as g++ "
      "or clang++.");
}

TEST_CASE("a file that is no program is not a compiler") {
  const coconet::test::ScratchDirectory scratch;
  const fs::path path = scratch.path() / "c++";
  std::ofstream(path) << "text";
  CHECK(refusal_of(path.string()).find("there is no such program") != std::string::npos);
}

TEST_CASE_METHOD(Script, "a program that fails --version is not a compiler") {
  const std::string path = write_as_it_is("#!/bin/sh\nexit 3\n");
  CHECK(refusal_of(path) ==
        "COCONET_CXX is '" + path +
            "'; it does not answer to --version, as a C++ compiler such as g++ or "
            "clang++ does. It exited with status 3.");
}

TEST_CASE_METHOD(Script, "a script whose interpreter is missing cannot be started") {
  CHECK(refusal_of(write_as_it_is("#!/no/such/shell\n"))
            .ends_with("It cannot be started: No such file or directory."));
}

TEST_CASE_METHOD(Script, "a compiler that takes too long is stopped with all that it started") {
  const fs::path mark = scratch.path() / "mark";
  const HostCompiler slow(write("(sleep 0.5; touch '" + mark.string() + "') & sleep 30"), "",
                          200ms);
  const auto begin = std::chrono::steady_clock::now();
  const CompileResult result = slow.compile(kernel);
  CHECK(coconet::test::is_within(begin, 10s));
  CHECK_FALSE(result.ok);
  CHECK(result.log ==
        "It was stopped after 200 ms, the longest time that COCONET_COMPILE_TIMEOUT_S allows.");
  std::this_thread::sleep_for(600ms);
  CHECK_FALSE(fs::exists(mark));
}

TEST_CASE_METHOD(Script, "a compiler that dies by a signal has failed, whatever it wrote") {
  const HostCompiler dying(
      write("for last; do :; done; echo half > \"$(dirname \"$last\")/kernel.so\"; kill -KILL $$"),
      "", 10s);
  const CompileResult result = dying.compile(kernel);
  CHECK_FALSE(result.ok);
  CHECK(result.binary.empty());
  CHECK(result.log == "It was killed by signal 9 (Killed).");
}

TEST_CASE_METHOD(Script, "a compiler that ends well without an object has failed") {
  const CompileResult result = HostCompiler(write("echo hello"), "", 10s).compile(kernel);
  CHECK_FALSE(result.ok);
  CHECK(result.log == "hello\nIt ended well but wrote no shared object.");
}

TEST_CASE_METHOD(Script, "a compiler that ends well and leaves half an object has failed") {
  const HostCompiler halving(
      write("'" + default_compiler() + "' \"$@\" || exit 1\n" +
            "for last; do :; done; object=\"${last%/*}/kernel.so\"\n"
            "[ -f \"$object\" ] || exit 0\n"
            "head -c 3000 \"$object\" > \"$object.half\" && mv \"$object.half\" \"$object\""),
      "", 60s);
  const CompileResult result = halving.compile(kernel);
  CHECK_FALSE(result.ok);
  CHECK(result.binary.empty());
  CHECK_THAT(result.log,
             Catch::StartsWith("It ended well but wrote a shared object that cannot be loaded: it "
                               "is cut off: it has 3000 bytes, and its headers speak of "));
}

TEST_CASE_METHOD(Script, "arguments reach the compiler as they are: blanks, quotes and dollars") {
  const HostCompiler echo(write("printf '<%s>' \"$@\"; exit 1"), "-DX='$HOME' `id` ;", 10s);
  CHECK(echo.path().find("fake c++") != std::string::npos);
  const CompileResult result = echo.compile(kernel);
  CHECK(result.log.find("<-DX='$HOME'><`id`><;>") != std::string::npos);
  CHECK(result.command.find("'-DX='\\''$HOME'\\''' '`id`' ';'") != std::string::npos);
  CHECK(result.command.starts_with("'" + echo.path() + "' -std=c++20"));
}

TEST_CASE_METHOD(Script,
                 "the private directory is gone after a compilation, temporary files included") {
  const fs::path record = scratch.path() / "record";
  const HostCompiler messy(
      write("touch \"$TMPDIR/left\"; echo \"$TMPDIR\" > '" + record.string() + "'; exit 1"), "",
      10s);
  CHECK_FALSE(messy.compile(kernel).ok);
  std::string directory;
  std::getline(std::ifstream(record), directory);
  REQUIRE_FALSE(directory.empty());
  CHECK_FALSE(fs::exists(directory));
}

TEST_CASE_METHOD(Script, "identity changes when the compiler does") {
  const std::string path = write("exit 0");
  const std::string first = HostCompiler(path, "", 10s).identity();
  CHECK_THAT(first, Catch::Matchers::StartsWith("fake 1.0\ntarget here\ndriver "));
  CHECK(first == HostCompiler(path, "", 10s).identity());
  CHECK(write("exit 0 # longer") == path);
  CHECK(first != HostCompiler(path, "", 10s).identity());

  SECTION("also behind a symbolic link") {
    const fs::path link = scratch.path() / "link";
    fs::create_symlink(path, link);
    const std::string before = HostCompiler(link.string(), "", 10s).identity();
    CHECK(before == HostCompiler(path, "", 10s).identity());
    (void)write("exit 0 # longer still");
    CHECK(before != HostCompiler(link.string(), "", 10s).identity());
  }
}

TEST_CASE("the instruction set is a fixed name of this machine, never 'native'") {
  const std::string isa = HostCompiler::resolved_isa();
  CHECK_FALSE(isa.empty());
  CHECK(isa == HostCompiler::resolved_isa());
  CHECK(isa.find("native") == std::string::npos);
  CHECK(isa.find('\n') != std::string::npos);
}

TEST_CASE("every fact that a binary depends on is in its key, and nothing else") {
  const KernelSource source{"types.h 1\n", kernel, "answer"};
  const auto digest = [&](const char* flags = "-O1", int threads = 1) {
    return HostCompiler(default_compiler(), flags, 60s, threads).key(source).digest();
  };
  const Digest before = digest();
  CHECK(before == digest());
  CHECK(before != digest("-O2"));
  CHECK(before != digest("-O1", 32));
  CHECK(digest("-DA -DB") != digest("-DB -DA"));
  const HostCompiler compiler(default_compiler(), "-O1 -mtune=native", 60s);
  CHECK(compiler.key(source).text().find("native") == std::string::npos);
  const auto of = [&](KernelSource other) { return compiler.key(other).digest(); };
  CHECK(of(source) != of({"types.h 2\n", kernel, "answer"}));
  CHECK(of(source) != of({"types.h 1\n", "other", "answer"}));
  CHECK(of(source) != of({"types.h 1\n", kernel, "other"}));

  const char* const locale = std::setlocale(LC_ALL, nullptr);
  const std::string saved = locale == nullptr ? "C" : locale;
  for (const char* name : {"de_DE.UTF-8", "tr_TR.UTF-8", "C.UTF-8"}) {
    if (std::setlocale(LC_ALL, name) != nullptr) CHECK(digest() == before);
  }
  std::setlocale(LC_ALL, saved.c_str());
  const fs::path directory = fs::current_path();
  fs::current_path("/");
  CHECK(digest() == before);
  fs::current_path(directory);
  const coconet::test::ScratchDirectory scratch;
  const fs::path header = scratch.path() / "header.h";
  std::ofstream(header) << "#define A 1\n";
  const std::string include = "-O1 -include " + header.string();
  const Digest with_header = digest(include.c_str());
  CHECK(with_header == digest(include.c_str()));
  std::ofstream(header) << "#define A 2\n";
  CHECK(with_header != digest(include.c_str()));
  std::ofstream(header).close();
  CHECK(with_header != digest(include.c_str()));

  for (const char* variable : {"COMPILER_PATH", "CPATH", "LD_RUN_PATH", "LC_ALL", "USER"}) {
    INFO(variable);
    const char* const there = std::getenv(variable);
    const std::string value = there == nullptr ? "" : there;
    setenv(variable, "/nowhere", 1);
    CHECK((digest() == before) == (std::string(variable).find("PATH") == std::string::npos));
    if (there == nullptr) unsetenv(variable);
    if (there != nullptr) setenv(variable, value.c_str(), 1);
  }
}
