/* Plain scalar loops of LinUCB on fresh unit arms: what a careful C programmer writes for one trial.
   `play` plays `trials` games of `horizon` rounds, one after another, and writes the pseudo-regret of
   each. */

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { D = 5, P = (D + 1) * (D + 2) / 2, MAX_ARMS = 64, LEVELS = 32 };

static uint64_t state[4];

static inline uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

/* xoshiro256+ of Blackman and Vigna. */
static inline uint64_t next(void) {
  const uint64_t result = state[0] + state[3], t = state[1] << 17;
  state[2] ^= state[0];
  state[3] ^= state[1];
  state[1] ^= state[2];
  state[0] ^= state[3];
  state[2] ^= t;
  state[3] = rotate(state[3], 45);
  return result;
}

static inline float uniform(void) { return ((float)(next() >> 40) + 0.5f) * 0x1p-24f; }

/* Marsaglia's polar method, both of a pair used. */
static inline float normal(void) {
  static float kept;
  static int has = 0;
  if (has) {
    has = 0;
    return kept;
  }
  float u, v, s;
  do {
    u = 2.0f * uniform() - 1.0f;
    v = 2.0f * uniform() - 1.0f;
    s = u * u + v * v;
  } while (s >= 1.0f || s == 0.0f);
  s = sqrtf(-2.0f * logf(s) / s);
  kept = v * s;
  has = 1;
  return u * s;
}

/* Arms uniform on the sphere where the reward along e_1 is in [-0.75, 0.75 - gap], one at 0.75. */
static void draw_arms(int arms, float gap, float x[][D]) {
  const int best = (int)(uniform() * arms) % arms;
  for (int k = 0; k < arms; k++) {
    for (;;) {
      float length = 0.0f;
      for (int i = 0; i < D; i++) {
        x[k][i] = normal();
        length += x[k][i] * x[k][i];
      }
      const float c = x[k][0] / sqrtf(length);
      if (k != best && (c < -0.75f || c > 0.75f - gap)) continue;
      const float to = k == best ? 0.75f : c;
      const float scale = sqrtf((1.0f - to * to) / (length - x[k][0] * x[k][0]));
      for (int i = 1; i < D; i++) x[k][i] *= scale;
      x[k][0] = to;
      break;
    }
  }
}

static int choose(int arms, float x[][D], const float *theta, const float w[D][D], float beta) {
  int best = 0;
  float lowest = INFINITY;
  for (int k = 0; k < arms; k++) {
    float value = 0.0f, square = 0.0f;
    for (int i = 0; i < D; i++) {
      float z = 0.0f;
      for (int j = 0; j <= i; j++) z += w[i][j] * x[k][j];
      square += z * z;
      value += theta[i] * x[k][i];
    }
    value -= beta * sqrtf(square);
    if (value < lowest) {
      lowest = value;
      best = k;
    }
  }
  return best;
}

/* From V and u packed: theta = V^-1 u, W with W'W = V^-1, and ln det V. */
static float solve(const float *v, float *theta, float w[D][D]) {
  float l[D][D], white[D], log_det = 0.0f;
  for (int i = 0; i < D; i++)
    for (int j = 0; j <= i; j++) {
      float sum = v[i * (i + 1) / 2 + j];
      for (int k = 0; k < j; k++) sum -= l[i][k] * l[j][k];
      l[i][j] = i == j ? sqrtf(sum) : sum / l[j][j];
    }
  for (int i = 0; i < D; i++) {
    log_det += 2.0f * logf(l[i][i]);
    w[i][i] = 1.0f / l[i][i];
    for (int j = 0; j < i; j++) {
      float sum = 0.0f;
      for (int k = j; k < i; k++) sum += l[i][k] * w[k][j];
      w[i][j] = -sum * w[i][i];
    }
  }
  const float *u = v + D * (D + 1) / 2;
  for (int i = 0; i < D; i++) {
    white[i] = 0.0f;
    for (int j = 0; j <= i; j++) white[i] += w[i][j] * u[j];
  }
  for (int j = 0; j < D; j++) {
    theta[j] = 0.0f;
    for (int i = j; i < D; i++) theta[j] += w[i][j] * white[i];
  }
  return log_det;
}

/* With scale 0 there is no noise, and none is drawn. The confidence: 2 ln(share / alpha), bias. */
void play(int horizon, int trials, int arms, float gap, float scale, float offset, float smallest,
          float log_failure, float bias, uint64_t seed, double *value) {
  for (int i = 0; i < 4; i++) state[i] = (seed + i + 1) * 0x9E3779B97F4A7C15ULL;
  for (int i = 0; i < 64; i++) next();
  for (int trial = 0; trial < trials; trial++) {
    float sum[P] = {0}, walk[LEVELS][P], v[P], x[MAX_ARMS][D], theta[D], w[D][D];
    float regret = 0.0f;
    memset(walk, 0, sizeof walk);
    for (int t = 0; t < horizon; t++) {
      memcpy(v, sum, sizeof v);
      if (t && scale > 0.0f) {
        const int low = __builtin_ctz(t), parent = t & (t - 1);
        const float *before = parent ? walk[__builtin_ctz(parent)] : 0;
        for (int i = 0, p = 0; i <= D; i++)
          for (int j = 0; j <= i; j++, p++) {
            float here = normal() * (i == j ? 1.41421356f * scale : scale);
            if (before) here += before[p];
            walk[low][p] = here;
            v[p] += here;
          }
      }
      for (int i = 0; i < D; i++) v[i * (i + 1) / 2 + i] += offset;
      const float growth = solve(v, theta, w) - D * logf(smallest);
      const float beta = sqrtf(fmaxf(2.0f * log_failure + growth, 0.0f)) + bias;
      draw_arms(arms, gap, x);
      const int arm = choose(arms, x, theta, w, beta);
      const float loss = uniform() < 0.5f * (1.0f - x[arm][0]) ? 1.0f : -1.0f;
      regret += 0.75f - x[arm][0];
      float row[D + 1];
      memcpy(row, x[arm], sizeof x[arm]);
      row[D] = loss;
      for (int i = 0, p = 0; i <= D; i++)
        for (int j = 0; j <= i; j++, p++) sum[p] += row[i] * row[j];
    }
    value[trial] = regret;
  }
}
