// The limits of a key as options. `none` removes a limit; without an option it stays.

import type { KeyLimits, LimitWindow } from '../accounts/account.ts'
import { isNetwork } from '../accounts/identity/network.ts'
import { type Invocation, usageFault } from './context.ts'
import { amountOfUsd, futureDate, oneOf } from './values.ts'

const windows: readonly LimitWindow[] = ['day', 'week', 'month', 'total']

/** `before` with the changes of the options. Throws CommandFailure for a wrong option. */
export function limitsOf(invocation: Invocation, before: KeyLimits, now: number): KeyLimits {
  const option = <T>(name: string, flag: string, read: (flag: string, text: string) => T, kept: T | null) => {
    const text = invocation.option(name)
    if (text === undefined) return kept
    return text === 'none' ? null : read(flag, text)
  }
  const spendLimit = option('limitUsd', '--limit-usd', amountOfUsd, before.spendLimit)
  const window = invocation.option('limitWindow')
  if (window !== undefined && spendLimit === null) throw usageFault('--limit-window needs --limit-usd')
  const kept = spendLimit === null ? 'total' : before.limitWindow
  const date = (flag: string, text: string) => futureDate(flag, text, now)
  return {
    expiresAt: option('expires', '--expires', date, before.expiresAt),
    spendLimit,
    limitWindow: window === undefined ? kept : oneOf('--limit-window', window, windows),
    allowedModels: option('models', '--models', modelList, before.allowedModels),
    requestsPerMinute: option('requestsPerMinute', '--requests-per-minute', rate, before.requestsPerMinute),
    tokensPerMinute: option('tokensPerMinute', '--tokens-per-minute', rate, before.tokensPerMinute),
    networks: option('networks', '--networks', networkList, before.networks),
  }
}

function rate(flag: string, text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw usageFault(`${flag} takes a whole number from 1 to 999999999, or none, not ${JSON.stringify(text)}`)
}

function modelList(flag: string, text: string): readonly string[] {
  const models = listOf(text)
  const wrong = models.find((id) => id !== '*' && !/^[^/\s]+\/\S+$/.test(id))
  if (wrong === undefined && models.length > 0) return models
  throw usageFault(`${flag} takes ids such as openai/gpt-5 or openai/*, not ${JSON.stringify(wrong ?? text)}`)
}

/** Comma-separated addresses and ranges. Throws CommandFailure for an invalid one. */
export function networkList(flag: string, text: string): readonly string[] {
  const networks = listOf(text)
  const wrong = networks.find((network) => !isNetwork(network))
  if (wrong === undefined && networks.length > 0) return networks
  throw usageFault(
    `${flag} takes addresses or ranges such as 10.0.0.0/8, not ${JSON.stringify(wrong ?? text)}`,
  )
}

function listOf(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean)
}
