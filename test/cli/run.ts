// Runs command lines inside the test's process, on a data directory and a clock of their own.

import { expect } from 'bun:test'
import { runCli } from '../../src/cli/program.ts'

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

export interface Machine {
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
  readonly now?: number
  /** Whether a person reads the output. */
  readonly terminal?: boolean
  /** What stands on standard input. */
  readonly input?: string
}

export const moment = Date.UTC(2026, 10, 21, 12)

/** Runs one command line in the folder `cwd`, where the data directory is `weir-data`. */
export async function run(
  { cwd, env = {}, now = moment, terminal = false, input = '' }: Machine,
  ...argv: string[]
): Promise<Ran> {
  const ran = { out: '', err: '' }
  const code = await runCli(argv, {
    out: (text) => void (ran.out += text),
    err: (text) => void (ran.err += text),
    cwd,
    terminal,
    clock: () => now,
    environment: async () => env,
    input: async () => input,
  })
  return { code, ...ran }
}

/** Runs a command with --json that must succeed, and gives what it printed. */
export async function json(machine: Machine, ...argv: string[]): Promise<unknown> {
  const { code, out, err } = await run(machine, ...argv, '--json')
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out.endsWith('\n') && !out.trimEnd().includes('\n')).toBe(true)
  return JSON.parse(out)
}
