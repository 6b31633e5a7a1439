// One server to a data directory: a second one says whose it is, and a killed one leaves nothing held.

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { startWeir, weirCommand } from '../../support/run-weir.ts'
import { tempDir } from '../../support/tmp.ts'

const hang = JSON.stringify({ model: 'sim/hang', messages: [{ role: 'user', content: 'wait' }] })

function openCalls(dataDir: string): number {
  const database = new Database(join(dataDir, 'weir.db'), { readonly: true })
  try {
    return database.query<{ n: number }, []>('SELECT count(*) AS n FROM open_call').get()!.n
  } finally {
    database.close()
  }
}

async function until(holds: () => boolean, ms: number): Promise<boolean> {
  const deadline = performance.now() + ms
  while (!holds() && performance.now() < deadline) await Bun.sleep(20)
  return holds()
}

test('a second server on a data directory is refused with the first one’s process id; what a killed one held is free at the next start', async () => {
  using home = tempDir()
  const dataDir = home.join('data')
  const first = await startWeir({ dataDir })
  const headers = {
    authorization: `Bearer ${first.key}`,
    'content-type': 'application/json',
    'idempotency-key': 'one',
  }
  const post = (origin: string) =>
    fetch(`${origin}/v1/chat/completions`, { method: 'POST', headers, body: hang })
  const cut = post(first.origin).catch(() => undefined)
  expect(await until(() => openCalls(dataDir) === 1, 5_000)).toBe(true)

  const second = Bun.spawn([...weirCommand, 'serve', '--port', '0', '--data-dir', dataDir], {
    cwd: home.path,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  expect(await new Response(second.stderr).text()).toContain(`process ${first.pid} serves ${dataDir} already`)
  expect(await second.exited).toBe(1)
  const granted = await first.command(
    'credits',
    'grant',
    '--account',
    'owner@localhost',
    '--pool',
    'purchased',
    '--usd',
    '1',
  )
  expect(granted.code).toBe(0)
  expect(openCalls(dataDir)).toBe(1)

  await first.kill()
  await cut
  await using third = await startWeir({ dataDir })
  expect(openCalls(dataDir)).toBe(0)
  // The key of the call that died with its process is free: its second try runs, and is not "in progress".
  const again = new AbortController()
  const retried = fetch(`${third.origin}/v1/chat/completions`, {
    method: 'POST',
    headers,
    body: hang,
    signal: again.signal,
  }).catch(() => undefined)
  expect(await until(() => openCalls(dataDir) === 1, 5_000)).toBe(true)
  again.abort()
  await retried
  // With its key the call goes on without its client, and would hold up the end of its server.
  await third.kill()
}, 60_000)
