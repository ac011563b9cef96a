// Reads, shuffles and picks the handwritten digits.
#include "digits.h"

#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

Digits load_digits(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in)
    throw std::runtime_error("cannot open " + file.string() + "; name the data with --data FILE");
  Digits digits;
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string field;
    std::vector<int> values;
    while (std::getline(fields, field, ',')) values.push_back(std::stoi(field));
    if (values.size() != Digits::pixels + 1) {
      throw std::runtime_error(file.string() + " line " + std::to_string(digits.size() + 1) +
                               " has " + std::to_string(values.size()) +
                               " numbers instead of 64 pixels and a label");
    }
    digits.labels.push_back(values.back());
    values.pop_back();
    for (const int value : values) digits.images.push_back(static_cast<float>(value) / 16.0f);
  }
  return digits;
}

std::vector<std::size_t> shuffled(std::size_t count, unsigned seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Fisher-Yates by hand: std::shuffle may differ between standard libraries, mt19937 may not.
  std::mt19937 random(seed);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

Digits pick(const Digits& digits, std::span<const std::size_t> order) {
  Digits picked;
  for (const std::size_t i : order) {
    const auto image = digits.image(i);
    picked.images.insert(picked.images.end(), image.begin(), image.end());
    picked.labels.push_back(digits.labels[i]);
  }
  return picked;
}
