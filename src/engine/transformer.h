#pragma once
// The forward pass of a llama-architecture model over a batch of rows, each a token of some
// sequence with its own pages: grouped-query attention, rotary positions, RMS norms, SwiGLU. A
// row's numbers depend on its token, its position and what its pages hold, on nothing else in the
// batch. One thread owns it; the work is shared with the worker threads it is given.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/activations.h"
#include "engine/batch_row.h"
#include "engine/kernels.h"
#include "engine/kv_arena.h"
#include "engine/kv_pool.h"
#include "engine/llama_shape.h"
#include "engine/llama_weights.h"
#include "engine/worker_threads.h"

namespace spillway {

class Transformer {
 public:
  // What it works with; all outlive it.
  struct Parts {
    const LlamaShape& shape;
    const LlamaWeights& weights;
    const KvPool& pool;
    KvArena& arena;
    WorkerThreads& workers;
    const Kernels& kernels;
  };
  struct Bounds {
    std::size_t rows = 1;     // of a batch
    std::size_t logits = 1;   // rows of a batch that want logits
    std::size_t context = 1;  // slots of one sequence
  };

  Transformer(const Parts& parts, const Bounds& bounds);

  // Computes the batch: stores keys and values, leaves logits. Rows of one sequence stand together
  // in order of position.
  // REQUIRES: within the bounds; tokens are in the vocabulary.
  void run(std::span<const BatchRow> rows);

  // Of the n-th row that wanted them, until the next run().
  std::span<const float> logits(std::size_t n) const;

 private:
  struct Product {
    const WeightMatrix* weights = nullptr;
    float* out = nullptr;  // [rows, weights->rows]
    bool add = false;
  };

  template <class Body>
  void for_each_row(std::size_t rows, Body&& body);
  void multiply(std::span<const Product> products, const Activations& x);
  void normalise_rows(const std::vector<float>& weight);
  void prepare(std::span<const BatchRow> rows);
  void attention_part(std::span<const BatchRow> rows, std::size_t layer);
  void clear_new_pages(std::span<const BatchRow> rows, std::size_t layer);
  void store_keys(const BatchRow& row, std::size_t index, std::size_t layer);
  void rotate(float* head, std::size_t row) const;
  void list_pages(std::span<const BatchRow> rows, std::size_t layer);
  void attend(std::span<const BatchRow> rows);
  void attend_heads(const BatchRow& row, std::size_t index, std::size_t first_head,
                    std::size_t worker);
  void feed_forward_part(const LlamaLayer& layer);
  void compute_logits(std::span<const BatchRow> rows);

  // The run of pages of one sequence in the current layer, for each of its rows and each head.
  struct PageList {
    std::size_t first = 0;  // in pages_, of head 0; the next head's follow
    std::size_t count = 0;
    std::size_t used = 0;
  };

  Parts parts_;
  Bounds bounds_;
  std::size_t rows_ = 0;
  std::size_t heads_at_once_ = 1;

  std::vector<float> stream_;        // [rows, width]: the residual stream
  Activations normed_;               // [rows, width]
  Activations attended_;             // [rows, query width]
  Activations hidden_;               // [rows, hidden]
  Activations last_;                 // [logit rows, width]
  std::vector<float> query_;         // [rows, query width]
  std::vector<float> key_;           // [rows, kv width]
  std::vector<float> value_;         // [rows, kv width]
  std::vector<float> up_;            // [rows, hidden]
  std::vector<float> logits_;        // [logit rows, vocabulary]
  std::vector<double> frequencies_;  // [head_dim / 2]
  std::vector<float> cosines_;       // [rows, head_dim / 2]
  std::vector<float> sines_;         // [rows, head_dim / 2]
  std::vector<AttentionPage> pages_;
  std::vector<PageList> page_lists_;        // [rows]
  std::vector<KernelScratch> scratch_;      // one for each worker
  std::vector<std::vector<float>> scores_;  // one for each worker
  std::vector<std::uint16_t> halves_;       // [rows, 2, kv width]
};

}  // namespace spillway
