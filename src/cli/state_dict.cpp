// Writing states with PyTorch's names; see state_dict.h.
#include "cli/state_dict.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "cli/npy.h"
#include "cli/user_data.h"
#include "coconet/error.h"
#include "coconet/programs.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "ir/integers.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/config/files.h"

namespace coconet::cli {
namespace {

constexpr std::string_view state_dict_option = "--state-dict";

std::string file_in(const std::string& directory, std::string_view name) {
  return (std::filesystem::path(directory) / fmt::format("{}.npy", name)).string();
}

/// The files of the states but those that are each rank's own.
DataFiles files_of_states(const Program& program, const std::string& directory) {
  DataFiles files;
  for (const ir::Node& node : ir::graph_of(program)->nodes()) {
    if (node.op == ir::Op::state && !is_local(node))
      files[node.name] = file_in(directory, programs::torch_name(program.name(), node.name));
  }
  return files;
}

/// A tensor of one number, as PyTorch keeps such states.
void write_number(const std::string& file, double number) {
  const auto narrow = static_cast<float>(number);
  std::vector<std::byte> element(sizeof narrow);
  std::memcpy(element.data(), &narrow, sizeof narrow);
  jit::write_atomically(file, npy_text({DType::f32, {}, std::move(element)}), state_dict_option);
}

}  // namespace

void require_optimizer(const ProgramSpec& spec) {
  const programs::Shipped* const shipped = programs::find(spec.program);
  if (shipped == nullptr || shipped->with == nullptr) {
    throw UsageError(
        fmt::format("{} is for the optimizers that ship, whose states have names in "
                    "PyTorch, not for {}.",
                    state_dict_option, spec.program));
  }
}

void make_state_directory(const World& world, const std::string& directory) {
  jit::together(jit::comm_of(world), [&] {
    if (is_by_rank(directory)) {
      throw UsageError(
          fmt::format("{} writes whole tensors, and takes a directory without %r, not '{}'.",
                      state_dict_option, directory));
    }
    if (world.rank() != 0) return;
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (!error && std::filesystem::is_directory(directory, error)) return;
    throw ConfigError(fmt::format("Cannot make the directory '{}' of {}: {}.", directory,
                                  state_dict_option,
                                  error ? error.message() : "there is a file of that name"));
  });
}

void write_state_dict(Executable& step, const World& world, const std::string& directory,
                      std::int64_t t) {
  const Program program = step.program();
  const bool may_skip = ir::graph_of(program)->find("skipped") >= 0;
  take(step, world, files_of_states(program, directory), state_dict_option);
  jit::together(jit::comm_of(world), [&] {
    if (world.rank() != 0) return;
    const std::int64_t skipped =
        may_skip ? ir::saturated<std::int64_t>(step.scalar_of<float>("skipped")) : 0;
    write_number(file_in(directory, programs::torch_name(program.name(), "t")),
                 static_cast<double>(t - skipped));
    if (program.name().starts_with("nadam"))
      write_number(file_in(directory, "mu_product"), programs::nadam_mu_product(t - skipped));
  });
}

}  // namespace coconet::cli
