// An operator backs a running gateway up, loses it, and serves again from the backup.

import { expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { postAs } from '../../support/call-gateway.ts'
import type { CommandResult } from '../../support/run-inside.ts'
import { runWeir, type RunningWeir, startWeir } from '../../support/run-weir.ts'
import { tempDir } from '../../support/tmp.ts'

async function ask(weir: RunningWeir, key: string): Promise<{ status: number; id: string }> {
  const response = await postAs(`${weir.baseUrl}/chat/completions`, key, {
    model: 'sim/echo',
    messages: [{ role: 'user', content: 'Hello' }],
    max_tokens: 9,
  })
  await response.text()
  return { status: response.status, id: response.headers.get('x-request-id') ?? '' }
}

async function receipt(weir: RunningWeir, key: string, id: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}` }
  return (await fetch(`${weir.baseUrl}/generation?id=${id}`, { headers })).status
}

function printed(result: CommandResult): Record<string, unknown> {
  expect(result).toMatchObject({ code: 0, stderr: '' })
  return JSON.parse(result.stdout) as Record<string, unknown>
}

test('G17: backup beside calls, restore elsewhere: the same head, the same receipts, the same keys', async () => {
  using dir = tempDir('weir-journey-')
  const file = dir.join('weir.backup')
  const first = await startWeir({ dataDir: dir.join('first') })
  const { key } = first
  const kept = await ask(first, key)
  const answers = Array.from({ length: 20 }, () => ask(first, key))
  const backup = printed(await first.command('backup', file, '--json'))
  expect(backup).toMatchObject({ file, ok: true })
  expect((await Promise.all(answers)).every(({ status }) => status === 200)).toBe(true)
  expect(await first.command('backup', file)).toMatchObject({ code: 1, stdout: '' })

  // A server lives on this data directory, so even --force is refused, and nothing happens to it.
  const refused = await first.command('restore', file, '--force')
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toContain('a server runs')
  expect((await ask(first, key)).status).toBe(200)
  await first.kill()

  const second = dir.join('second')
  const restored = printed(
    await runWeir(['restore', file, '--data-dir', second, '--json'], { cwd: dir.path }),
  )
  expect(restored).toMatchObject({ head_hash: backup['head_hash'], moved_aside: null })
  const audit = printed(await runWeir(['ledger', 'audit', '--data-dir', second, '--json'], { cwd: dir.path }))
  expect(audit).toMatchObject({ ok: true, head_hash: backup['head_hash'] })
  await using weir = await startWeir({ dataDir: second })
  expect((await ask(weir, key)).status).toBe(200)
  expect(await receipt(weir, key, kept.id)).toBe(200)
}, 40_000)

test('a backup that is spoilt leaves the data directory as it is', async () => {
  using dir = tempDir('weir-journey-')
  const file = dir.join('spoilt')
  writeFileSync(file, 'no backup')
  const restored = await runWeir(['restore', file, '--data-dir', dir.join('data')], { cwd: dir.path })
  expect(restored).toMatchObject({ code: 1, stdout: '' })
  expect(restored.stderr).toContain('cannot be copied')
  expect(existsSync(join(dir.path, 'data', 'weir.db'))).toBe(false)
  expect((await runWeir(['restore'], { cwd: dir.path })).code).toBe(2)
}, 20_000)
