// GET /v1/providers: the available providers and their health.

import type { Caller } from '../../accounts/account.ts'
import { type AnswerCount, figuresOf, type LastError } from '../../chat/routing/health.ts'
import { asCaller, type Route } from '../route.ts'
import type { HttpParts } from '../parts.ts'

export const listProviders: Route = {
  method: 'GET',
  path: '/v1/providers',
  handle: asCaller(describeProviders),
  operation: async () => (await import('./documentation.ts')).providers,
}

/** Every configured provider with its health for this caller, as seen by this gateway. No addresses, no keys. */
export async function describeProviders(
  { chat, healthOf }: HttpParts,
  caller: Pick<Caller, 'account'>,
): Promise<object> {
  const described = [...chat.providers.values()].map(async (provider) => {
    const seen = await healthOf(provider, caller.account.id)
    return {
      id: provider.id,
      object: 'provider',
      name: provider.name,
      protocol: provider.protocol,
      state: seen.state,
      ...figuresObject(seen.hour),
      last_day: figuresObject(seen.day),
      counted_since: new Date(seen.countedSince).toISOString(),
      cool_down_until: seen.coolUntil === null ? null : new Date(seen.coolUntil).toISOString(),
      last_error: seen.lastError === null ? null : lastErrorObject(seen.lastError),
      troubles: seen.troubles.map(({ key, upstream, standing, breaker, failures }) => ({
        key,
        model: upstream,
        state: standing,
        breaker,
        failures,
      })),
    }
  })
  return { object: 'list', data: await Promise.all(described) }
}

function figuresObject(count: AnswerCount) {
  const { answers, refusals, successRate, p50Ms } = figuresOf(count)
  return { answers, success_rate: successRate, p50_latency_ms: p50Ms, refusals }
}

function lastErrorObject({ at, upstream, code, status, reason }: LastError) {
  return { at: new Date(at).toISOString(), model: upstream, code, status, reason }
}
