// The handwritten digits: 8x8 images with their labels, read from data/digits.csv.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

/// Images in a fixed order. Pixels are scaled to 0..1; labels are 0..9.
struct Digits {
  static constexpr std::size_t pixels = 64;

  std::vector<float> images;  ///< one row of `pixels` an image
  std::vector<int> labels;

  [[nodiscard]] std::size_t size() const { return labels.size(); }
  [[nodiscard]] std::span<const float, pixels> image(std::size_t i) const {
    return std::span<const float, pixels>(images.data() + i * pixels, pixels);
  }
};

/// Reads lines of 64 pixels (0..16) and a label. Throws std::runtime_error with the line that is
/// wrong.
[[nodiscard]] Digits load_digits(const std::filesystem::path& file);

/// 0, 1, ..., count - 1 in random order: the same order for the same seed on every machine and
/// every rank.
[[nodiscard]] std::vector<std::size_t> shuffled(std::size_t count, unsigned seed);

/// The images that `order` lists, in its order.
[[nodiscard]] Digits pick(const Digits& digits, std::span<const std::size_t> order);
