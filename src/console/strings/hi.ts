// Hindi. Strings that are missing here are shown in English.

import { calls } from './hi/calls.ts'
import { chat } from './hi/chat.ts'
import { rest } from './hi/rest.ts'
import { start } from './hi/start.ts'

/** The parts by area. No two have the same string. */
export const parts = [start, chat, calls, rest] as const

export const hi: Readonly<Record<string, string>> = Object.assign({}, ...parts)
