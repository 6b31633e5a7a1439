// `weir doctor --provider P`: makes one cheap call to a provider, charged to no account, and explains what is wrong.

import { NearIds } from '../../catalog/near-ids.ts'
import { suggestion } from '../../catalog/row.ts'
import { formatUsd } from '../../credits/money.ts'
import { providers as registry } from '../../providers/registry.ts'
import { catalogInUse } from '../../serve/gateway/catalog.ts'
import { type TestedCall, testProvider, type TestProblem } from '../../serve/gateway/provider-test.ts'
import { CommandFailure, type Context, type Invocation, print, usageFault } from '../context.ts'
import { folderSays, isUsersChoice } from '../gateway-address.ts'
import { catalogFileIn } from '../with-store.ts'
import type { Finding } from './doctor.ts'

interface Verdict extends Finding {
  readonly problem?: TestProblem
  /** The model that was called, by its name at the provider. */
  readonly model?: string
  readonly ms?: number
  /** What the provider bills, if that is known. */
  readonly cost_usd?: string
}

/** Calls the provider once with each of its keys. Fails with the reason if a call is not answered. */
export async function probe(context: Context, invocation: Invocation): Promise<void> {
  const verdicts = await verdictsOf(context, invocation.option('provider') ?? '')
  const bad = verdicts.filter(({ state }) => state === 'bad')
  const text = verdicts.map(({ check, state, detail }) => `${state.padEnd(4)}  ${check}  ${detail}`)
  print(context, { json: { ok: bad.length === 0, findings: verdicts }, text: text.join('\n') })
  if (bad.length > 0)
    throw new CommandFailure(bad.map(({ check, detail }) => `${check}: ${detail}`).join('\n'))
}

async function verdictsOf(context: Context, id: string): Promise<readonly Verdict[]> {
  const { config, io } = context
  const settings = config.providers[id]
  if (!settings && registry.every((provider) => provider.id !== id)) {
    const known = new NearIds([...registry.map((one) => one.id), ...Object.keys(config.providers)])
    throw usageFault(`there is no provider ${JSON.stringify(id)}.${suggestion(known.nearest(id))}`)
  }
  const addresses = [
    ['base_url', settings?.base_url] as const,
    ...(settings?.deployments ?? []).map((deployment) => ['deployments', deployment.base_url] as const),
  ]
  for (const [place, address] of addresses)
    if (address !== undefined && !isUsersChoice(context, ['providers', id, place], address))
      throw usageFault(`its key would be sent to ${address}, which ${folderSays}`)
  const file = await catalogFileIn(context)
  const subject = { config, catalog: catalogInUse(config, io.clock, [], file), file, clock: io.clock }
  const { calls } = await testProvider(subject, id)
  return calls.map((call) => verdictOf(call, calls.length > 1))
}

function verdictOf({ provider, upstream, key, ms, outcome }: TestedCall, isOneOfSeveral: boolean): Verdict {
  const check = `provider ${provider}${isOneOfSeveral ? ` key ${key}` : ''}`
  const facts = { check, ...(upstream === undefined ? {} : { model: upstream, ms: ms! }) }
  if (outcome.kind === 'bad')
    return { ...facts, state: 'bad', detail: outcome.detail, problem: outcome.problem }
  const cost = outcome.cost === undefined ? undefined : formatUsd(outcome.cost)
  const bill = cost === undefined ? '' : `, for ${cost} USD`
  return {
    ...facts,
    state: 'ok',
    detail: `${upstream} answered in ${ms} ms${bill}`,
    ...(cost === undefined ? {} : { cost_usd: cost }),
  }
}
