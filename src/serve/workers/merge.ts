// What several processes have seen of one provider, as one report.

import type { ProviderHealth } from '../../chat/routing/health.ts'

type Trouble = ProviderHealth['troubles'][number]

const worst: Readonly<Record<ProviderHealth['state'], number>> = { healthy: 0, degraded: 1, unavailable: 2 }
const standings: Readonly<Record<Trouble['standing'], number>> = { healthy: 0, cooling: 1, open: 2 }

/**
 * The worst state of all, each trouble as the process sees it that has the most of it, and rates weighed by answers: of
 * medians the mean, which is near the median of all as long as the processes have about the same work.
 */
export function mergedHealth(seen: readonly ProviderHealth[]): ProviderHealth {
  const answers = seen.reduce((sum, each) => sum + each.answers, 0)
  const states = seen.map(({ state }) => state).toSorted((a, b) => worst[b] - worst[a])
  const coolUntil = Math.max(0, ...seen.map((each) => each.coolUntil ?? 0))
  const errors = seen.flatMap(({ lastError }) => (lastError === null ? [] : [lastError]))
  const p50Ms = weighed(seen, ({ p50Ms: ms }) => ms)
  return {
    state: states[0] ?? 'healthy',
    successRate: weighed(seen, ({ successRate }) => successRate),
    p50Ms: p50Ms === null ? null : Math.round(p50Ms),
    answers,
    coolUntil: coolUntil === 0 ? null : coolUntil,
    troubles: mergedTroubles(seen.flatMap(({ troubles }) => troubles)),
    lastError: errors.toSorted((a, b) => b.at - a.at)[0] ?? null,
  }
}

/** The mean of a figure over those that have it, by how many answers each has seen. */
function weighed(
  seen: readonly ProviderHealth[],
  figure: (health: ProviderHealth) => number | null,
): number | null {
  let sum = 0
  let weight = 0
  for (const health of seen) {
    const value = figure(health)
    if (value === null) continue
    sum += value * health.answers
    weight += health.answers
  }
  return weight === 0 ? null : sum / weight
}

function mergedTroubles(troubles: readonly Trouble[]): Trouble[] {
  const named = Map.groupBy(troubles, ({ key, upstream }) => `${key}\n${upstream ?? ''}`)
  return [...named.values()].map((same) => {
    const [most] = same.toSorted(
      (a, b) => standings[b.standing] - standings[a.standing] || b.failures - a.failures,
    )
    return { ...most!, failures: same.reduce((sum, { failures }) => sum + failures, 0) }
  })
}
