// Hindi.

import { account, start } from './hi/account.ts'
import { calls, chat } from './hi/calls.ts'
import { credits } from './hi/credits.ts'
import { operator } from './hi/operator.ts'

/** The parts by area. No two have the same string. */
export const parts = [start, chat, calls, credits, account, operator] as const

export const hi: Readonly<Record<string, string>> = Object.assign({}, ...parts)
