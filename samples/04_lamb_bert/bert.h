// The parameters of BERT (Devlin et al., 2019): names and shapes of the encoder with its pooler, as
// PyTorch holds them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bert {

/// What the shapes follow from; the defaults are BERT-base.
struct Config {
  std::int64_t vocabulary = 30522;
  std::int64_t hidden = 768;
  int layers = 12;
  std::int64_t intermediate = 3072;
  std::int64_t max_positions = 512;
  std::int64_t token_types = 2;
};

struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  [[nodiscard]] std::int64_t count() const;
};

/// In the order of the forward pass: 199 tensors of 109,482,240 elements for BERT-base. The number
/// of attention heads divides `hidden` and leaves the shapes as they are.
[[nodiscard]] std::vector<Parameter> parameters(const Config& config = {});

}  // namespace bert
