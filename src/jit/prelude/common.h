// Prelude, the half that host and CUDA share: dtypes' computation, reductions, and the barrier of
// ranks.

// ---- math ---------------------------------------------------------------------------------------

#define COCONET_MATH(name)                                  \
  DEVICE f32 name##_(f32 x) { return LIBRARY(name##f)(x); } \
  DEVICE f64 name##_(f64 x) { return LIBRARY(name)(x); }
COCONET_MATH(sqrt)
COCONET_MATH(exp)
COCONET_MATH(expm1)
COCONET_MATH(log)
COCONET_MATH(log1p)
COCONET_MATH(sin)
COCONET_MATH(cos)
COCONET_MATH(tanh)
COCONET_MATH(erf)
COCONET_MATH(floor)
COCONET_MATH(ceil)
#undef COCONET_MATH
DEVICE f32 pow_(f32 x, f32 y) { return LIBRARY(powf)(x, y); }
DEVICE f64 pow_(f64 x, f64 y) { return LIBRARY(pow)(x, y); }

// ---- computation types: f16 and bf16 compute in f32, all others in their own type ---------------

DEVICE f64 wide(f64 x) { return x; }
DEVICE f32 wide(f32 x) { return x; }
DEVICE i64 wide(i64 x) { return x; }
DEVICE i32 wide(i32 x) { return x; }
DEVICE i16 wide(i16 x) { return x; }
DEVICE i8 wide(i8 x) { return x; }
DEVICE u8 wide(u8 x) { return x; }

template <class T>
struct wide_type {
  typedef T type;
};
template <>
struct wide_type<f16> {
  typedef f32 type;
};
template <>
struct wide_type<bf16> {
  typedef f32 type;
};

/// f16 and bf16 are in host.h and cuda.h.
template <class T>
struct narrow_to {
  template <class S>
  DEVICE T from(S x) {
    return T(x);
  }
  template <class S>
  DEVICE S rounded(S x) {
    return S(T(x));
  }
};

/// An integer as a float. Zero is chosen apart because gcc makes a truncation of a float's way to
/// an integer and back, and that keeps a zero's sign.
template <class T, class S>
DEVICE T to_float(S x) {
  return x == 0 ? T(0) : T(x);
}

/// Types that f32 does not hold: on the way through it, values would be rounded to 16 bits twice.
template <class S>
constexpr bool exceeds_f32 = false;
template <>
constexpr bool exceeds_f32<f64> = true;
template <>
constexpr bool exceeds_f32<i32> = true;
template <>
constexpr bool exceeds_f32<i64> = true;

/// A T of 16 bits among those of f64: its least normal number, the bits of a fraction that it has
/// not, as a power of two, and where infinity is the nearest.
template <class T>
struct among_f64;
template <>
struct among_f64<f16> {
  static constexpr f64 least = 0x1p-14, unused = 0x1p42, beyond = 65520;
};
template <>
struct among_f64<bf16> {
  static constexpr f64 least = 0x1p-126, unused = 0x1p45, beyond = 0x1.ffp127;
};

constexpr f64 infinity = __builtin_bit_cast(f64, 0x7ff0000000000000ull);

/// The T of 16 bits that is nearest to x, ties to even, with what lanes of 64 bits can do alone.
template <class T>
DEVICE f32 nearest(f64 x) {
  typedef among_f64<T> of;
  const u64 bits = __builtin_bit_cast(u64, x);
  const f64 size = __builtin_bit_cast(f64, bits & 0x7fffffffffffffffull);
  const f64 exponent = __builtin_bit_cast(f64, bits & 0x7ff0000000000000ull);
  // A power of two whose last bit is that of the T: to add it rounds to nearest even.
  const f64 power = (exponent > of::least ? exponent : of::least) * of::unused;
  const f64 finite = (size + power) - power;
  const u64 within = __builtin_bit_cast(u64, size >= of::beyond ? infinity : finite);
  return f32(__builtin_bit_cast(f64, within | (bits & 0x8000000000000000ull)));
}

/// `x` as a multiple of 2^BITS: as an odd one where it is none, so that it is rounded as x is.
template <int BITS, class S>
DEVICE S to_odd(S x) {
  constexpr S low = (S(1) << BITS) - 1;
  return S((x >> BITS | S((x & low) != 0)) << BITS);
}

template <class T>
DEVICE f32 nearest(i32 x) {
  if constexpr (among_f64<T>::beyond < 1 << 24) {
    const i32 below = x < 1 << 24 ? x : 1 << 24;
    return narrow_to<T>::rounded(to_float<f32>(below > -(1 << 24) ? below : -(1 << 24)));
  } else {
    const bool is_f32 = u32(x) + (1u << 24) <= 2u << 24;
    return narrow_to<T>::rounded(to_float<f32>(is_f32 ? x : to_odd<8>(x)));
  }
}
template <class T>
DEVICE f32 nearest(i64 x) {
  if constexpr (among_f64<T>::beyond < 1 << 24) {
    const i64 below = x < 1 << 24 ? x : 1 << 24;
    return narrow_to<T>::rounded(to_float<f32>(below > -(1 << 24) ? below : -(1 << 24)));
  } else {
    const bool is_f64 = u64(x) + (u64(1) << 53) <= u64(2) << 53;
    return nearest<T>(to_float<f64>(is_f64 ? x : to_odd<10>(x)));
  }
}

/// `x` as a stored T: rounded to nearest even, wrapped, or unchanged.
template <class T, class S>
DEVICE T narrow(S x) {
  if constexpr (has_16_bits<T> && exceeds_f32<S>)
    return narrow_to<T>::from(nearest<T>(x));
  else
    return narrow_to<T>::from(typename wide_type<T>::type(x));
}

/// `x` rounded to T, in T's computation type.
template <class T, class S>
DEVICE typename wide_type<T>::type rounded(S x) {
  if constexpr (has_16_bits<T> && exceeds_f32<S>)
    return nearest<T>(x);
  else
    return narrow_to<T>::rounded(typename wide_type<T>::type(x));
}

/// Elements as they are computed with.
template <int N, class T>
DEVICE vec<N, typename wide_type<T>::type> widened(const vec<N, T>& stored) {
  vec<N, typename wide_type<T>::type> value;
  lanes<N>([&](int l) { value[l] = wide(stored[l]); });
  return value;
}

/// Elements as they are stored. Widths change between loops over lanes, not in them: on the host a
/// loop's vectors have as many lanes as its widest and its narrowest type allow.
template <class T, int N, class S>
DEVICE vec<N, T> narrowed(const vec<N, S>& value) {
  vec<N, T> stored;
  lanes<N>([&](int l) { stored[l] = narrow<T>(value[l]); });
  return stored;
}

/// Values that T has, as they are stored: nothing is rounded.
template <class T, int N, class S>
DEVICE vec<N, T> narrowed_exactly(const vec<N, S>& value) {
  return narrowed<T>(value);
}

DEVICE f32 abs_(f32 x) { return x < 0 || (x == 0 && 1 / x < 0) ? -x : x; }
DEVICE f64 abs_(f64 x) { return x < 0 || (x == 0 && 1 / x < 0) ? -x : x; }
DEVICE i64 abs_(i64 x) { return x < 0 ? i64(-u64(x)) : x; }
DEVICE i32 abs_(i32 x) { return x < 0 ? i32(-u32(x)) : x; }
DEVICE i16 abs_(i16 x) { return i16(x < 0 ? -x : x); }
DEVICE i8 abs_(i8 x) { return i8(x < 0 ? -x : x); }
DEVICE u8 abs_(u8 x) { return x; }

/// That of a zero is 0, not -0.
template <class T>
DEVICE T sign_(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : T(x + T(0));
}
DEVICE f32 gelu_(f32 x) { return 0.5f * x * (1 + erf_(x * 0.70710678118654752f)); }
DEVICE f64 gelu_(f64 x) { return 0.5 * x * (1 + erf_(x * 0.70710678118654752440)); }

/// An f32 as the nearest bf16, ties away from zero, and its lower 16 bits; and put together again.
/// NaN stays NaN: as it may have nothing above them, the upper half is made quiet.
DEVICE f32 upper_half_(f32 x) {
  const u32 bits = bits_of(x);
  return float_of((x == x ? bits + 0x8000u : bits | 0x400000u) & 0xffff0000u);
}
DEVICE i32 lower_half_(f32 x) { return i32(bits_of(x) & 0xffffu); }
DEVICE f32 join_halves_(f32 upper, i32 lower) {
  const u32 low = u32(lower);
  const u32 rounded_away = upper == upper ? (low & 0x8000u) << 1 : 0u;
  return float_of((bits_of(upper) - rounded_away) | (low & 0xffffu));
}

// ---- reductions ---------------------------------------------------------------------------------

template <class T>
struct limits {
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr T top = is_signed ? T((u64(1) << (8 * sizeof(T) - 1)) - 1) : T(~u64(0));
  static constexpr T bottom = is_signed ? T(-top - 1) : T(0);
};
template <>
struct limits<f32> {
  static constexpr f32 top = f32(infinity), bottom = f32(-infinity);
};
template <>
struct limits<f64> {
  static constexpr f64 top = infinity, bottom = -infinity;
};

/// `x`, of a type that is as wide as the kernel's lanes, wrapped as a T of 8 or 16 bits.
template <class T, class S>
DEVICE S wrapped(S x) {
  constexpr int unused = 8 * int(sizeof(S) - sizeof(T));
  return limits<T>::is_signed ? S(x << unused) >> unused : S(x & 255);
}

/// `x` as a T of integers, in lanes of L: a float toward zero, within T's limits, and 0 of NaN; an
/// integer wrapped.
template <class T, class L = T, class S>
DEVICE L to_integer(S x) {
  if constexpr (is_computed_float<S>)
    return saturated<T, L>(x);
  else if constexpr (sizeof(L) > sizeof(T))
    return wrapped<T>(L(x));
  else
    return L(x);
}

struct sum_of {
  template <class T>
  DEVICE T identity() {
    return T(0);
  }
  template <class T>
  DEVICE T apply(T a, T b) {
    typedef typename wrapping<T>::type type;
    return T(type(a) + type(b));
  }
};
struct prod_of {
  template <class T>
  DEVICE T identity() {
    return T(1);
  }
  template <class T>
  DEVICE T apply(T a, T b) {
    typedef typename wrapping<T>::type type;
    return T(type(a) * type(b));
  }
};
struct max_of {
  template <class T>
  DEVICE T identity() {
    return limits<T>::bottom;
  }
  template <class T>
  DEVICE T apply(T a, T b) {
    const T larger = a > b ? a : b;  // one instruction
    return a != a ? a : larger;
  }
};
struct min_of {
  template <class T>
  DEVICE T identity() {
    return limits<T>::top;
  }
  template <class T>
  DEVICE T apply(T a, T b) {
    const T smaller = a < b ? a : b;  // one instruction
    return a != a ? a : smaller;
  }
};

/// What totals of T are accumulated in: f32 sums of many elements keep their digits in f64.
template <class Op, class T>
struct total_type {
  typedef T type;
};
template <>
struct total_type<sum_of, f32> {
  typedef f64 type;
};
template <>
struct total_type<prod_of, f32> {
  typedef f64 type;
};

/// A total for each of N lanes, nothing added yet.
template <class Op, int N, class T>
DEVICE vec<N, T> no_totals() {
  vec<N, T> totals;
  lanes<N>([&](int l) { totals[l] = Op::template identity<T>(); });
  return totals;
}

// ---- ranks --------------------------------------------------------------------------------------

/// Says why the kernel gives up, unless another wait has done so.
template <int R>
DEVICE_CALL void report(const Sync<R>& sync, u64 code, u64 phase, index_t block, int peer,
                        u64 expected, u64 found) {
  if (!claim(&sync.fault->code, code)) return;
  sync.fault->step = sync.step;
  sync.fault->phase = phase;
  sync.fault->block = u64(block);
  sync.fault->peer = u64(peer);
  sync.fault->expected = expected;
  sync.fault->found = found;
}

/// Whether this thread tells how long its block waits.
template <int R>
DEVICE bool tells_waits(const Block& block, const Sync<R>& sync) {
  return TELLS_WAITS && sync.waited != nullptr && is_leader(block);
}
/// When a wait began; 0 where this thread does not tell.
DEVICE u64 wait_begins(bool tells) { return tells ? now() : 0; }
/// Adds how long it was.
template <int R>
DEVICE void wait_ends(const Sync<R>& sync, u64 begun) {
  if (begun != 0) add_release(sync.waited, now() - begun);
}

/// Whether a wait for `peer` that began at `started` must be given up: it takes too long, that rank
/// is gone, or another wait of this launch, or of one before it in the step, was given up. What a
/// rank signalled before there was a notice of it is visible after.
template <int R>
DEVICE bool must_give_up(const Sync<R>& sync, int peer, u64 started) {
  const u64* const notice = sync.notices + u64(peer) * sync.notice_stride;
  return now() - started > sync.timeout || (load_relaxed(notice) != 0 && observe(notice) != 0) ||
         load_relaxed(&sync.fault->code) != 0;
}

/// Every wait for another rank: looks until `look()` finds what it is for, or `give_up(started)`
/// says that it must be given up. Whether it was found. It looks for the data, then for a notice,
/// and then for the data once more: a rank that has done its part and left is not missed.
template <int R, class Look, class GiveUp>
DEVICE bool wait_until(const Sync<R>& sync, Look look, GiveUp give_up) {
  bool gives_up = false;
  u64 started = 0;
  for (u64 looks = 1; !look(); ++looks) {
    if (gives_up) return false;
    relax(looks, sync.spin_limit);
    if (looks % 64 == 0) {
      if (started == 0) started = now();
      gives_up = give_up(started);
    }
  }
  return true;
}

/// Looks at `*word` until it is at least `target`, or the wait for `peer` is given up, and returns
/// what it found. What was written before the word was signalled is visible after. Only the last
/// look acquires: on a GPU each that does empties the first cache.
template <int R>
DEVICE_CALL u64 look_until(const Sync<R>& sync, int peer, const u64* word, u64 target) {
  wait_until(
      sync, [&] { return load_relaxed(word) >= target; },
      [&](u64 started) { return must_give_up(sync, peer, started); });
  return observe(word);
}

/// Waits for rank `peer` to raise a flag of the barriers to `own`, as this rank does: one that is
/// further on has found that all agree. False when it is missed, refuses, or was given otherwise.
template <int R>
DEVICE bool wait_for_rank(const Sync<R>& sync, const u64* flag, u64 own, u64 phase, index_t block,
                          int peer) {
  const u64 epoch = epoch_of(own);
  const u64 found = look_until(sync, peer, flag, barrier_value(epoch, 0, false));
  const bool ok = found == own || epoch_of(found) > epoch;
  if (!ok) {
    const u64 code = epoch_of(found) < epoch ? RANK_MISSED
                     : (found & 1) != 0      ? RANK_REFUSED
                                             : RANK_DISAGREES;
    report(sync, code, phase, block, peer, epoch, epoch_of(found));
  }
  return ok;
}

/// What a barrier puts in order, beside accesses by a rank's own addresses: those by multicast
/// addresses after it, or those before it.
enum { OWN_ADDRESSES, MULTICAST_AFTER, MULTICAST_BEFORE };

/// Raises the flag of this rank and of block `of_block` to `value` at all ranks but `except`, and
/// waits for theirs. Each rank has a thread that signals to it, and one that waits for it: together
/// they are one instruction, with one fence. Whatever else is ordered they fence, too, as what
/// another thread did or does with other ranks comes by way of them.
template <int ORDERS = OWN_ADDRESSES, int R>
DEVICE void signal_ranks(const Block& block, const Sync<R>& sync, index_t of_block, u64 value,
                         u64 except) {
  for_each_thread(block, R, [&](index_t peer) {
    if (u64(peer) == except) return;
    if constexpr (ORDERS == MULTICAST_BEFORE) order_multicast();
    signal(sync.flags[peer] + barrier_flag(of_block, index_t(sync.rank), R), value);
  });
}
template <int ORDERS = OWN_ADDRESSES, int R>
DEVICE bool await_ranks(const Block& block, const Sync<R>& sync, index_t of_block, u64 value,
                        u64 phase, u64 except) {
  const u64 begun = wait_begins(tells_waits(block, sync));
  bool ok = true;
  for_each_thread(block, R, [&](index_t peer) {
    if (u64(peer) == except || !ok) return;
    ok = wait_for_rank(sync, sync.own_flags + barrier_flag(of_block, peer, R), value, phase,
                       block.index, int(peer));
    if constexpr (ORDERS == MULTICAST_AFTER) order_multicast();
  });
  ok = all_in_block(block, ok);
  wait_ends(sync, begun);
  return ok;
}

/// Waits until every rank's block of the same index is here; what they wrote before is visible
/// after. False, for all threads of the block, when a rank is missed or refuses. Of accesses by
/// multicast addresses, it orders those that it is told to.
template <int ORDERS = OWN_ADDRESSES, int R>
DEVICE bool rank_barrier(const Block& block, const Sync<R>& sync, u64 phase) {
  block_barrier(block);
  const u64 target = barrier_value(sync.epoch + phase, sync.given, false);
  signal_ranks<ORDERS>(block, sync, block.index, target, sync.rank);
  return await_ranks<ORDERS>(block, sync, block.index, target, phase, sync.rank);
}

/// Whether this is the last of `parts` times that a block of the rank comes here. It then sees what
/// the others' leaders wrote before. `arrived` counts them, and is 0 again after.
DEVICE bool is_last(const Block& block, u64* arrived, index_t parts) {
  bool last = true;
  if (is_leader(block) && parts > 1) {
    last = arrive(arrived) + 1 == u64(parts);
    if (last) *arrived = 0;
  }
  return all_in_block(block, last);
}

/// The totals in `count` words as one, combined in an order that their number and the block decide.
template <class Op, class T>
DEVICE T fold_words(const Block& block, const u64* words, index_t count) {
  return block_reduce<1, Op, T>(block, 0, count, 0, [&]<int N>(width<N, false>, index_t i) {
    vec<N, T> one;
    one[0] = *reinterpret_cast<const T*>(words + i);
    return one;
  });
}

/// A `rank_barrier` for all blocks of all ranks, which hand each other totals: `send` is called by
/// the last block of a rank, for all of them.
template <int R, int COUNT, class F>
DEVICE bool grid_barrier(const Block& block, const Sync<R>& sync, const Totals<R, COUNT>& totals,
                         u64 phase, F send) {
  const u64 target = barrier_value(sync.epoch + phase, sync.given, false);
  if (is_last(block, totals.of[sync.rank], block.count)) {
    send();
    signal_ranks(block, sync, WHOLE_GRID, target, u64(R));
  }
  return await_ranks(block, sync, WHOLE_GRID, target, phase, u64(R));
}

/// Leaves total `index` of this block to the last one of its rank.
template <int R, int COUNT, class T>
DEVICE void put_total(const Block& block, const Sync<R>& sync, const Totals<R, COUNT>& totals,
                      int index, T total) {
  if (!is_leader(block)) return;
  const index_t at = block_total_word(COUNT, R, index, block.count, block.index);
  *reinterpret_cast<T*>(totals.of[sync.rank] + at) = total;
}

/// Sends total `index` of all blocks of this rank to all ranks: combined in an order that the grid
/// alone decides, whichever block does it.
template <class Op, class T, int R, int COUNT>
DEVICE void send_total(const Block& block, const Sync<R>& sync, const Totals<R, COUNT>& totals,
                       int index) {
  const u64* const own = totals.of[sync.rank] + block_total_word(COUNT, R, index, block.count, 0);
  const T total = fold_words<Op, T>(block, own, block.count);
  const index_t at = total_word(totals.turn, COUNT, R, index, index_t(sync.rank));
  for_each_thread(block, R,
                  [&](index_t peer) { *reinterpret_cast<T*>(totals.of[peer] + at) = total; });
}

/// Total `index` of all ranks, combined in their order.
template <class Op, class T, int R, int COUNT>
DEVICE T all_totals(const Sync<R>& sync, const Totals<R, COUNT>& totals, int index) {
  const u64* const all = totals.of[sync.rank] + total_word(totals.turn, COUNT, R, index, 0);
  T total = *reinterpret_cast<const T*>(all);
  UNROLL
  for (int rank = 1; rank < R; ++rank)
    total = Op::apply(total, *reinterpret_cast<const T*>(all + rank));
  return total;
}
