// A decoder-only transformer, of which only the forward pass is written.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "coconet/coconet.h"

struct GptSize {
  int vocabulary, length;  ///< tokens that there are, and of a sequence
  int layers, hidden, heads;
  coconet::DType dtype = coconet::f32;  ///< of weights
};

/// Writes a transformer into a program: embedding, layers of causal self-attention and an MLP, and
/// the embedding again.
class Gpt {
 public:
  using Value = coconet::Value;

  Gpt(coconet::Program& program, const GptSize& size) : program_(program), size_(size) {}

  /// Of tokens [B, length] for each place the logits [B, length, vocabulary] of the next token.
  Value logits(const Value& tokens) {
    const Value table = weight("tokens", {size_.vocabulary, size_.hidden}, size_.hidden);
    Value x = take(table, tokens) + weight("places", {size_.length, size_.hidden}, size_.hidden);
    for (int i = 0; i < size_.layers; ++i) {
      const coconet::Scope layer = program_.scope("layer" + std::to_string(i));
      x = x + attention(normed(x, "attention_norm"));
      x = x + mlp(normed(x, "mlp_norm"));
    }
    return contract(normed(x, "norm"), table, "bsh,vh->bsv");
  }

  /// A weight of normal numbers with the deviation 1 / sqrt(fan_in); 0: it begins with ones.
  struct Weight {
    Value value;
    int fan_in;
  };
  [[nodiscard]] const std::vector<Weight>& weights() const { return weights_; }
  /// The weights alone.
  [[nodiscard]] std::vector<Value> values() const {
    std::vector<Value> values;
    for (const Weight& weight : weights_) values.push_back(weight.value);
    return values;
  }

 private:
  Value weight(const char* name, coconet::Shape shape, int fan_in) {
    const Value made = program_.state(name, size_.dtype, std::move(shape), coconet::replicated);
    weights_.push_back({made, fan_in});
    return made;
  }

  Value normed(const Value& x, const char* name) {
    return rms_norm(x, weight(name, {size_.hidden}, 0));
  }

  Value attention(const Value& x) {
    const coconet::Scope scope = program_.scope("attention");
    const int hidden = size_.hidden, heads = size_.heads, width = hidden / heads;
    const auto projected = [&](const char* name) {
      return contract(x, weight(name, {hidden, heads, width}, hidden), "bsh,hnd->bsnd");
    };
    const Value q = projected("wq"), k = projected("wk"), v = projected("wv");
    const Value scores = contract(q, k, "bsnd,btnd->bnst") * (1 / std::sqrt(width));
    // A place sees itself and those before it.
    const Value is_seen = program_.iota({size_.length, 1}) >= program_.iota({size_.length});
    const Value shares = softmax(select(is_seen, scores, -INFINITY));
    const Value context = contract(shares, v, "bnst,btnd->bsnd");
    const Value out = weight("wo", {heads, width, hidden}, hidden * size_.layers);
    return contract(context, out, "bsnd,ndh->bsh");
  }

  Value mlp(const Value& x) {
    const coconet::Scope scope = program_.scope("mlp");
    const int hidden = size_.hidden, inner = 4 * hidden;
    const Value up = gelu(matmul(x, weight("up", {hidden, inner}, hidden)));
    return matmul(up, weight("down", {inner, hidden}, inner * size_.layers));
  }

  coconet::Program& program_;
  const GptSize size_;
  std::vector<Weight> weights_;
};

/// Writes the same weights on every rank, and returns how many numbers they are.
inline std::size_t initialise(coconet::Executable& step, const std::vector<Gpt::Weight>& weights) {
  std::mt19937 random(1);
  std::size_t parameters = 0;
  for (const auto& [weight, fan_in] : weights) {
    std::vector<float> values(step.count(weight.name()), 1);
    std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(fan_in)));
    if (fan_in > 0) std::ranges::generate(values, [&] { return normal(random); });
    step.write_whole(weight.name(), values);
    parameters += values.size();
  }
  return parameters;
}
