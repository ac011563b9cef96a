// The forward pass of a transformer, and the training step that ships.
#include "coconet/gpt.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "coconet/error.h"
#include "coconet/functions.h"
#include "coconet/programs.h"

namespace coconet::programs {

Gpt::Gpt(const Program& program, GptSize size) : program_(program), size_(std::move(size)) {
  const auto [vocabulary, length, layers, hidden, heads, dtype] = size_;
  if (layers < 1 || hidden < 1 || heads < 1 || hidden % heads != 0) {
    throw ProgramError(fmt::format(
        "a transformer has a layer or more, and a width that its heads divide, not {} of width {} "
        "with {}",
        layers, hidden, heads));
  }
}

Value Gpt::logits(const Value& tokens) {
  const Value table = weight("tokens", {size_.vocabulary, size_.hidden}, size_.hidden);
  Value x = take(table, tokens) + weight("places", {size_.length, size_.hidden}, size_.hidden);
  for (int i = 0; i < size_.layers; ++i) {
    const Scope layer = program_.scope("layer" + std::to_string(i));
    x = x + attention(normed(x, "attention_norm"));
    x = x + mlp(normed(x, "mlp_norm"));
  }
  return contract(normed(x, "norm"), table, "bsh,vh->bsv");
}

Value Gpt::normed(const Value& x, const char* name) {
  return rms_norm(x, weight(name, {size_.hidden}, 0));
}

Value Gpt::attention(const Value& x) {
  const Scope scope = program_.scope("attention");
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

Value Gpt::mlp(const Value& x) {
  const Scope scope = program_.scope("mlp");
  const int hidden = size_.hidden, inner = 4 * hidden;
  const Value up = gelu(matmul(x, weight("up", {hidden, inner}, hidden)));
  return matmul(up, weight("down", {inner, hidden}, inner * size_.layers));
}

Value Gpt::weight(const char* name, Shape shape, int fan_in) {
  const Value made = program_.state(name, size_.dtype, std::move(shape), replicated);
  weights_.push_back({made, fan_in});
  return made;
}

std::vector<Value> Gpt::values() const {
  std::vector<Value> values;
  for (const Weight& weight : weights_) values.push_back(weight.value);
  return values;
}

Program gpt(const Mesh& mesh, DType dtype, int layers) {
  constexpr std::int64_t default_batch = 8, default_length = 64, default_vocabulary = 256;
  constexpr int hidden = 128, heads = 4;
  Program program("gpt", mesh);
  const Dim batch = program.dim("B", default_batch), length = program.dim("S", default_length);
  const Dim vocabulary = program.dim("V", default_vocabulary);
  const Value text = program.input("text", DType::i32, {batch, length}, sliced(0));
  const Value labels = program.input("labels", DType::i32, {batch, length}, sliced(0));
  Gpt model(program, {vocabulary, length, layers, hidden, heads, dtype});
  const Value loss = cross_entropy(model.logits(text), labels);
  program.output("loss", loss);
  const std::vector<Value> weights = model.values();
  adamw(program, weights, gradients(loss, weights), {.max_norm = 1.0});
  return program;
}

}  // namespace coconet::programs
