// What ends a gateway, what does not, and what it says when it cannot listen.

import { expect, test } from 'bun:test'
import { closeSync, openSync } from 'node:fs'
import { listenFault } from '../../src/serve/listen.ts'
import { eventually, expectPrinted, post } from '../support/call-gateway.ts'
import { freePort, startWeir, weirCommand } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'

test('a terminal that is closed does not end the gateway', async () => {
  await using weir = await startWeir()
  process.kill(weir.pid, 'SIGHUP')
  await expectPrinted(weir, 'the configuration was read again')
  const answer = await post(weir, { model: 'sim/echo', messages: [{ role: 'user', content: 'Still here?' }] })
  expect(answer).toMatchObject({ status: 200, content: 'Still here?' })
  expect(await weir.stop()).toBe(0)
}, 30_000)

const thrown = (code: string, message: string) => Object.assign(new Error(message), { code })

test.each([
  [
    80,
    thrown('EACCES', 'permission denied 0.0.0.0:80'),
    /0\.0\.0\.0:80 .*not permitted: ports below 1024 need/,
  ],
  [8787, thrown('EACCES', 'permission denied 0.0.0.0:8787'), /not permitted$/],
  [80, thrown('EADDRINUSE', 'Failed to start server.'), /another program uses the port/],
])('that port %p cannot be listened on is explained', (port, cause, words) => {
  expect(listenFault({ host: '0.0.0.0', port }, cause).message).toMatch(words)
  expect(listenFault({ host: '::1', port }, cause).message).toStartWith(`cannot listen on [::1]:${port} (`)
})

test('a reader of the banner that has gone does not end the gateway', async () => {
  using home = tempDir()
  const port = await freePort()
  const [program, ...script] = weirCommand
  const child = Bun.spawn(['sh', '-c', 'exec "$0" "$@" > /dev/full', program!, ...script, 'serve'], {
    cwd: home.path,
    env: { WEIR_PORT: String(port), WEIR_LOCAL_SERVERS_DISCOVER: 'no' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ready = async () => (await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined))?.status
  expect(await eventually(ready, (status) => status === 200)).toBe(200)
  child.kill('SIGTERM')
  expect(await child.exited).toBe(0)
  expect(await new Response(child.stderr).text()).toContain('the banner could not be written')
}, 30_000)

test('a command whose output has no room says so', async () => {
  const [program, ...script] = weirCommand
  const shell = ['sh', '-c', 'exec "$0" "$@" > /dev/full', program!, ...script, 'version']
  const { exitCode, stderr } = Bun.spawnSync(shell, { env: {} })
  expect(exitCode).toBe(1)
  expect(stderr.toString()).toContain('standard output cannot be written')
})

interface StartFacts {
  readonly base_url: string
  readonly owner: { readonly key: string }
}

test('a reader of the log that hangs does not keep a gateway from ending', async () => {
  using home = tempDir()
  const pipe = home.join('log')
  expect(Bun.spawnSync(['mkfifo', pipe]).exitCode).toBe(0)
  // Open for reading and writing, so that opening it waits for nobody. It is never read.
  const log = openSync(pipe, 'r+')
  try {
    const data = home.join('data')
    const child = Bun.spawn([...weirCommand, 'serve', '--port', '0', '--data-dir', data, '--json'], {
      cwd: home.path,
      env: { PATH: process.env['PATH'] ?? '', WEIR_LOCAL_SERVERS_DISCOVER: 'no' },
      stdio: ['ignore', 'pipe', log],
    })
    const reader = child.stdout.getReader()
    const facts = JSON.parse(new TextDecoder().decode((await reader.read()).value)) as StartFacts
    const call = { method: 'POST', body: '{"model":"x/none","messages":[{"role":"user","content":"Hello"}]}' }
    const headers = { authorization: `Bearer ${facts.owner.key}`, 'content-type': 'application/json' }
    // More lines than a pipe holds.
    for (let round = 0; round < 20; round++)
      await Promise.all(
        Array.from({ length: 20 }, async () =>
          (await fetch(`${facts.base_url}/chat/completions`, { ...call, headers })).text(),
        ),
      )
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
  } finally {
    closeSync(log)
  }
}, 30_000)
