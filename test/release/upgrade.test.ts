// weir upgrade, by the executable itself: it takes what is signed and nothing else, keeps the ledger and the former program,
// and leaves everything as it was when something is wrong.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { installerOf } from '../../src/cli/commands/upgrade.ts'
import { gzip, tarOf } from '../../src/release/archive.ts'
import { readSecretKey, signatureOf } from '../../src/release/minisign.ts'
import { schemaVersion } from '../../src/store/sqlite/database/sqlite.ts'
import { version } from '../../src/version.ts'
import { tempDir } from '../support/tmp.ts'
import { run } from '../cli/run.ts'

const fixtures = resolve(import.meta.dir, '../fixtures/release')
const key = readSecretKey(readFileSync(join(fixtures, 'test.key'), 'utf8'), undefined)
const publicFile = join(fixtures, 'test.pub')
const built = resolve(import.meta.dir, '../../dist/weir')
const target = `${process.platform}-${process.arch}`

interface Made {
  readonly version: string
  /** What its program says of itself; without it, what the release says. */
  readonly says?: string
  readonly schema?: number
}

/** A release whose program is a script, in a folder. */
function releaseIn(folder: string, { version: of, says, schema = schemaVersion }: Made): string {
  mkdirSync(folder, { recursive: true })
  const script = `#!/bin/sh\necho '${says ?? JSON.stringify({ version: of, schema })}'\n`
  const name = `weir-${of}-${target}`
  const program = { kind: 'file', path: `${name}/weir`, mode: 0o755, bytes: Buffer.from(script) } as const
  const archive = gzip(tarOf([program], 1))
  const files = { name: `${name}.tar.gz`, kind: 'archive', target, bytes: archive.length }
  const index = Buffer.from(JSON.stringify({ version: of, commit: 'c', schema, files: [files] }))
  const line = (bytes: Buffer, file: string) =>
    `${createHash('sha256').update(bytes).digest('hex')}  ${file}\n`
  const sums = `${line(index, 'release.json')}${line(archive, `${name}.tar.gz`)}`
  writeFileSync(join(folder, `${name}.tar.gz`), archive)
  writeFileSync(join(folder, 'release.json'), index)
  writeFileSync(join(folder, 'SHA256SUMS'), sums)
  writeFileSync(join(folder, 'SHA256SUMS.minisig'), signatureOf(Buffer.from(sums), key, `weir ${of}`))
  return folder
}

const dir = tempDir('weir-upgrade-')
afterAll(() => dir.remove())

test.each([
  [
    '/usr/bin/weir',
    { '/usr/share/weir/installed-by': 'a Debian package: apt upgrade\n' },
    {},
    'a Debian package: apt upgrade',
  ],
  ['/weir', { '/share/weir/installed-by': 'a container image\n' }, {}, 'a container image'],
  ['/srv/app/node_modules/weir-linux-x64/bin/weir', {}, {}, 'npm'],
  ['/opt/homebrew/Cellar/weir/0.1.0/bin/weir', {}, {}, 'Homebrew'],
  ['/nix/store/abc-weir/bin/weir', {}, {}, 'Nix'],
  ['/opt/weir', { '/.dockerenv': '' }, {}, 'container'],
  ['/opt/weir', { '/run/.containerenv': '' }, {}, 'container'],
  ['/opt/weir', {}, { KUBERNETES_SERVICE_HOST: '10.0.0.1' }, 'container'],
  ['/usr/local/bin/weir', {}, {}, undefined],
] as [string, Record<string, string>, Record<string, string>, string | undefined][])(
  '%s with %p and %p is left to what put it there: %p',
  (executable, files, env, installer) => {
    const found = installerOf(executable, env, (path) => files[path])
    if (installer === undefined) expect(found).toBeUndefined()
    else expect(found).toContain(installer)
  },
)

test('the program run from its source is left to git', async () => {
  expect(await run({ cwd: dir.path }, 'upgrade', '--from', 'x')).toMatchObject({
    code: 1,
    err: expect.stringContaining('from its source'),
  })
})

describe.if(existsSync(built) && process.platform === 'linux')('the executable', () => {
  const home = dir.join('home')
  const program = join(home, 'weir')
  const data = join(home, 'weir-data')

  async function weir(...words: string[]) {
    const env = { PATH: process.env['PATH'] ?? '', HOME: home, WEIR_LOCAL_SERVERS_DISCOVER: 'false' }
    const child = Bun.spawn([program, ...words], {
      cwd: home,
      env,
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    const [out, err] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ])
    return { code: await child.exited, out, err }
  }
  /** Where a container runs the tests, it is no reason. */
  const upgrade = (from: string, ...words: string[]) =>
    weir('upgrade', '--from', from, '--key', publicFile, '--force', ...words)
  const filesBeside = () => readdirSync(home).toSorted()
  const copies = () => readdirSync(data).filter((name) => name.startsWith('weir-before-'))

  beforeAll(async () => {
    mkdirSync(home)
    copyFileSync(built, program)
    expect((await weir('accounts', 'create', '--email', 'a@example.org')).code).toBe(0)
  }, 60_000)

  test('says what is there, and changes nothing', async () => {
    const from = releaseIn(dir.join('newer'), { version: '9.8.7' })
    const looked = await upgrade(from, '--check', '--json')
    expect(looked).toMatchObject({ code: 0, err: '' })
    expect(JSON.parse(looked.out)).toEqual({ current: version, available: '9.8.7', newer: true })
    const same = await upgrade(releaseIn(dir.join('same'), { version }))
    expect(same).toMatchObject({ code: 0, out: expect.stringContaining('the version of the release') })
    expect(filesBeside()).toEqual(['weir', 'weir-data'])
    expect(copies()).toEqual([])
  })

  test.each([
    ['an older one', () => releaseIn(dir.join('older'), { version: '0.0.1' }), 'older than this'],
    [
      'one that another key has signed',
      () => {
        const folder = releaseIn(dir.join('other-key'), { version: '9.8.7' })
        // Of another file, by the right key, and then with the name of another key.
        const other = Buffer.from(
          readFileSync(join(folder, 'SHA256SUMS.minisig'), 'utf8').split('\n')[1]!,
          'base64',
        )
        other[3] = other[3]! ^ 1
        const lines = readFileSync(join(folder, 'SHA256SUMS.minisig'), 'utf8').split('\n')
        writeFileSync(
          join(folder, 'SHA256SUMS.minisig'),
          [lines[0], other.toString('base64'), ...lines.slice(2)].join('\n'),
        )
        return folder
      },
      'another key',
    ],
    [
      'one whose list was changed',
      () => {
        const folder = releaseIn(dir.join('changed-list'), { version: '9.8.7' })
        writeFileSync(join(folder, 'SHA256SUMS'), `${readFileSync(join(folder, 'SHA256SUMS'), 'utf8')}\n`)
        return folder
      },
      'does not hold',
    ],
    [
      'one whose archive was changed',
      () => {
        const folder = releaseIn(dir.join('changed'), { version: '9.8.7' })
        writeFileSync(join(folder, `weir-9.8.7-${target}.tar.gz`), 'x')
        return folder
      },
      'is not what SHA256SUMS says',
    ],
    [
      'one without a signature',
      () => {
        const folder = releaseIn(dir.join('unsigned'), { version: '9.8.7' })
        rmSync(join(folder, 'SHA256SUMS.minisig'))
        return folder
      },
      'there is no',
    ],
    [
      'a program that does not start',
      () => releaseIn(dir.join('dead'), { version: '9.8.7', says: 'Illegal instruction' }),
      'does not start here',
    ],
    [
      'a program of another version',
      () =>
        releaseIn(dir.join('lies'), {
          version: '9.8.7',
          says: JSON.stringify({ version: '9.8.6', schema: 99 }),
        }),
      'says that it is 9.8.6',
    ],
    [
      'one that does not know this database',
      () => releaseIn(dir.join('blind'), { version: '9.8.7', schema: 3 }),
      'the database is of schema',
    ],
    ['no release', () => dir.join('nowhere'), 'there is no'],
  ])('refuses %s, and changes nothing', async (_, make, says) => {
    const before = statSync(program)
    const ran = await upgrade(make())
    expect(ran).toMatchObject({ code: 1, out: '' })
    expect(ran.err).toContain(says)
    expect(statSync(program)).toMatchObject({ ino: before.ino, size: before.size })
    expect(filesBeside()).toEqual(['weir', 'weir-data'])
    expect(copies()).toEqual([])
  })

  test('trusts no key but one that was named', async () => {
    const from = releaseIn(dir.join('newer'), { version: '9.8.7' })
    expect(await weir('upgrade', '--from', from, '--force')).toMatchObject({
      code: 2,
      err: expect.stringContaining('--key'),
    })
    expect((await weir('upgrade', '--from', from, '--key', 'nonsense')).code).toBe(2)
  })

  test('is replaced by what an address has, keeps the ledger and the former one, and comes back', async () => {
    const from = releaseIn(dir.join('newer'), { version: '9.8.7' })
    using server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: (request) => new Response(Bun.file(join(from, new URL(request.url).pathname.slice(1)))),
    })
    const former = statSync(program)
    const done = await upgrade(`http://127.0.0.1:${server.port}/`, '--json')
    expect(done).toMatchObject({ code: 0, err: '' })
    expect(JSON.parse(done.out)).toMatchObject({
      installed: '9.8.7',
      newer: true,
      previous: `${program}.previous`,
    })
    expect(filesBeside()).toEqual(['weir', 'weir-data', 'weir.previous'])
    expect(statSync(`${program}.previous`)).toMatchObject({ ino: former.ino })
    expect((await weir('version')).out).toContain('9.8.7')
    expect(copies()).toHaveLength(1)
    const restored = await run(
      { cwd: home },
      'restore',
      join(data, copies()[0]!),
      '--data-dir',
      dir.join('restored'),
    )
    expect(restored.code).toBe(0)

    // The script cannot go back; the former program can.
    copyFileSync(`${program}.previous`, join(home, 'again'))
    rmSync(program)
    copyFileSync(join(home, 'again'), program)
    rmSync(`${program}.previous`)
    rmSync(join(home, 'again'))
    expect(await weir('upgrade', '--rollback', '--force')).toMatchObject({
      code: 1,
      err: expect.stringContaining('nothing was upgraded'),
    })
    copyFileSync(built, `${program}.previous`)
    const back = await weir('upgrade', '--rollback', '--force', '--json')
    expect(back).toMatchObject({ code: 0, err: '' })
    expect(JSON.parse(back.out)).toMatchObject({ installed: version })
    expect(filesBeside()).toEqual(['weir', 'weir-data', 'weir.previous'])
    expect((await weir('version')).code).toBe(0)
  }, 60_000)
})
