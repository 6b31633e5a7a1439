// `weir conformance`: tries what a client may rely on, at this gateway or at any other, and reports what holds.

import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { conformanceCases } from '../../conformance/cases.ts'
import {
  type Case,
  lineOf,
  type Report,
  reportPage,
  runCases,
  scoreLine,
  scoresOf,
  Trial,
  type TrialTarget,
} from '../../conformance/trial.ts'
import { version } from '../../version.ts'
import { CommandFailure, type Context, type Invocation, print, usageFault, visible } from '../context.ts'
import { checkedUrl, gatewayUrl } from '../gateway-address.ts'

/** The built-in model that can do all that is asked. */
const ownModel = 'sim/tools'
const usualTimeoutSeconds = 60

/** Runs the cases. Fails if one does not hold; a protocol that is not served is left out. */
export async function conformance(context: Context, invocation: Invocation): Promise<void> {
  const target = await targetOf(context, invocation)
  const cases = casesFor(invocation)
  const told = context.json ? () => undefined : (line: string) => context.io.out(`${visible(line)}\n`)
  told(`${target.base}, model ${target.model}, ${cases.length} cases\n`)
  const results = await runCases(cases, target, (result) => told(lineOf(result)))
  const scores = scoresOf(results)
  const made_at = new Date(context.io.clock()).toISOString()
  const report: Report = {
    base_url: target.base,
    model: target.model,
    made_at,
    weir: version,
    scores,
    results,
  }
  const page = invocation.option('html')
  if (page !== undefined) writeFileSync(resolve(context.io.cwd, page), reportPage(report))
  const lines = Object.entries(scores).map(([name, score]) => scoreLine(name, score))
  print(context, { json: report, text: ['', ...lines].join('\n') })
  const { failed, passed } = scores['all']!
  if (failed > 0) throw new CommandFailure(`${failed} of ${failed + passed} cases do not hold`)
  if (passed === 0)
    throw new CommandFailure('nothing was served there: is it the base URL, such as https://host/v1?')
}

async function targetOf(context: Context, invocation: Invocation): Promise<TrialTarget> {
  const [address] = invocation.args
  const base = address === undefined ? gatewayUrl(context, invocation) : checkedUrl('the address', address)
  const key = invocation.option('key') || context.env['WEIR_API_KEY']
  if (!key) throw usageFault('give an API key with --key or in WEIR_API_KEY')
  const seconds = Number(invocation.option('timeout') ?? usualTimeoutSeconds)
  if (!(seconds >= 1 && seconds <= 600)) throw usageFault('--timeout takes seconds from 1 to 600')
  const target = { base, key, model: ownModel, timeoutMs: seconds * 1000 }
  const model = invocation.option('model')
  if (model !== undefined) return { ...target, model }
  if (await hasOwnModel(target)) return target
  throw usageFault('name a model with --model: one that calls functions and keeps to a JSON schema')
}

/** Whether this is a gateway of ours, whose built-in model costs nothing to speak of. */
async function hasOwnModel(target: TrialTarget): Promise<boolean> {
  try {
    return (await new Trial(target).ask(`/models/${ownModel}`)).json['id'] === ownModel
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new CommandFailure(`${target.base} does not answer: ${why}`)
  }
}

function casesFor(invocation: Invocation): readonly Case[] {
  const named = invocation.option('protocol')?.split(',')
  if (named === undefined) return conformanceCases
  const known = [...new Set(conformanceCases.map(({ protocol }) => protocol))]
  const wrong = named.find((name) => !known.some((one) => one === name))
  if (wrong !== undefined)
    throw usageFault(`there is no protocol ${JSON.stringify(wrong)}: ${known.join(', ')}`)
  return conformanceCases.filter(({ protocol }) => named.includes(protocol))
}
