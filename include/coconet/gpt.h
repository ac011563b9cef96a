// A decoder-only transformer. Its forward pass is src/sched/programs/gpt.cpp; gradients, an
// optimizer and the loss are added as to any other program, which the program `gpt` below does.
#pragma once

#include <vector>

#include "coconet/export.h"
#include "coconet/program.h"

namespace coconet::programs {

/// How large a transformer is.
struct GptSize {
  Dim vocabulary;            ///< tokens that there are
  Dim length;                ///< tokens of a sequence
  int layers;                ///< at least 1
  int hidden;                ///< numbers of a token between layers
  int heads;                 ///< of attention, each of hidden / heads of the numbers
  DType dtype = DType::f32;  ///< of the weights, a float
};

/// Writes a transformer into a program: embedding with learned positions, layers of causal
/// self-attention and an MLP with RMS norms before them, and the embedding again (Radford et al.,
/// 2019, but for the norms and biases).
class COCONET_API Gpt {
 public:
  /// Throws ProgramError for a size that is none.
  Gpt(const Program& program, GptSize size);

  /// Of integers `tokens` [B, length], each from 0 to vocabulary - 1: for each place the logits [B,
  /// length, vocabulary] of the token after it. Called once: the weights are made on the way, as
  /// replicated states called "tokens", "places", "layer0.attention.wq" and so on.
  [[nodiscard]] Value logits(const Value& tokens);

  /// A weight, and how it begins: with normal numbers of the deviation 1 / sqrt(fan_in), or where
  /// that is 0 with ones.
  struct Weight {
    Value value;  ///< a state
    int fan_in;   ///< how many numbers are added up in a product with it
  };
  /// All of them, once `logits` has made them.
  [[nodiscard]] const std::vector<Weight>& weights() const { return weights_; }
  /// The weights alone.
  [[nodiscard]] std::vector<Value> values() const;

 private:
  Value weight(const char* name, Shape shape, int fan_in);
  Value normed(const Value& x, const char* name);
  Value attention(const Value& x);
  Value mlp(const Value& x);

  Program program_;
  GptSize size_;
  std::vector<Weight> weights_;
};

/// A training step of a transformer of width 128 with 4 heads: the inputs `text` and `labels` [B,
/// S], i32, sliced over the ranks along B; the output `loss`, the mean cross entropy of the logits
/// of `text` and the labels, of which -100 is ignored; and AdamW, with `lr`, `t` (the step number,
/// from 1), its defaults and gradients clipped to the norm 1. Weights start at zero, as the library
/// makes states: the application sets them. Dimensions: batch `B`, of all ranks, sequence `S`,
/// vocabulary `V`. It has no schedule of its own. Throws ProgramError for less than a layer.
[[nodiscard]] COCONET_API Program gpt(const Mesh& mesh, DType dtype = DType::f32, int layers = 2);

}  // namespace coconet::programs
