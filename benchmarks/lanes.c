/* The limit of a core: trials side by side in vectors of LANES floats, a few vectors at once so that
   one's latency hides another's. Each function plays `trials` games, rounded up to whole blocks, and
   writes what each came to (`value`, an array with room for a block more).

   Choices: xoshiro128+ (Blackman and Vigna), a stream a lane, 23 bits a uniform number; polynomials
   for log and exp, within 2e-7 and 1e-6; of EXP3 the weights themselves, rescaled every 64 rounds, so one exp
   of one number a round. `exp3` draws the loss of the arm in play alone, `exp3_drawn` of all arms. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifndef LANES
#define LANES 8
#endif

typedef float Real __attribute__((vector_size(4 * LANES)));
typedef int32_t Int __attribute__((vector_size(4 * LANES)));
typedef uint32_t Word __attribute__((vector_size(4 * LANES)));

typedef struct {
  Word a, b, c, d;
} Stream;

static uint64_t mixed(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

static Stream stream(uint64_t *state) {
  Stream s;
  for (int i = 0; i < LANES; i++) {
    const uint64_t x = mixed(state), y = mixed(state);
    s.a[i] = x, s.b[i] = x >> 32, s.c[i] = y, s.d[i] = y >> 32;
  }
  return s;
}

static inline Word next(Stream *s) {
  const Word result = s->a + s->d, t = s->b << 9;
  s->c ^= s->a;
  s->d ^= s->b;
  s->b ^= s->c;
  s->a ^= s->d;
  s->c ^= t;
  s->d = (s->d << 11) | (s->d >> 21);
  return result;
}

static inline Real pick(Int mask, Real yes, Real no) {
  return (Real)((mask & (Int)yes) | (~mask & (Int)no));
}

/* In [1, 2). */
static inline Real one_to_two(Word word) { return (Real)((word >> 9) | 0x3F800000u); }

static inline Real uniform(Stream *s) { return one_to_two(next(s)) - 1.0f; }

/* Of positive, normal numbers. */
static inline Real log_of(Real x) {
  const Int bits = (Int)x - 0x3F3504F3; /* of sqrt(1/2) */
  const Real exponent = __builtin_convertvector(bits >> 23, Real);
  const Real y = (Real)((bits & 0x7FFFFF) + 0x3F3504F3) - 1.0f, z = y * y;
  Real p = 7.0376836292e-2f * y - 1.1514610310e-1f;
  p = p * y + 1.1676998740e-1f;
  p = p * y - 1.2420140846e-1f;
  p = p * y + 1.4249322787e-1f;
  p = p * y - 1.6668057665e-1f;
  p = p * y + 2.0000714765e-1f;
  p = p * y - 2.4999993993e-1f;
  p = p * y + 3.3333331174e-1f;
  return y + z * (p * y - 0.5f) + exponent * 0.69314718f;
}

/* Of numbers up to 80; below -80 it stays at exp(-80). */
static inline Real exp_of(Real x) {
  const Real least = x - x - 80.0f;
  x = pick(x < least, least, x) * 1.44269504f;
  /* To the nearest integer: truncation where it is positive. */
  const Int n = __builtin_convertvector(x + 128.5f, Int) - 128;
  const Real f = x - __builtin_convertvector(n, Real);
  Real p = 1.5403530e-4f * f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  return (Real)((Int)p + (n << 23));
}

/* One word: 23 bits of the size, one of the rest for the sign. */
static inline Real laplace(Stream *s) {
  const Word word = next(s);
  const Real size = -log_of(2.0f - one_to_two(word));
  return (Real)((Word)size ^ ((word << 23) & 0x80000000u));
}

#define ARMS 4
#define BESIDE 4

/* EXP3 against Bernoulli losses. Where all losses are drawn, a sum for each arm is kept. */
static inline __attribute__((always_inline)) void play_exp3(const int drawn, int horizon, int trials,
                                                            float mixing, const float *means,
                                                            uint64_t seed, double *value) {
  float best = means[0];
  for (int k = 1; k < ARMS; k++) best = fminf(best, means[k]);
  const float floor = mixing / ARMS;
  for (int done = 0; done < trials; done += LANES * BESIDE) {
    Stream s[BESIDE];
    Real w[BESIDE][ARMS], regret[BESIDE], against[BESIDE][ARMS];
    for (int g = 0; g < BESIDE; g++) {
      s[g] = stream(&seed);
      regret[g] = (Real){0};
      for (int k = 0; k < ARMS; k++) w[g][k] = regret[g] + 1.0f, against[g][k] = regret[g];
    }
    for (int t = 0; t < horizon; t++) {
      for (int g = 0; g < BESIDE; g++) {
        Real *v = w[g];
        const Real share = (1.0f - mixing) / (v[0] + v[1] + v[2] + v[3]);
        const Real p0 = share * v[0] + floor, p1 = share * v[1] + floor, p2 = share * v[2] + floor,
                   p3 = share * v[3] + floor;
        const Real u = uniform(&s[g]);
        const Real c1 = p0 + p1;
        const Int below0 = u < p0, below1 = u < c1, below2 = u < c1 + p2;
        const Real p = pick(below0, p0, pick(below1, p1, pick(below2, p2, p3)));
        const Real zero = u - u;
        const Real mean = pick(below0, zero + means[0],
                               pick(below1, zero + means[1],
                                    pick(below2, zero + means[2], zero + means[3])));
        Int gain;
        if (drawn) {
          Real loss[ARMS];
          for (int k = 0; k < ARMS; k++)
            loss[k] = pick(uniform(&s[g]) < zero + means[k], zero + 1.0f, zero);
          const Real own =
              pick(below0, loss[0], pick(below1, loss[1], pick(below2, loss[2], loss[3])));
          for (int k = 0; k < ARMS; k++) against[g][k] += own - loss[k];
          gain = own == zero;
        } else {
          gain = uniform(&s[g]) >= mean;
        }
        const Real factor = exp_of((Real)(gain & (Int)(floor / p)));
        v[0] *= pick(below0, factor, zero + 1.0f);
        v[1] *= pick(~below0 & below1, factor, zero + 1.0f);
        v[2] *= pick(~below1 & below2, factor, zero + 1.0f);
        v[3] *= pick(below2, zero + 1.0f, factor);
        if (!drawn) regret[g] += mean - best;
      }
      /* A factor is at most e, and e^64 is far from overflow. */
      if (t % 64 == 63)
        for (int g = 0; g < BESIDE; g++) {
          const Real scale = 1.0f / (w[g][0] + w[g][1] + w[g][2] + w[g][3]);
          for (int k = 0; k < ARMS; k++) w[g][k] *= scale;
        }
    }
    for (int g = 0; g < BESIDE; g++)
      for (int i = 0; i < LANES; i++) {
        float worst = regret[g][i];
        for (int k = 0; drawn && k < ARMS; k++)
          worst = k ? fmaxf(worst, against[g][k][i]) : against[g][k][i];
        value[done + g * LANES + i] = worst;
      }
  }
}

/* value: pseudo-regret. */
void exp3(int horizon, int trials, float mixing, const float *means, uint64_t seed, double *value) {
  play_exp3(0, horizon, trials, mixing, means, seed, value);
}

/* value: regret against the arm that was best on the losses drawn. */
void exp3_drawn(int horizon, int trials, float mixing, const float *means, uint64_t seed,
                double *value) {
  play_exp3(1, horizon, trials, mixing, means, seed, value);
}

#define DIM 10
#define LEVELS 31

typedef struct {
  Real walk[LEVELS][DIM];
} Tree;

/* Adds to each total the noise of prefix t. */
static inline void tree_step(Tree *tree, Stream *s, int t, float scale, const Real *total,
                             Real *release) {
  const int parent = t & (t - 1);
  const Real *before = parent ? tree->walk[__builtin_ctz(parent)] : 0;
  Real *here = tree->walk[__builtin_ctz(t)];
  for (int i = 0; i < DIM; i++) {
    const Real fresh = scale * laplace(s);
    here[i] = before ? before[i] + fresh : fresh;
    release[i] = total[i] + here[i];
  }
}

/* Prefix sums of zeros by the tree; value: mean square over the entries of the sum of all releases. */
void tree(int horizon, int trials, float scale, const float *loss, uint64_t seed, double *value) {
  for (int done = 0; done < trials; done += LANES) {
    Tree tree;
    Stream s = stream(&seed);
    Real total[DIM] = {0}, sum[DIM] = {0}, release[DIM];
    for (int t = 1; t <= horizon; t++) {
      for (int i = 0; i < DIM; i++) total[i] += loss[i];
      tree_step(&tree, &s, t, scale, total, release);
      for (int i = 0; i < DIM; i++) sum[i] += release[i];
    }
    for (int l = 0; l < LANES; l++) {
      value[done + l] = 0.0;
      for (int i = 0; i < DIM; i++) value[done + l] += (double)sum[i][l] * sum[i][l] / DIM;
    }
  }
}

/* Entropic FTRL on the tree; value: regret. Losses are `rows` (horizon, DIM); or, without them,
   entry i is 1 with probability Phi(bias u_i), u_i normal, drawn once a trial. */
void ftrl(int horizon, int trials, float rate, float scale, float bias, const float *rows,
          uint64_t seed, double *value) {
  for (int done = 0; done < trials; done += LANES) {
    Tree tree;
    Stream s = stream(&seed);
    Real total[DIM] = {0}, weights[DIM], release[DIM] = {0}, chance[DIM], suffered = {0};
    for (int i = 0; i < DIM; i++)
      for (int l = 0; l < LANES; l++) {
        const double u = ((mixed(&seed) >> 11) + 0.5) * 0x1p-53, v = (mixed(&seed) >> 11) * 0x1p-53;
        const double normal = sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
        chance[i][l] = 0.5 * erfc(-bias * normal * M_SQRT1_2);
      }
    for (int t = 1; t <= horizon; t++) {
      Real least = release[0], norm = {0}, here = {0};
      for (int i = 1; i < DIM; i++) least = pick(release[i] < least, release[i], least);
      for (int i = 0; i < DIM; i++) {
        weights[i] = exp_of(rate * (least - release[i]));
        norm += weights[i];
      }
      for (int i = 0; i < DIM; i++) {
        const Real loss = rows ? here - here + rows[(t - 1) * DIM + i]
                               : (Real)((uniform(&s) < chance[i]) & 0x3F800000);
        here += loss * weights[i];
        total[i] += loss;
      }
      suffered += here / norm;
      tree_step(&tree, &s, t, scale, total, release);
    }
    Real best = total[0];
    for (int i = 1; i < DIM; i++) best = pick(total[i] < best, total[i], best);
    for (int l = 0; l < LANES; l++) value[done + l] = suffered[l] - best[l];
  }
}
