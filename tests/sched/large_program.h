// A program of thousands of values: one training step of a transformer on ranks that have the same
// parameters and data of their own, written out as gradients would make it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "coconet/functions.h"
#include "coconet/schedule.h"

namespace coconet::test {

/// At least 13 layers of a transformer: forward, backward, the mean of the gradients over ranks,
/// and AdamW of each of a layer's twelve parameters. About 460 values a layer, called
/// "layerK.NAME".
class LargeProgram {
 public:
  explicit LargeProgram(int layers) : program_("large", Mesh({{"world", 8}})) {
    std::vector<Layer> all;
    Value x = program_.input("x", f32, {rows_, width_}, local);
    for (int layer = 0; layer < layers; ++layer) {
      all.push_back(Layer(fmt::format("layer{}", layer)));
      x = forward(all.back(), x);
    }
    program_.output("loss", mean(square(x)).named("loss_of_rank"));
    Value dx = x * (2.0 / 1024);
    for (auto layer = all.rbegin(); layer != all.rend(); ++layer) dx = backward(*layer, dx);
    for (const Layer& layer : all) {
      for (const Parameter& one : layer.parameters) step(one);
    }
  }

  [[nodiscard]] const Program& program() const { return program_; }

  /// 25 steps: patterns over all layers, and kernels of some.
  [[nodiscard]] static Schedule schedule() {
    Schedule schedule("large");
    schedule.split("*.mean").dead();
    for (int layer = 0; layer < 5; ++layer) {
      const std::string w = fmt::format("layer{}.w_up", layer);
      const std::vector<std::string> updates = {w + ".m.new", w + ".v.new", w + ".new"};
      schedule.reorder(w + ".mean.all_gather", updates).as_slice(w + ".*");
      schedule.fuse(
          fmt::format("w_up_{}", layer), "all_reduce",
          {w + ".mean.reduce_scatter", updates[0], updates[1], updates[2], w + ".all_gather"});
    }
    for (int layer = 5; layer < 13; ++layer) {
      schedule.fuse(fmt::format("wq_{}", layer), "computation",
                    {fmt::format("layer{}.wq.*new", layer)});
    }
    return schedule;
  }

 private:
  struct Parameter {
    std::string name;
    Value w, gradient;
  };
  struct Layer {
    explicit Layer(std::string its_name) : name(std::move(its_name)) {}
    std::string name;
    std::vector<Parameter> parameters;
    Value x, normed, q, k, v, scores, attended, middle, normed_2, up, active;
  };
  enum { gamma_1, wq, wk, wv, wo, gamma_2, w_up, b_up, w_down, b_down, beta_1, beta_2 };

  Value parameter(Layer& layer, const char* name, Shape shape) {
    const std::string whole = layer.name + "." + name;
    layer.parameters.push_back(
        {whole, program_.state(whole, f32, std::move(shape), replicated), {}});
    return layer.parameters.back().w;
  }

  Value forward(Layer& layer, const Value& x) {
    const Shape square_of = {width_, width_};
    layer.x = x;
    const Value gamma = parameter(layer, "gamma_1", {width_});
    const Value q = parameter(layer, "wq", square_of), k = parameter(layer, "wk", square_of);
    const Value v = parameter(layer, "wv", square_of), o = parameter(layer, "wo", square_of);
    const Value second_gamma = parameter(layer, "gamma_2", {width_});
    const Value up = parameter(layer, "w_up", {width_, inner_});
    const Value up_bias = parameter(layer, "b_up", {inner_});
    const Value down = parameter(layer, "w_down", {inner_, width_});
    const Value down_bias = parameter(layer, "b_down", {width_});
    const Value beta = parameter(layer, "beta_1", {width_});
    const Value second_beta = parameter(layer, "beta_2", {width_});
    layer.normed = layer_norm(x, gamma, beta, 1);
    layer.q = matmul(layer.normed, q);
    layer.k = matmul(layer.normed, k);
    layer.v = matmul(layer.normed, v);
    layer.scores = softmax(matmul(layer.q, layer.k, false, true) * 0.125, 1);
    layer.attended = matmul(layer.scores, layer.v);
    layer.middle = x + matmul(layer.attended, o);
    layer.normed_2 = layer_norm(layer.middle, second_gamma, second_beta, 1);
    layer.up = matmul(layer.normed_2, up) + up_bias;
    layer.active = layer.up * sigmoid(1.702 * layer.up);
    return (layer.middle + (matmul(layer.active, down) + down_bias)).named(layer.name + ".out");
  }

  /// Of layer_norm: that of its operand, given that of its result.
  static Value backward_norm(const Value& x, const Value& gamma, const Value& dy) {
    const Value centred = x - mean(x, {1}, true);
    const Value inverse = rsqrt(mean(square(centred), {1}, true) + 1e-5);
    const Value hat = centred * inverse;
    const Value dhat = dy * gamma;
    return inverse * (dhat - mean(dhat, {1}, true) - hat * mean(dhat * hat, {1}, true));
  }

  static Value backward(Layer& layer, const Value& dy) {
    std::vector<Parameter>& p = layer.parameters;
    p[w_down].gradient = matmul(layer.active, dy, true);
    p[b_down].gradient = sum(dy, {0});
    const Value gate = sigmoid(1.702 * layer.up);
    const Value dup =
        matmul(dy, p[w_down].w, false, true) * (gate + 1.702 * layer.up * gate * (1.0 - gate));
    p[w_up].gradient = matmul(layer.normed_2, dup, true);
    p[b_up].gradient = sum(dup, {0});
    const Value dnormed = matmul(dup, p[w_up].w, false, true);
    p[gamma_2].gradient = sum(dnormed * layer.normed_2, {0});
    p[beta_2].gradient = sum(dnormed, {0});
    const Value dmiddle = dy + backward_norm(layer.middle, p[gamma_2].w, dnormed);
    p[wo].gradient = matmul(layer.attended, dmiddle, true);
    const Value dattended = matmul(dmiddle, p[wo].w, false, true);
    const Value dv = matmul(layer.scores, dattended, true);
    const Value dscores = matmul(dattended, layer.v, false, true);
    const Value dlogits = (dscores - sum(dscores * layer.scores, {1}, true)) * layer.scores * 0.125;
    const Value dq = matmul(dlogits, layer.k), dk = matmul(dlogits, layer.q, true);
    p[wq].gradient = matmul(layer.normed, dq, true);
    p[wk].gradient = matmul(layer.normed, dk, true);
    p[wv].gradient = matmul(layer.normed, dv, true);
    const Value dfirst = matmul(dq, p[wq].w, false, true) + matmul(dk, p[wk].w, false, true) +
                         matmul(dv, p[wv].w, false, true);
    p[gamma_1].gradient = sum(dfirst * layer.normed, {0});
    p[beta_1].gradient = sum(dfirst, {0});
    return dmiddle + backward_norm(layer.x, p[gamma_1].w, dfirst);
  }

  /// AdamW.
  void step(const Parameter& one) {
    const Value g = all_reduce(one.gradient, Reduction::mean).named(one.name + ".mean");
    const Value m = program_.state(one.name + ".m", f32, one.w.shape(), replicated);
    const Value v = program_.state(one.name + ".v", f32, one.w.shape(), replicated);
    const Value m_new = update(m, 0.9 * m + 0.1 * g);
    const Value v_new = update(v, 0.999 * v + 0.001 * g * g);
    const Value direction =
        m_new / (1.0 - pow(0.9, t_)) / (sqrt(v_new / (1.0 - pow(0.999, t_))) + 1e-8);
    update(one.w, one.w - lr_ * (direction + 0.01 * one.w));
  }

  Program program_;
  Dim rows_ = program_.dim("rows", 64), width_ = program_.dim("width", 64),
      inner_ = program_.dim("inner", 256);
  Value lr_ = program_.scalar("lr"), t_ = program_.scalar("t");
};

}  // namespace coconet::test
