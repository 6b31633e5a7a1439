// The whole way of an account holder, in a browser, with no network at all.

import { describe, expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { browserPath } from '../support/browser.ts'

const journey = resolve(import.meta.dir, 'whole-journey-child.ts')
/** A network with nothing in it but this machine's own addresses. */
const closed = ['unshare', '--map-root-user', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh']
const canClose = Bun.spawnSync([...closed, 'true'], { stdout: 'ignore', stderr: 'ignore' }).success

describe.skipIf(browserPath === null || !canClose)('with the network closed', () => {
  test('sign-up by invitation, passkey, key, first call, refusal explained, chat, usage, revocation', async () => {
    const child = Bun.spawn([...closed, process.execPath, journey], { stdout: 'pipe', stderr: 'pipe' })
    const [stdout, stderr] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ])
    expect({ code: await child.exited, stderr }).toEqual({ code: 0, stderr: '' })
    const observed = JSON.parse(stdout) as Record<string, unknown>
    expect(observed).toEqual({
      address: '/console/welcome',
      first: 'Over the weir',
      second: '403 key_limit_exceeded',
      fired: expect.stringContaining('key_limit_exceeded'),
      act: expect.stringContaining('raise the limit of the key'),
      paid: expect.stringMatching(/^\$0\.\d+\s+Welcome/),
      usage: ['sim/echo 2', 'sim/premium 1'],
      effect: expect.stringMatching(/It took effect at \w+ \d+, 20\d\d/),
      last: '401 api_key_revoked',
      refusedAfterMs: expect.any(Number),
      outside: expect.stringMatching(/ENETUNREACH|EHOSTUNREACH/),
      foreign: [],
      complaints: [],
    })
    expect(Number(observed['refusedAfterMs'])).toBeLessThan(1_000)
  }, 90_000)
})
