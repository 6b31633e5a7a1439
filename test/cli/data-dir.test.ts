// A data directory that cannot be used, or holds something broken, is explained as what it is.

import { afterAll, describe, expect, test } from 'bun:test'
import {
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tempDir } from '../support/tmp.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { run } from './run.ts'

const dir = tempDir('weir-data-dir-')
afterAll(() => dir.remove())
const env = { WEIR_LOCAL_SERVERS_DISCOVER: 'false', HOME: dir.path }
const machine = (name: string) => {
  mkdirSync(dir.join(name), { recursive: true })
  return { cwd: dir.join(name), env }
}

test('one that may not be looked into is not taken for an empty one', async () => {
  const { cwd } = machine('loop')
  symlinkSync('weir-data', `${cwd}/weir-data`)
  const { code, err } = await run({ cwd, env }, 'accounts', 'list')
  expect(code).toBe(1)
  expect(err).toContain('cannot be used: ELOOP')
  expect(err).not.toContain('there is no database')
})

test('a file in its place holds no database', async () => {
  const { cwd } = machine('file')
  writeFileSync(`${cwd}/weir-data`, '')
  expect((await run({ cwd, env }, 'accounts', 'list')).err).toContain('there is no database')
})

describe('weir doctor', () => {
  test('names a damaged catalog beside all else that it finds', async () => {
    const at = machine('catalog')
    mkdirSync(`${at.cwd}/weir-data`)
    writeFileSync(`${at.cwd}/weir-data/catalog.json`, '{"date":')
    const { code, out } = await run(at, 'doctor', '--json')
    expect(code).toBe(1)
    const { findings } = JSON.parse(out) as { findings: { check: string; state: string; detail: string }[] }
    expect(findings.filter(({ state }) => state === 'bad')).toEqual([
      { check: 'catalog', state: 'bad', detail: expect.stringContaining('catalog.json is not JSON') },
    ])
    expect(findings.map(({ check }) => check)).toContainValues(['database', 'open_page'])
  })
})

test('weir healthcheck finds the server of its data directory, wherever it listens', async () => {
  await using weir = await serveWeir()
  const found = await weir.command('healthcheck', '--json')
  expect(found).toMatchObject({ code: 0 })
  expect(JSON.parse(found.stdout)).toEqual({ status: 'ready', url: `${weir.origin}/readyz` })
})

test.skipIf(process.getuid?.() !== 0)('what root makes in one of somebody else is theirs', async () => {
  const at = machine('service')
  mkdirSync(`${at.cwd}/weir-data`)
  chownSync(`${at.cwd}/weir-data`, 4321, 4322)
  writeFileSync(`${at.cwd}/elsewhere`, '')
  symlinkSync('../elsewhere', `${at.cwd}/weir-data/link`)
  linkSync(`${at.cwd}/elsewhere`, `${at.cwd}/weir-data/hard-link`)
  expect((await run(at, 'accounts', 'create', '--email', 'a@b.c')).code).toBe(0)
  expect((await run(at, 'backup', 'copy.db')).code).toBe(0)
  expect((await run(at, 'catalog', 'export', 'mine.json')).code).toBe(0)
  expect((await run(at, 'catalog', 'import', 'mine.json')).code).toBe(0)
  const owners = Object.fromEntries(
    readdirSync(`${at.cwd}/weir-data`).map((name) => [name, lstatSync(`${at.cwd}/weir-data/${name}`).uid]),
  )
  expect(owners).toMatchObject({ 'weir.db': 4321, 'ledger.anchors': 4321, 'catalog.json': 4321, link: 0 })
  expect([statSync(`${at.cwd}/elsewhere`).uid, statSync(`${at.cwd}/copy.db`).uid]).toEqual([0, 0])
})

test('one that an imported catalog makes is for its owner alone', async () => {
  const at = machine('import')
  expect((await run(at, 'catalog', 'export', 'mine.json')).code).toBe(0)
  expect((await run(at, 'catalog', 'import', 'mine.json')).code).toBe(0)
  expect(statSync(`${at.cwd}/weir-data`).mode & 0o777).toBe(0o700)
})

test('a catalog that has a model twice is not imported', async () => {
  const at = machine('twice')
  await run(at, 'catalog', 'export', 'mine.json')
  const mine = JSON.parse(readFileSync(`${at.cwd}/mine.json`, 'utf8')) as { models: { id: string }[] }
  const [first] = mine.models
  writeFileSync(
    `${at.cwd}/mine.json`,
    JSON.stringify({ ...mine, models: [...mine.models, { ...first, price: { input: '0', output: '0' } }] }),
  )
  const { code, err } = await run(at, 'catalog', 'import', 'mine.json')
  expect(code).toBe(1)
  expect(err).toContain(`has models twice: ${first!.id}`)
  expect(existsSync(`${at.cwd}/weir-data/catalog.json`)).toBe(false)
})
