// Gradients of random programs are the derivatives of the loss as the whole world computes it.
#include <catch2/catch.hpp>

#include <random>

#include "ir/derivatives.h"
#include "ir/random_loss.h"
#include "sample.h"

using namespace coconet;
using namespace coconet::test;

TEST_CASE("gradients of random programs equal central differences on all ranks") {
  const unsigned first = runs_all() ? static_cast<unsigned>(seed()) : 1;
  const int programs = runs_all() ? 500 : 60;
  int refused = 0, compared = 0, at_leaps = 0;
  for (int i = 0; i < programs; ++i) {
    const unsigned number = first * 1000 + static_cast<unsigned>(i);
    std::mt19937 random(number);
    std::vector<std::uint32_t> numbers(250);
    for (std::uint32_t& one : numbers) one = static_cast<std::uint32_t>(random());
    Genes genes(numbers);
    const RandomLoss made = LossAuthor(genes, true).write();
    INFO("program " << number << "\n" << made.program.str());
    try {
      const Comparison made_here =
          compare_with_differences(made.loss, made.leaves, made.sizes, number);
      CHECK(made_here.farthest < 1e-6);
      compared += made_here.compared;
      at_leaps += made_here.at_leaps;
    } catch (const ProgramError& error) {
      INFO(error.what());
      // The one case that layouts have no words for.
      CHECK_THAT(error.what(), Catch::Matchers::Contains("each rank's share of the products"));
      ++refused;
    }
  }
  CHECK(refused * 20 <= programs);
  CHECK(at_leaps * 100 <= compared);
}
