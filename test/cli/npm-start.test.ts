// `npm start` is the gateway: it answers, and ends when npm is asked to end.

import { expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { freePort } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'

const root = resolve(import.meta.dir, '../..')

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    ({ ok }) => ok,
    () => false,
  )
}

/** Waits for something outside this process to be so; the runner's own limit ends a wait for nothing. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(20)
}

// npm, Node.js and the gateway start one after the other: 2 s on an idle machine.
test('npm start serves, and SIGTERM to npm ends the gateway', async () => {
  using home = tempDir()
  const port = await freePort()
  const env = { ...process.env, WEIR_PORT: String(port), WEIR_DATA_DIR: home.join('data') }
  const npm = Bun.spawn(['npm', 'start', '--silent'], { cwd: root, env, stdout: 'pipe', stderr: 'ignore' })
  try {
    await until(() => answers(`http://127.0.0.1:${port}/healthz`))
  } finally {
    npm.kill('SIGTERM')
  }
  await npm.exited
  await until(async () => !(await answers(`http://127.0.0.1:${port}/healthz`)))
  expect(await new Response(npm.stdout).text()).toContain(`http://127.0.0.1:${port}/v1`)
}, 30_000)

test('a program that is no part of it is named', async () => {
  const run = Bun.spawn(['node', 'run.mjs', 'strat'], { cwd: root, stdout: 'pipe', stderr: 'pipe' })
  expect(await new Response(run.stderr).text()).toBe('weir: node run.mjs start | test | bun <arguments>\n')
  expect(await run.exited).toBe(2)
})

test('the exit code and the output of what it runs are its own', async () => {
  const script = 'console.log(process.argv.at(-1)); process.exit(7)'
  const run = Bun.spawn(['node', 'run.mjs', 'bun', '-e', script, 'said'], { cwd: root, stdout: 'pipe' })
  expect(await new Response(run.stdout).text()).toBe('said\n')
  expect(await run.exited).toBe(7)
})
