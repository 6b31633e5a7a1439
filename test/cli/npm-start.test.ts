// `npm start` is the gateway: it answers, and ends when npm is asked to end.

import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { freePort } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'

const root = resolve(import.meta.dir, '../..')

/** Reads from a stream until the text is there. Throws when it ends before. */
async function readUntil(stream: ReadableStream<Uint8Array>, text: string): Promise<void> {
  let read = ''
  for await (const bytes of stream) {
    read += new TextDecoder().decode(bytes)
    if (read.includes(text)) return
  }
  throw new Error(`it ended without ${text}:\n${read}`)
}

// npm, Node.js and the gateway start one after the other: 1 s on an idle machine.
test('npm start serves, and SIGTERM to npm ends the gateway', async () => {
  using home = tempDir()
  const port = await freePort()
  const env = { ...process.env, WEIR_PORT: String(port), WEIR_DATA_DIR: home.join('data') }
  const npm = Bun.spawn(['npm', 'start', '--silent'], { cwd: root, env, stdout: 'pipe', stderr: 'ignore' })
  const health = () => fetch(`http://127.0.0.1:${port}/healthz`)
  try {
    await readUntil(npm.stdout, `http://127.0.0.1:${port}/v1`)
    expect(await (await health()).json()).toMatchObject({ status: 'ok' })
  } finally {
    npm.kill('SIGTERM')
  }
  await npm.exited
  // npm ends with its shell; the launcher notices within a moment, and the gateway closes its database.
  while (
    await health().then(
      () => true,
      () => false,
    )
  )
    await Bun.sleep(20)
}, 30_000)

test('a program that is no part of it is named', async () => {
  const run = Bun.spawn(['node', '.run/run.mjs', 'strat'], { cwd: root, stdout: 'pipe', stderr: 'pipe' })
  expect(await new Response(run.stderr).text()).toBe(
    'weir: node .run/run.mjs start | test | bun <arguments>\n',
  )
  expect(await run.exited).toBe(2)
})

test('the exit code and the output of what it runs are its own', async () => {
  const script = 'console.log(process.argv.at(-1)); process.exit(7)'
  const run = Bun.spawn(['node', '.run/run.mjs', 'bun', '-e', script, 'said'], { cwd: root, stdout: 'pipe' })
  expect(await new Response(run.stdout).text()).toBe('said\n')
  expect(await run.exited).toBe(7)
})
