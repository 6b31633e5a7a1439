// The command line as a process: streams, exit codes, and how little a small command loads.

import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Database } from 'bun:sqlite'
import { openStore } from '../../src/store/open.ts'
import { databasePath } from '../../src/store/sqlite/database/sqlite.ts'
import { runWeir, weirCommand } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'

test('version prints one line and ends with 0', async () => {
  expect(await runWeir(['version'])).toEqual({
    code: 0,
    stdout: expect.stringMatching(/^weir \d+\.\d+\.\d+\n$/),
    stderr: '',
  })
})

test('a wrong option ends with 2, on standard error only', async () => {
  expect(await runWeir(['models', '--nonsense'])).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining('--nonsense'),
  })
})

test('a bad configuration ends with 78 and all its faults', async () => {
  using home = tempDir()
  writeFileSync(home.join('weir.yaml'), 'a: 1\nb: 2\n')
  const ran = await runWeir(['serve'], { cwd: home.path })
  expect(ran).toMatchObject({ code: 78, stdout: '' })
  expect(ran.stderr).toContain('weir.yaml:1: a: unknown key')
  expect(ran.stderr).toContain('weir.yaml:2: b: unknown key')
})

test('machine output is alone on standard output while a warning goes to standard error', async () => {
  using home = tempDir()
  const env = { PATH: '', HOME: home.path, WEIR_SERVER_PROT: '1' }
  const ran = await runWeir(['models', 'none-like-this', '--json'], { cwd: home.path, env })
  expect(ran).toMatchObject({ code: 0, stdout: '[]\n', stderr: expect.stringContaining('WEIR_SERVER_PROT') })
})

test.each(['127.0.0.1', '999.1.1.1'])('an address that cannot be listened on, %p, is named', async (host) => {
  using home = tempDir()
  const other = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('') })
  try {
    const ran = await runWeir(['serve', '--host', host, '--port', String(other.port)], { cwd: home.path })
    expect(ran).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining(`weir: cannot listen on ${host}:${other.port} (`),
    })
  } finally {
    await other.stop()
  }
})

test('a first run that cannot be written ends, and serves nobody', async () => {
  using home = tempDir()
  const data = home.join('data')
  const other = await openStore(data, { clock: Date.now })
  const writer = new Database(databasePath(data))
  writer.run('BEGIN IMMEDIATE')
  try {
    const ran = await runWeir(['serve', '--port', '0', '--data-dir', data], { cwd: home.path })
    expect(ran).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('cannot be used') })
  } finally {
    writer.close()
    await other.close()
  }
}, 20_000)

test('a disk without room for the ends of calls is named, and the room that there is stays free', async () => {
  using home = tempDir()
  const data = home.join('data')
  // No file may grow beyond a megabyte or two: a write that crosses the bound is cut short, as on a disk that fills up.
  const command = ['sh', '-c', 'ulimit -f 2048; exec "$@"', 'sh', ...weirCommand, 'serve', '--port', '0']
  const child = Bun.spawn([...command, '--data-dir', data], {
    cwd: home.path,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  expect(await new Response(child.stderr).text()).toContain('the disk has no room for')
  expect(await child.exited).toBe(1)
  expect(Bun.file(join(data, 'settles.spill')).size).toBe(0)
}, 20_000)

test('doctor finds a disk that takes nothing more', async () => {
  using home = tempDir()
  const data = home.join('data')
  // The log that this leaves open is longer than any file may become below.
  const store = await openStore(data, { clock: Date.now })
  try {
    const command = ['sh', '-c', 'ulimit -f 1; exec "$@"', 'sh', ...weirCommand, 'doctor', '--data-dir', data]
    const child = Bun.spawn(command, { cwd: home.path, stdout: 'pipe', stderr: 'pipe' })
    expect(await new Response(child.stderr).text()).toBe('weir: database: cannot be written\n')
    expect(await child.exited).toBe(1)
  } finally {
    await store.close()
  }
}, 20_000)

test('a reader that has seen enough is no failure', async () => {
  const main = resolve(import.meta.dir, '../../src/main.ts')
  const shell = Bun.spawn(['sh', '-c', `"$0" "$1" models; echo "code $?" >&2`, process.execPath, main], {
    stdout: 'pipe',
    stderr: 'pipe',
    cwd: '/',
  })
  await shell.stdout.cancel()
  expect(await new Response(shell.stderr).text()).toBe('code 0\n')
})

test('the command line itself loads neither configuration nor database', async () => {
  const program = resolve(import.meta.dir, '../../src/cli/program.ts')
  const script = `await import(${JSON.stringify(program)}); console.log(Object.keys(require.cache).join('\\n'))`
  const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe', stderr: 'inherit' })
  const loaded = (await new Response(child.stdout).text()).split('\n')
  const own = loaded.filter((path) => path.includes('/src/'))
  const paths = own.map((path) => path.slice(path.indexOf('/src/')))
  expect(paths).toContain('/src/cli/program.ts')
  // The names of commands, events and pools, and nothing of what they do.
  const isNaming = /^\/src\/(cli\/[a-z-]+|notify\/events|credits\/pool)\.ts$/
  expect(paths.filter((path) => !isNaming.test(path))).toEqual([])
})

test('doctor asks the search and reads a page, whose reader the executable finds', async () => {
  using home = tempDir()
  const env = {
    PATH: '',
    HOME: home.path,
    WEIR_LOCAL_SERVERS_DISCOVER: 'no',
    WEIR_SEARCH_BACKEND: 'sim',
  }
  const { stdout } = await runWeir(['doctor', '--json'], { cwd: home.path, env })
  const { findings } = JSON.parse(stdout) as { findings: { check: string; state: string }[] }
  const found = findings.filter(({ check }) => check === 'web search' || check === 'open_page')
  expect(found).toMatchObject([{ state: 'ok' }, { state: 'ok' }])
})
