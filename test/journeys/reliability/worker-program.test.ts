// An upgrade puts a new program into the place of one that still runs: its workers stay of its own version.

import { expect, test } from 'bun:test'
import { copyFileSync, renameSync, writeFileSync } from 'node:fs'
import { eventually, post } from '../../support/call-gateway.ts'
import { startWeir, weirCommand } from '../../support/run-weir.ts'
import { tempDir } from '../../support/tmp.ts'

test('a worker that dies is replaced by the program that runs, not by the one that has taken its place', async () => {
  using home = tempDir()
  const [program, ...script] = weirCommand
  const installed = home.join('weir')
  copyFileSync(program!, installed)
  await using weir = await startWeir({ command: [installed, ...script], args: ['--workers', '2'] })
  const served = () =>
    [...weir.output().matchAll(/"a worker serves"[^\n]*"pid":(\d+)/g)].map(([, pid]) => pid)
  const [first] = await eventually(
    async () => served(),
    (pids) => pids.length === 2,
  )
  writeFileSync(home.join('newer'), '#!/bin/sh\nexit 3\n', { mode: 0o755 })
  renameSync(home.join('newer'), installed)
  process.kill(Number(first), 'SIGKILL')
  const pids = await eventually(
    async () => served(),
    (now) => now.length === 3,
  )
  expect(pids).toHaveLength(3)
  expect(weir.output()).not.toContain('exit code 3')
  const answer = await post(weir, { model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] })
  expect(answer).toMatchObject({ status: 200, content: 'Hello' })
}, 30_000)
