// Lists the parameters of BERT-base: names, shapes, and how many there are.
#include <coconet/coconet.h>

#include <cstdio>
#include <cstdlib>

#include "bert.h"

int main() try {
  const auto world = coconet::World::mpi();
  if (world.rank() != 0) return EXIT_SUCCESS;
  std::int64_t total = 0;
  const std::vector<bert::Parameter> parameters = bert::parameters();
  for (const bert::Parameter& parameter : parameters) {
    std::string shape;
    for (const std::int64_t extent : parameter.shape)
      shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
    std::printf("%s [%s]\n", parameter.name.c_str(), shape.c_str());
    total += parameter.count();
  }
  std::printf("%zu tensors, %lld parameters\n", parameters.size(), static_cast<long long>(total));
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::fprintf(stderr, "04_lamb_bert: %s\n", error.what());
  return EXIT_FAILURE;
}
