// Generates the list of BERT's parameters from its configuration.
#include "bert.h"

namespace bert {

namespace {

class List {
 public:
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
    parameters.push_back({name + ".weight", {rows, columns}});
  }
  void linear(const std::string& name, std::int64_t outputs, std::int64_t inputs) {
    matrix(name, outputs, inputs);
    parameters.push_back({name + ".bias", {outputs}});
  }
  void layer_norm(const std::string& name, std::int64_t size) {
    parameters.push_back({name + ".weight", {size}});
    parameters.push_back({name + ".bias", {size}});
  }

  std::vector<Parameter> parameters;
};

}  // namespace

std::int64_t Parameter::count() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::vector<Parameter> parameters(const Config& config) {
  const std::int64_t hidden = config.hidden;
  List list;
  list.matrix("embeddings.word_embeddings", config.vocabulary, hidden);
  list.matrix("embeddings.position_embeddings", config.max_positions, hidden);
  list.matrix("embeddings.token_type_embeddings", config.token_types, hidden);
  list.layer_norm("embeddings.LayerNorm", hidden);
  for (int i = 0; i < config.layers; ++i) {
    const std::string layer = "encoder.layer." + std::to_string(i);
    list.linear(layer + ".attention.self.query", hidden, hidden);
    list.linear(layer + ".attention.self.key", hidden, hidden);
    list.linear(layer + ".attention.self.value", hidden, hidden);
    list.linear(layer + ".attention.output.dense", hidden, hidden);
    list.layer_norm(layer + ".attention.output.LayerNorm", hidden);
    list.linear(layer + ".intermediate.dense", config.intermediate, hidden);
    list.linear(layer + ".output.dense", hidden, config.intermediate);
    list.layer_norm(layer + ".output.LayerNorm", hidden);
  }
  list.linear("pooler.dense", hidden, hidden);
  return list.parameters;
}

}  // namespace bert
