// ABI, mailboxes: the memory through which ranks send each other chunks of tensors inside a kernel.
// A box belongs to the rank that takes from it, to a block, and to one sender; it has SLOTS slots,
// so that a chunk can be filled while another is read.

constexpr int SLOTS = 2;

/// The mailboxes of all ranks. Chunks are numbered over all launches; a launch has `chunks`
/// numbers, a multiple of what a topology's boxes go through in turn.
struct MailboxesHead {
  u64 first;      // number of this launch's first chunk
  u64 chunks;     // numbers that a launch uses
  index_t chunk;  // elements of a chunk
  u64 slot_bytes;
};
template <int R>
struct Mailboxes : MailboxesHead {
  u8* memory[R];
};

/// How the memory of one rank is laid out: for each block and box a flag that says what has come,
/// then for each of them and each taker a flag that says what it took from that box of its own,
/// then the slots.
struct MailboxLayout {
  index_t boxes, ranks, blocks;  // boxes of a block

  /// Words where flags begin.
  DEVICE_MEMBER constexpr index_t filled(index_t block, index_t box) const {
    return (block * boxes + box) * FLAG_STRIDE;
  }
  DEVICE_MEMBER constexpr index_t emptied(index_t block, index_t box, index_t taker) const {
    return (blocks * boxes + (block * boxes + box) * ranks + taker) * FLAG_STRIDE;
  }
  /// Bytes where a slot begins: a multiple of 128 where `boxes` is even, behind flags of 64.
  DEVICE_MEMBER constexpr index_t slot(index_t block, index_t box, index_t slot,
                                       u64 slot_bytes) const {
    return blocks * boxes * (ranks + 1) * FLAG_STRIDE * index_t(sizeof(u64)) +
           ((block * boxes + box) * SLOTS + slot) * index_t(slot_bytes);
  }
  /// Of all of it.
  DEVICE_MEMBER constexpr index_t bytes(u64 slot_bytes) const {
    return slot(blocks, 0, 0, slot_bytes);
  }
};

/// Lines of memory, which slots are whole numbers of.
constexpr int LINE_BYTES = 128;
/// Elements that a line holds beside its flag, in the protocol ll128: words of 4 bytes.
constexpr int LINE_ELEMENTS = 30;

/// Bytes of a slot for `elements` of `size` bytes, by protocol: the elements one after the other;
/// every word of up to 4 bytes in 8; 30 words in a line.
DEVICE constexpr index_t simple_slot_bytes(index_t elements, index_t size) {
  return (elements * size + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}
DEVICE constexpr index_t ll_slot_bytes(index_t elements, index_t size) {
  return simple_slot_bytes(elements, size == 8 ? 16 : 8);
}
DEVICE constexpr index_t ll128_slot_bytes(index_t elements, index_t size) {
  return (elements + LINE_ELEMENTS - 1) / LINE_ELEMENTS * (size == 8 ? 2 : 1) * LINE_BYTES;
}

static_assert(sizeof(MailboxesHead) == 32 && OFFSET_OF(chunk, MailboxesHead) == 16);
static_assert(sizeof(Mailboxes<3>) == sizeof(MailboxesHead) + 3 * sizeof(u8*));
