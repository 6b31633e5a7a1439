// Work that is waited for only so long.

import { describe, expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { settledWithin } from '../src/async/async.ts'

const source = resolve(import.meta.dir, '../src/async/async.ts')
const never = new Promise<never>(() => undefined)

describe('what is waited for only so long', () => {
  test('is not waited for longer, and may fail or not be there', async () => {
    expect(await settledWithin(1, never)).toBeUndefined()
    expect(await settledWithin(60_000, Promise.reject(new Error('of the work')))).toBeUndefined()
    expect(await settledWithin(60_000, undefined)).toBeUndefined()
  })

  test('does not keep a process that has nothing else to do', async () => {
    const script = `
      import { settledWithin } from ${JSON.stringify(source)}
      await settledWithin(3_600_000, Promise.resolve())`
    const child = Bun.spawn([process.execPath, '-e', script], { stdio: ['ignore', 'ignore', 'inherit'] })
    expect(await child.exited).toBe(0)
  })
})
