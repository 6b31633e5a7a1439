// A release: the same each time it is made, signed, and installed by the tools of the systems that it is for.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { parse } from 'yaml'
import { type ArchiveEntry, fileInTar, textFile } from '../../src/release/archive.ts'
import { compile, targets } from '../../src/release/compile.ts'
import {
  readPublicKey,
  readSecretKey,
  releaseIndex,
  sumsIn,
  verifySignature,
} from '../../src/release/minisign.ts'
import { makeRelease, releaseNotes } from '../../src/release/release.ts'
import { tempDir } from '../support/tmp.ts'

const fixtures = resolve(import.meta.dir, '../fixtures/release')
const key = readSecretKey(readFileSync(join(fixtures, 'test.key'), 'utf8'), undefined)
const url = 'https://example.org/weir/v1.2.3'

/** Stands for the executable where only its packaging is looked at. */
const program = Buffer.from(
  '#!/bin/sh\nif [ "$1" = version ]; then echo "weir 1.2.3"; else echo "$@"; exit 7; fi\n',
)

async function made(out: string): Promise<readonly string[]> {
  return makeRelease({
    out,
    commit: 'a'.repeat(40),
    time: 1_790_000_000,
    version: '1.2.3',
    targets,
    executable: async () => program,
    libraries: async (arch): Promise<readonly ArchiveEntry[]> => [textFile(`lib/libc-${arch}.so`, arch)],
    key,
    url,
  })
}

const dir = tempDir('weir-release-')
const out = dir.join('release')
const read = (name: string) => readFileSync(join(out, name))
const textOf = (name: string) => read(name).toString('utf8')
let names: readonly string[] = []
beforeAll(async () => {
  names = await made(out)
}, 120_000)
afterAll(() => dir.remove())

async function run(command: readonly string[], options: { cwd?: string; env?: Record<string, string> } = {}) {
  const env = { PATH: process.env['PATH'] ?? '', ...options.env }
  const child = Bun.spawn([...command], { cwd: options.cwd ?? dir.path, env, stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, stdout, stderr }
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
/** A file of a packed archive. */
const fileIn = (archive: Uint8Array, path: string) => {
  const found = fileInTar(Bun.gunzipSync(Uint8Array.from(archive)), path)
  if (found === undefined) throw new Error(`there is no ${path}`)
  return Buffer.from(found)
}

test('has a program, a package of npm and a list for every platform', () => {
  for (const target of targets) {
    expect(names).toContain(`weir-1.2.3-${target}.tar.gz`)
    expect(names).toContain(`weir-npm-${target}-1.2.3.tgz`)
  }
  const more = [
    'weir_1.2.3_arm64.deb',
    'weir-1.2.3-1.aarch64.rpm',
    'weir-1.2.3-oci.tar',
    'weir.rb',
    'install.sh',
  ]
  expect(names).toEqual(
    expect.arrayContaining([...more, 'weir-helm-1.2.3.tgz', 'RELEASE-NOTES.md', 'weir.pub']),
  )
})

test('made twice has the same bytes', async () => {
  const second = dir.join('second')
  expect(await made(second)).toEqual(names)
  const differ = names.filter((name) => !read(name).equals(readFileSync(join(second, name))))
  expect(differ).toEqual([])
}, 120_000)

test('the executable inside is the same each time, wherever it is compiled to', async () => {
  const built = { commit: 'c'.repeat(40), releaseKey: textOf('weir.pub').split('\n')[1]! }
  const sums: string[] = []
  for (const folder of ['one', 'another-place']) {
    await compile(dir.join(folder, 'weir'), [], built)
    sums.push(sha256(readFileSync(dir.join(folder, 'weir'))))
  }
  expect(sums[0]).toBe(sums[1]!)
  const said = await run([dir.join('one', 'weir'), 'version', '--json'])
  expect(JSON.parse(said.stdout)).toMatchObject({ commit: built.commit })
}, 240_000)

test('its list names every file with its sum, and is signed', () => {
  const list = read('SHA256SUMS')
  const sums = sumsIn(list.toString('utf8'))
  expect([...sums.keys()].toSorted()).toEqual(names.filter((name) => !name.startsWith('SHA256SUMS')))
  for (const [name, sum] of sums) expect({ name, sum }).toEqual({ name, sum: sha256(read(name)) })
  const comment = verifySignature(list, textOf('SHA256SUMS.minisig'), readPublicKey(textOf('weir.pub')))
  expect(comment).toBe(`weir 1.2.3 ${'a'.repeat(40)} 2026-09-21T14:13:20.000Z`)
  const index = releaseIndex.parse(JSON.parse(textOf('release.json')))
  expect(index).toMatchObject({ version: '1.2.3', commit: 'a'.repeat(40) })
  expect(index.files.map(({ name }) => name).toSorted()).toEqual(
    [...sums.keys()].filter((name) => name !== 'release.json'),
  )
})

test('without a key it is the same but for the signature', async () => {
  const unsigned = dir.join('unsigned')
  const options = { commit: 'b', time: 1, version: '1.2.3', targets: ['linux-x64'] as const, key: undefined }
  const rest = { executable: async () => program, libraries: undefined, url: undefined }
  const few = await makeRelease({ out: unsigned, ...options, ...rest })
  expect(few).toContain('SHA256SUMS')
  // Nothing that would hold a wrong address or a missing sum.
  for (const name of ['SHA256SUMS.minisig', 'weir.pub', 'weir.rb', 'weir-1.2.3-oci.tar'])
    expect(few).not.toContain(name)
})

test('its bill of materials names every library of package.json, with licences and hashes', () => {
  const bill = JSON.parse(textOf('weir-1.2.3.cdx.json')) as {
    bomFormat: string
    specVersion: string
    components: { purl: string; licenses?: unknown; hashes?: unknown }[]
    dependencies: { ref: string; dependsOn: string[] }[]
  }
  expect(bill).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.6' })
  const { dependencies } = JSON.parse(
    readFileSync(resolve(import.meta.dir, '../../package.json'), 'utf8'),
  ) as {
    dependencies: Record<string, string>
  }
  const purls = bill.components.map(({ purl }) => purl)
  for (const [name, version] of Object.entries(dependencies))
    expect(purls).toContain(`pkg:npm/${name.replace('@', '%40')}@${version}`)
  expect(bill.components.filter(({ purl, licenses }) => purl && !licenses)).toEqual([])
  expect(bill.components.filter(({ purl, hashes }) => purl.startsWith('pkg:npm') && !hashes)).toEqual([])
  // Whatever is needed is there.
  const refs = new Set(bill.dependencies.map(({ ref }) => ref))
  const missing = bill.dependencies
    .flatMap(({ dependsOn }) => dependsOn)
    .filter((ref) => !refs.has(ref) && !ref.startsWith('pkg:generic/bun'))
  expect(missing).toEqual([])
  const notices = textOf('THIRD-PARTY-NOTICES.txt')
  for (const [name, version] of Object.entries(dependencies))
    expect(notices).toContain(`${name} ${version}, `)
})

test('its notes are those of the changelog', () => {
  expect(releaseNotes('0.1.0')).toMatch(/^# Weir 0\.1\.0\n\n- /)
  expect(releaseNotes('0.1.0')).not.toContain('##')
  // What has no section yet is what comes next.
  expect(textOf('RELEASE-NOTES.md')).toBe(releaseNotes('1.2.3'))
})

describe.if(Bun.which('dpkg') !== null && process.getuid?.() === 0)('the Debian package', () => {
  test('is installed, and removed, by dpkg', async () => {
    const root = dir.join('debian')
    for (const folder of ['var/lib/dpkg/info', 'var/lib/dpkg/updates', 'usr/bin'])
      mkdirSync(join(root, folder), { recursive: true })
    writeFileSync(join(root, 'var/lib/dpkg/status'), '')
    const arch = process.arch === 'x64' ? 'amd64' : 'arm64'
    // The scripts of the package run in a root of their own, which has no shell here.
    const dpkg = ['dpkg', '--root', root, '--force-script-chrootless', '--force-depends']
    const env = { DPKG_ROOT: root, PATH: `${fakeTools()}:${process.env['PATH']}` }
    const installed = await run([...dpkg, '--install', join(out, `weir_1.2.3_${arch}.deb`)], { env })
    expect({
      code: installed.code,
      err: installed.stderr.replaceAll(/^dpkg: .*$|^ .*$/gm, '').trim(),
    }).toEqual({ code: 0, err: '' })
    expect((await run([join(root, 'usr/bin/weir'), 'version'])).stdout).toBe('weir 1.2.3\n')
    expect(readFileSync(join(root, 'usr/share/weir/installed-by'), 'utf8')).toContain('apt')
    const unit = readFileSync(join(root, 'usr/lib/systemd/system/weir.service'), 'utf8')
    expect(unit).toContain('ExecStart=/usr/bin/weir serve --data-dir /var/lib/weir\n')
    expect(readFileSync(join(root, 'users'), 'utf8')).toContain('--system --user-group --no-create-home')
    const verified = await run(['dpkg', '--root', root, '--verify', 'weir'])
    expect(verified).toMatchObject({ code: 0, stdout: '' })
    const removed = await run([...dpkg, '--remove', 'weir'], { env })
    expect(removed.code).toBe(0)
    expect(existsSync(join(root, 'usr/bin/weir'))).toBe(false)

    /** Programs that the package's scripts call, which note what they were asked. */
    function fakeTools(): string {
      const tools = dir.join('tools')
      mkdirSync(tools, { recursive: true })
      const script = (name: string, text: string) => {
        writeFileSync(join(tools, name), `#!/bin/sh\n${text}\n`)
        chmodSync(join(tools, name), 0o755)
      }
      script('getent', 'exit 2')
      script('useradd', `echo "$@" >> "${root}/users"`)
      script('systemctl', 'exit 0')
      return tools
    }
  })
})

describe.if(Bun.which('rpm') !== null && process.getuid?.() === 0)('the RPM package', () => {
  test('is checked, installed and removed by rpm', async () => {
    const arch = process.arch === 'x64' ? 'x86_64' : 'aarch64'
    const file = join(out, `weir-1.2.3-1.${arch}.rpm`)
    const checked = await run(['rpm', '--checksig', '--verbose', file])
    expect(checked.stdout.match(/: OK$/gm)).toHaveLength(4)
    expect(checked.stdout).not.toMatch(/BAD|NOT OK/)
    const root = dir.join('rpm')
    mkdirSync(root)
    const rpm = ['rpm', '--root', root, '--nodeps', '--noscripts']
    expect(await run([...rpm, '--install', file])).toMatchObject({ code: 0 })
    expect((await run([join(root, 'usr/bin/weir'), 'version'])).stdout).toBe('weir 1.2.3\n')
    expect(await run(['rpm', '--root', root, '--verify', 'weir'])).toMatchObject({ code: 0, stdout: '' })
    expect((await run(['rpm', '--root', root, '--query', '--scripts', 'weir'])).stdout).toContain(
      'useradd --system',
    )
    expect(await run([...rpm, '--erase', 'weir'])).toMatchObject({ code: 0 })
    expect(existsSync(join(root, 'usr/bin/weir'))).toBe(false)
  })
})

describe('the container image', () => {
  const tar = () => read('weir-1.2.3-oci.tar')
  const blob = (digest: string) => {
    const bytes = fileInTar(tar(), `blobs/${digest.replace(':', '/')}`)
    if (bytes === undefined) throw new Error(`there is no ${digest}`)
    expect(`sha256:${sha256(bytes)}`).toBe(digest)
    return Buffer.from(bytes)
  }
  const json = (bytes: Uint8Array | undefined) => JSON.parse(Buffer.from(bytes!).toString('utf8'))

  test('is an OCI layout for both processors, and every digest is that of its blob', () => {
    expect(json(fileInTar(tar(), 'oci-layout'))).toEqual({ imageLayoutVersion: '1.0.0' })
    const [list] = json(fileInTar(tar(), 'index.json')).manifests
    const { manifests } = json(blob(list.digest))
    expect(manifests.map(({ platform }: { platform: unknown }) => platform)).toEqual([
      { architecture: 'amd64', os: 'linux' },
      { architecture: 'arm64', os: 'linux' },
    ])
    for (const { digest, platform } of manifests) {
      const manifest = json(blob(digest))
      const config = json(blob(manifest.config.digest))
      const layer = Bun.gunzipSync(Uint8Array.from(blob(manifest.layers[0].digest)))
      expect(config).toMatchObject({ os: 'linux', architecture: platform.architecture })
      expect(config.rootfs.diff_ids).toEqual([`sha256:${sha256(layer)}`])
      expect(Buffer.from(fileInTar(layer, 'weir')!).equals(program)).toBe(true)
      expect(
        fileInTar(layer, `lib/libc-${platform.architecture === 'amd64' ? 'x64' : 'arm64'}.so`),
      ).toBeDefined()
    }
  })

  test('is run as the Dockerfile says', () => {
    const [list] = json(fileInTar(tar(), 'index.json')).manifests
    const [first] = json(blob(list.digest)).manifests
    const { config } = json(blob(json(blob(first.digest)).config.digest))
    const dockerfile = readFileSync(resolve(import.meta.dir, '../../Dockerfile'), 'utf8').split(
      'FROM scratch',
    )[1]!
    const said = (name: string) => new RegExp(`^${name} (.*)$`, 'm').exec(dockerfile)![1]!
    expect(config.User).toBe(said('USER'))
    expect(config.WorkingDir).toBe(said('WORKDIR'))
    expect(config.Env.join(' ')).toBe(said('ENV'))
    expect(config.Entrypoint).toEqual(JSON.parse(said('ENTRYPOINT')))
    expect(config.Cmd).toEqual(JSON.parse(said('CMD')))
    expect(Object.keys(config.Volumes)).toEqual([said('VOLUME')])
    expect(config.Healthcheck.Test).toEqual(['CMD', ...JSON.parse(/CMD (\[.*\])$/m.exec(dockerfile)![1]!)])
  })
})

describe.if(Bun.which('node') !== null)('the package of npm', () => {
  const target = `${process.platform}-${process.arch}`

  function laid(): string {
    const modules = dir.join('npm', 'node_modules')
    for (const [name, file, paths] of [
      ['weir', 'weir-npm-1.2.3.tgz', ['package.json', 'bin/weir.cjs']],
      [`weir-${target}`, `weir-npm-${target}-1.2.3.tgz`, ['package.json', 'bin/weir']],
    ] as const) {
      for (const path of paths) {
        const to = join(modules, name, path)
        mkdirSync(resolve(to, '..'), { recursive: true })
        writeFileSync(to, fileIn(read(file), `package/${path}`))
        chmodSync(to, 0o755)
      }
    }
    mkdirSync(join(modules, '.bin'), { recursive: true })
    symlinkSync('../weir/bin/weir.cjs', join(modules, '.bin/weir'))
    return modules
  }

  test('starts the program of this platform, whose exit code is its own', async () => {
    const modules = laid()
    const weir = join(modules, '.bin/weir')
    expect(await run([weir, 'version'])).toEqual({ code: 0, stdout: 'weir 1.2.3\n', stderr: '' })
    expect(await run([weir, 'two', 'words'])).toMatchObject({ code: 7, stdout: 'two words\n' })
  })

  test('has one for each platform, and says so where there is none', async () => {
    const manifest = JSON.parse(fileIn(read('weir-npm-1.2.3.tgz'), 'package/package.json').toString()) as {
      optionalDependencies: Record<string, string>
    }
    expect(Object.keys(manifest.optionalDependencies)).toEqual(targets.map((one) => `weir-${one}`))
    const musl = JSON.parse(
      fileIn(read('weir-npm-linux-x64-musl-1.2.3.tgz'), 'package/package.json').toString(),
    )
    expect(musl).toMatchObject({ name: 'weir-linux-x64-musl', os: ['linux'], cpu: ['x64'], libc: ['musl'] })
    const windows = JSON.parse(
      fileIn(read('weir-npm-windows-x64-1.2.3.tgz'), 'package/package.json').toString(),
    )
    expect(windows).toMatchObject({ os: ['win32'] })
    const alone = dir.join('alone.cjs')
    writeFileSync(alone, fileIn(read('weir-npm-1.2.3.tgz'), 'package/bin/weir.cjs'))
    expect(await run(['node', alone, 'version'])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is not installed'),
    })
  })
})

test('the formula of Homebrew has the sums of its archives', async () => {
  const formula = textOf('weir.rb')
  const sums = sumsIn(textOf('SHA256SUMS'))
  const pairs = [...formula.matchAll(/url "(\S+)"\n\s+sha256 "(\w+)"/g)].map(
    ([, from, sum]) => [from!, sum!] as const,
  )
  expect(pairs).toHaveLength(4)
  for (const [from, sum] of pairs) {
    expect(from).toStartWith(`${url}/weir-1.2.3-`)
    expect(sums.get(from.slice(url.length + 1))).toBe(sum)
  }
  expect(formula).not.toContain('@')
})

describe('the chart of Helm', () => {
  const chart = (path: string) => fileIn(read('weir-helm-1.2.3.tgz'), `weir/${path}`).toString()

  test('names the released image by its digest', () => {
    expect(parse(chart('Chart.yaml'))).toMatchObject({ name: 'weir', version: '1.2.3', appVersion: '1.2.3' })
    const [list] = JSON.parse(
      Buffer.from(fileInTar(read('weir-1.2.3-oci.tar'), 'index.json')!).toString(),
    ).manifests
    expect(parse(chart('values.yaml'))).toMatchObject({ image: { tag: '1.2.3', digest: list.digest } })
    for (const name of ['statefulset', 'service', 'ingress', 'config'])
      expect(chart(`templates/${name}.yaml`)).toContain('kind: ')
  })

  test.if(Bun.which('helm') !== null)('is drawn by helm', async () => {
    const file = join(out, 'weir-helm-1.2.3.tgz')
    const words = ['--set', 'ingress.enabled=true,environmentSecret=keys,config.log.format=json']
    const drawn = await run(['helm', 'template', 'gate', file, ...words], { env: { HOME: dir.path } })
    expect({ code: drawn.code, err: drawn.stderr }).toEqual({ code: 0, err: '' })
    const parts = drawn.stdout.split(/^---$/m).flatMap((one) => parse(one) ?? [])
    const kinds = parts.map(({ kind }: { kind: string }) => kind).toSorted()
    expect(kinds).toEqual(['Ingress', 'Secret', 'Service', 'StatefulSet'])
    const { stringData } = parts.find(({ kind }: { kind: string }) => kind === 'Secret')
    expect(parse(stringData['weir.yaml'])).toMatchObject({ server: { port: 8787 }, log: { format: 'json' } })
  })
})

describe('install.sh', () => {
  const target = `${process.platform}-${process.arch}`
  const home = () => {
    const path = dir.join(`home-${Math.random().toString(36).slice(2)}`)
    mkdirSync(path)
    return path
  }

  test('installs from a folder, and says what is next', async () => {
    const to = join(home(), 'bin')
    const ran = await run(['sh', join(out, 'install.sh'), out, '--to', to])
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    expect(ran.stdout).toContain(`installed weir 1.2.3 as ${to}/weir`)
    expect(statSync(join(to, 'weir')).mode & 0o777).toBe(0o755)
    expect(readdirSync(to)).toEqual(['weir'])
  })

  test('installs from an address, with a signature where one can be checked', async () => {
    const names: string[] = []
    using server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: (request) => {
        const name = new URL(request.url).pathname.slice(1)
        names.push(name)
        return new Response(Bun.file(join(out, name)))
      },
    })
    const to = join(home(), 'bin')
    const env = { WEIR_RELEASE_KEY: textOf('weir.pub').split('\n')[1]! }
    const ran = await run(['sh', join(out, 'install.sh'), `http://127.0.0.1:${server.port}`, '--to', to], {
      env,
    })
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    const signed = Bun.which('minisign') === null ? [] : ['SHA256SUMS.minisig']
    expect(names).toEqual(['SHA256SUMS', `weir-1.2.3-${target}.tar.gz`, ...signed])
  })

  test.each([
    ['changed', (bytes: Buffer) => Buffer.concat([bytes, Buffer.from('x')]), 'is not what SHA256SUMS says'],
    ['missing', () => undefined, 'has no weir-1.2.3'],
  ])('an archive that is %s installs nothing', async (_, change, says) => {
    const folder = home()
    const archive = `weir-1.2.3-${target}.tar.gz`
    writeFileSync(join(folder, 'SHA256SUMS'), read('SHA256SUMS'))
    const bytes = change(read(archive))
    if (bytes !== undefined) writeFileSync(join(folder, archive), bytes)
    const to = join(folder, 'bin')
    const ran = await run(['sh', join(out, 'install.sh'), folder, '--to', to])
    expect(ran.code).toBe(1)
    expect(ran.stderr).toContain(says)
    expect(existsSync(to)).toBe(false)
  })
})
