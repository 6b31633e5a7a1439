// `bun run release`: everything that is published of a version, into dist/release. The same commit, libraries and key give
// the same bytes. Not part of the executable.

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { program } from '../cli/program.ts'
import { completionScript, unitOf } from '../cli/commands/service.ts'
import { readEnvironment } from '../config/read/environment.ts'
import { buildConsole } from '../console/build.ts'
import { schemaVersion } from '../store/sqlite/database/sqlite.ts'
import { fetchBounded } from '../transport/bounded-body.ts'
import { version } from '../version.ts'
import manifest from '../../package.json' with { type: 'json' }
import { type ArchiveEntry, fileInTar, gzip, tarOf, textFile, withFolders } from './archive.ts'
import { compile, type ReleaseTarget, targets } from './compile.ts'
import {
  debOf,
  type ImageArch,
  imageOf,
  type ImagePart,
  type PackageArch,
  type PackageScripts,
  rpmOf,
} from './packages.ts'
import libraries from './image-libraries.json' with { type: 'json' }
import { billOfMaterials, componentsOf, thirdPartyNotices } from './materials.ts'
import { publicTextOf, readSecretKey, type ReleaseIndex, type SecretKey, signatureOf } from './minisign.ts'

const root = resolve(import.meta.dir, '../..')
const name = 'weir'

export interface ReleaseOptions {
  /** The folder to write to; what it holds is deleted first. */
  readonly out: string
  readonly commit: string
  /** The time that every file has, seconds since 1970. */
  readonly time: number
  readonly version: string
  readonly targets: readonly ReleaseTarget[]
  /** The executable of a platform. */
  readonly executable: (target: ReleaseTarget) => Promise<Uint8Array>
  /** The files of the C library for an image; undefined leaves the image out. */
  readonly libraries: ((arch: ImageArch) => Promise<readonly ArchiveEntry[]>) | undefined
  /** Undefined leaves the release unsigned. */
  readonly key: SecretKey | undefined
  /** Where the files will be published; without it there is no formula for Homebrew. */
  readonly url: string | undefined
}

/** One file of a release. */
interface Product {
  readonly name: string
  readonly kind: ReleaseIndex['files'][number]['kind']
  readonly target: ReleaseTarget | null
  readonly bytes: Uint8Array
}

/** Writes a release and gives the names of its files. */
export async function makeRelease(options: ReleaseOptions): Promise<readonly string[]> {
  const { out, key, time } = options
  rmSync(out, { recursive: true, force: true })
  mkdirSync(out, { recursive: true })
  const sums = new Map<string, string>()
  const files: ReleaseIndex['files'] = []
  const write = ({ name: file, kind, target, bytes }: Product) => {
    writeFileSync(join(out, file), bytes)
    sums.set(file, createHash('sha256').update(bytes).digest('hex'))
    files.push({ name: file, kind, target, bytes: bytes.length })
  }
  const document = (file: string, text: string) =>
    write({ name: file, kind: 'document', target: null, bytes: Buffer.from(text) })

  const components = componentsOf(root)
  const notices = thirdPartyNotices(components, Bun.version)
  document('THIRD-PARTY-NOTICES.txt', notices)
  const about = {
    name,
    version: options.version,
    commit: options.commit,
    description: manifest.description,
    time,
  }
  document(`${name}-${options.version}.cdx.json`, billOfMaterials(about, components, Bun.version))
  document('RELEASE-NOTES.md', releaseNotes(options.version))

  const images: ImagePart[] = []
  for (const target of options.targets) {
    // One at a time: each is a hundred megabytes.
    const executable = await options.executable(target)
    for (const product of productsOf(options, target, executable, notices)) write(product)
    const arch = imageArchOf(target)
    if (arch !== undefined && options.libraries)
      images.push({ arch, executable, libraries: await options.libraries(arch) })
  }
  let digest = ''
  if (images.length > 0) {
    const image = imageOf(about, images)
    digest = image.digest
    write({ name: `${name}-${options.version}-oci.tar`, kind: 'image', target: null, bytes: image.tar })
  }
  write({
    name: `${name}-npm-${options.version}.tgz`,
    kind: 'npm',
    target: null,
    bytes: npmLauncher(options),
  })
  write({
    name: `${name}-helm-${options.version}.tgz`,
    kind: 'helm',
    target: null,
    bytes: helmChart(options, digest),
  })
  document('install.sh', fillIn('install.sh', options, { URL: options.url ?? '' }))
  const formula = homebrewFormula(options, sums)
  if (formula !== undefined) document('weir.rb', formula)
  if (key) document('weir.pub', publicTextOf(key))

  const index: ReleaseIndex = {
    version: options.version,
    commit: options.commit,
    schema: schemaVersion,
    files: [...files],
  }
  document('release.json', `${JSON.stringify(index, null, 2)}\n`)
  const list = [...sums].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([file, sum]) => `${sum}  ${file}\n`)
  const sumsText = list.join('')
  writeFileSync(join(out, 'SHA256SUMS'), sumsText)
  // The time is that of the commit: a signature must not make two builds differ.
  const comment = `${name} ${options.version} ${options.commit} ${new Date(time * 1000).toISOString()}`
  if (key) writeFileSync(join(out, 'SHA256SUMS.minisig'), signatureOf(Buffer.from(sumsText), key, comment))
  return readdirSync(out).toSorted()
}

/** The text of a version in the changelog, else what is next. */
export function releaseNotes(of: string): string {
  const text = readFileSync(join(root, 'src/guide/changelog.md'), 'utf8')
  const sections = new Map(
    [...text.matchAll(/^## (.+)\n([\s\S]*?)(?=^## |(?![\s\S]))/gm)].map(([, title, body]) => [
      title!.trim(),
      body!.trim(),
    ]),
  )
  const body = sections.get(of) ?? sections.get('Next')
  if (body === undefined) throw new Error(`src/guide/changelog.md has neither ${of} nor Next`)
  return `# Weir ${of}\n\n${body}\n`
}

// What is made of one executable.

const packageArch: Partial<Record<ReleaseTarget, PackageArch>> = {
  'linux-x64': 'x64',
  'linux-arm64': 'arm64',
}

function imageArchOf(target: ReleaseTarget): ImageArch | undefined {
  return packageArch[target]
}

function archiveName(of: string, target: ReleaseTarget): string {
  return `${name}-${of}-${target}.tar.gz`
}

function fileNameOf(target: ReleaseTarget): string {
  return target.startsWith('windows') ? 'weir.exe' : 'weir'
}

function productsOf(
  { version: of, time }: ReleaseOptions,
  target: ReleaseTarget,
  executable: Uint8Array,
  notices: string,
): Product[] {
  const program: ArchiveEntry = { kind: 'file', path: fileNameOf(target), mode: 0o755, bytes: executable }
  const archived = [
    program,
    textFile('README.md', readFileSync(join(root, 'README.md'), 'utf8')),
    textFile('THIRD-PARTY-NOTICES.txt', notices),
  ]
  const archive = gzip(tarOf(archived, time, `${name}-${of}-${target}/`))
  const products: Product[] = [
    { name: archiveName(of, target), kind: 'archive', target, bytes: archive },
    {
      name: `${name}-npm-${target}-${of}.tgz`,
      kind: 'npm',
      target,
      bytes: npmPlatform(of, time, target, program),
    },
  ]
  const arch = packageArch[target]
  if (arch === undefined) return products
  const facts = {
    name,
    version: of,
    summary: 'gateway for language models',
    description: manifest.description,
    homepage: undefined,
    license: licence,
    time,
  }
  const files = (installer: string) => systemFiles(executable, notices, installer)
  return [
    ...products,
    {
      name: `${name}_${of}_${arch === 'x64' ? 'amd64' : 'arm64'}.deb`,
      kind: 'deb',
      target,
      bytes: debOf(facts, arch, files('a Debian package: apt upgrade'), packageScripts),
    },
    {
      name: `${name}-${of}-1.${arch === 'x64' ? 'x86_64' : 'aarch64'}.rpm`,
      kind: 'rpm',
      target,
      bytes: rpmOf(facts, arch, files('an RPM package: dnf upgrade'), packageScripts),
    },
  ]
}

/** As package.json names it. */
const licence =
  'license' in manifest && typeof manifest.license === 'string' ? manifest.license : 'UNLICENSED'

/** The files of a package for a whole system. */
function systemFiles(executable: Uint8Array, notices: string, installer: string): ArchiveEntry[] {
  const weir = program([], {
    out: () => undefined,
    err: () => undefined,
    cwd: '/',
    clock: () => 0,
    environment: async () => ({}),
    input: async () => '',
  })
  const unit = unitOf({
    executable: '/usr/bin/weir',
    user: 'weir',
    config: undefined,
    dataDir: undefined,
    lowPort: false,
    shutdownSeconds: longestShutdownSeconds,
  })
  return [
    { kind: 'file', path: 'usr/bin/weir', mode: 0o755, bytes: executable },
    textFile('usr/lib/systemd/system/weir.service', unit),
    textFile('usr/share/weir/installed-by', `${installer}\n`),
    textFile('usr/share/doc/weir/copyright', notices),
    textFile('usr/share/bash-completion/completions/weir', completionScript('bash', weir)),
    textFile('usr/share/zsh/site-functions/_weir', `#compdef weir\n${completionScript('zsh', weir)}`),
    textFile('usr/share/fish/vendor_completions.d/weir.fish', completionScript('fish', weir)),
  ]
}

/** Whatever timeouts.shutdown_ms says, systemd waits for it. */
const longestShutdownSeconds = 660

const packageScripts: PackageScripts = {
  // It is not started: who installs it says first where it listens, and which keys it has.
  afterInstall: `if ! getent passwd weir >/dev/null 2>&1; then
  useradd --system --user-group --no-create-home --home-dir /var/lib/weir --shell /usr/sbin/nologin weir
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
  if systemctl is-active --quiet weir; then systemctl restart weir || true; fi
fi
`,
  beforeRemove: `if [ -d /run/systemd/system ]; then
  systemctl disable --now weir || true
fi
`,
  // The database stays: it is other people's money.
  afterRemove: `if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
`,
}

// npm: a package that starts the executable, and one for each platform that brings it.

const npmSystem = { linux: 'linux', darwin: 'darwin', windows: 'win32' } as const

function npmName(target: ReleaseTarget): string {
  return `${name}-${target}`
}

function npmPackage(files: readonly ArchiveEntry[], manifestOf: object, time: number): Buffer {
  const text = `${JSON.stringify(manifestOf, null, 2)}\n`
  return gzip(tarOf([textFile('package.json', text), ...files], time, 'package/'))
}

function npmPlatform(of: string, time: number, target: ReleaseTarget, program: ArchiveEntry): Buffer {
  const [system, cpu, musl] = target.split('-') as [
    'linux' | 'darwin' | 'windows',
    string,
    string | undefined,
  ]
  const about = {
    name: npmName(target),
    version: of,
    description: `The executable of weir for ${target}`,
    license: licence,
    os: [npmSystem[system]],
    cpu: [cpu],
    ...(system === 'linux' ? { libc: [musl ?? 'glibc'] } : {}),
  }
  return npmPackage([{ ...program, path: `bin/${program.path}` }], about, time)
}

function npmLauncher({ version: of, time, targets: all }: ReleaseOptions): Buffer {
  const about = {
    name,
    version: of,
    description: manifest.description,
    license: licence,
    bin: { weir: 'bin/weir.cjs' },
    engines: { node: '>=18' },
    optionalDependencies: Object.fromEntries(all.map((target) => [npmName(target), of])),
  }
  const launcher = readFileSync(join(import.meta.dir, 'templates/npm-launcher.cjs'), 'utf8')
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  return npmPackage([textFile('bin/weir.cjs', launcher, 0o755), textFile('README.md', readme)], about, time)
}

// Files with the version, the address and the checksums filled in.

function fillIn(
  file: string,
  { version: of }: ReleaseOptions,
  more: Readonly<Record<string, string>>,
): string {
  const values: Readonly<Record<string, string>> = { VERSION: of, ...more }
  return readFileSync(join(import.meta.dir, 'templates', file), 'utf8').replaceAll(
    /@([A-Z\d]+(?::[\w-]+)?)@/g,
    (_, key: string) => {
      const value = values[key]
      if (value === undefined) throw new Error(`${file} wants ${key}`)
      return value
    },
  )
}

function homebrewFormula(options: ReleaseOptions, sums: ReadonlyMap<string, string>): string | undefined {
  const { url, version: of } = options
  const needed = ['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64'] as const
  if (url === undefined || !needed.every((target) => options.targets.includes(target))) return undefined
  const values = needed.flatMap((target) => {
    const file = archiveName(of, target)
    return [
      [`FILE:${target}`, file],
      [`SHA256:${target}`, sums.get(file)!],
    ] as const
  })
  return fillIn('weir.rb', options, {
    URL: url,
    HOMEPAGE: new URL(url).origin,
    ...Object.fromEntries(values),
  })
}

function helmChart(options: ReleaseOptions, digest: string): Buffer {
  const folder = join(import.meta.dir, 'templates/helm')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(yaml|txt)$/.test(file))
    .toSorted()
    .map((file) => textFile(file, fillIn(`helm/${file}`, options, { DIGEST: digest })))
  return gzip(
    tarOf(
      withFolders(files).filter(({ kind }) => kind === 'file'),
      options.time,
      `${name}/`,
    ),
  )
}

// The C library of the image.

const mostPackageBytes = 32 * 2 ** 20

/** `mirrors` are asked before the archive that keeps every version. */
async function debianLibraries(
  arch: ImageArch,
  mirrors: readonly string[],
): Promise<readonly ArchiveEntry[]> {
  const { path, sha256, folder, loader } = libraries[arch]
  const bytes = await firstOf(
    [...mirrors, libraries.archive].map((mirror) => `${mirror}/${path.replaceAll('+', '%2B')}`),
    sha256,
  )
  const data = memberOf(bytes, 'data.tar.xz')
  const unpacked = spawnSync('xz', ['--decompress', '--stdout'], {
    input: data,
    maxBuffer: 8 * mostPackageBytes,
  })
  if (unpacked.status !== 0)
    throw new Error(`xz cannot unpack ${path}: ${unpacked.error?.message ?? String(unpacked.stderr)}`)
  const take = (file: string, at: string): ArchiveEntry => {
    const found = fileInTar(unpacked.stdout, `./${folder}/${file}`)
    if (found === undefined) throw new Error(`${path} has no ${file}`)
    return { kind: 'file', path: at, mode: 0o755, bytes: found }
  }
  return [take(loader.file, loader.at), ...libraries.files.map((file) => take(file, `${folder}/${file}`))]
}

/** The file from the first mirror that has it as it should be. Throws with what every mirror said. */
async function firstOf(addresses: readonly string[], sha256: string): Promise<Buffer> {
  const faults: string[] = []
  for (const address of addresses) {
    try {
      const response = await fetchBounded(address, {}, mostPackageBytes)
      const bytes = Buffer.from(await response.arrayBuffer())
      const found = createHash('sha256').update(bytes).digest('hex')
      if (response.ok && found === sha256) return bytes
      faults.push(`${address}: ${response.ok ? `its SHA-256 is ${found}` : response.status}`)
    } catch (cause) {
      faults.push(`${address}: ${cause instanceof Error ? cause.message : String(cause)}`)
    }
  }
  throw new Error(
    `the C library of the image cannot be fetched (--no-image leaves it out):\n${faults.join('\n')}`,
  )
}

/** A member of an ar file. Throws if there is none of this name. */
function memberOf(ar: Buffer, member: string): Buffer {
  let at = 8
  while (at + 60 <= ar.length) {
    const size = Number(ar.toString('latin1', at + 48, at + 58).trim())
    const found = ar
      .toString('latin1', at, at + 16)
      .trim()
      .replace(/\/$/, '')
    if (found === member) return ar.subarray(at + 60, at + 60 + size)
    at += 60 + size + (size % 2)
  }
  throw new Error(`the package has no ${member}`)
}

// The command.

function git(...words: string[]): string {
  const { status, stdout } = spawnSync('git', words, { cwd: root, encoding: 'utf8' })
  if (status !== 0) throw new Error(`git ${words.join(' ')} failed: give --commit and --time`)
  return stdout.trim()
}

function secretKey(
  path: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): SecretKey | undefined {
  const text = path === undefined ? env['WEIR_RELEASE_SECRET_KEY'] : readFileSync(path, 'utf8')
  return text ? readSecretKey(text, env['WEIR_RELEASE_PASSWORD']) : undefined
}

const usage = `Usage: bun run release [options]

  --out <folder>           where to write the files (dist/release)
  --key <file>             the secret key that signs, in the form of minisign (WEIR_RELEASE_SECRET_KEY)
  --url <address>          where the files will be published, for the formula of Homebrew
  --target <name>          only this platform; may be repeated: ${targets.join(', ')}
  --commit <id>            the commit to name (that of this folder)
  --time <seconds>         the time of every file, since 1970 (that of the commit)
  --no-image               leave the container image out
  --debian-mirror <url>    where the image's C library is fetched; may be repeated
  --dirty                  release what is not committed, too`

const releaseOptions = {
  out: { type: 'string', default: join(root, 'dist/release') },
  key: { type: 'string' },
  url: { type: 'string' },
  target: { type: 'string', multiple: true },
  commit: { type: 'string' },
  time: { type: 'string' },
  'no-image': { type: 'boolean' },
  'debian-mirror': { type: 'string', multiple: true, default: [] as string[] },
  dirty: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const

/** The options of the command line; undefined where they are wrong, or help was asked for: what to do is printed then. */
function optionsOf() {
  try {
    const { values } = parseArgs({ options: releaseOptions })
    if (!values.help) return values
    console.log(usage)
  } catch (thrown) {
    console.error(`${thrown instanceof Error ? thrown.message : String(thrown)}\n\n${usage}`)
    process.exitCode = 2
  }
  return undefined
}

async function release(): Promise<void> {
  const values = optionsOf()
  if (values === undefined) return
  if (values.commit === undefined && !values.dirty && git('status', '--porcelain') !== '')
    throw new Error('files here are not committed: a release is of a commit (--dirty makes one all the same)')
  const commit = values.commit ?? git('rev-parse', 'HEAD')
  const time = Number(values.time ?? git('log', '-1', '--format=%ct'))
  const key = secretKey(values.key, readEnvironment())
  if (key === undefined)
    console.error('no key (--key FILE or WEIR_RELEASE_SECRET_KEY): the release is not signed')
  const releaseKey = key === undefined ? undefined : publicTextOf(key).trim().split('\n').at(-1)
  const wanted = values.target ?? targets
  const chosen = targets.filter((target) => wanted.includes(target))
  if (chosen.length !== wanted.length) throw new Error(`--target takes ${targets.join(', ')}`)
  const files = await buildConsole()
  const names = await makeRelease({
    out: resolve(values.out),
    commit,
    time,
    version,
    targets: chosen,
    executable: async (target) => {
      const outfile = join(root, 'dist', `weir-${target}${target.startsWith('windows') ? '.exe' : ''}`)
      await compile(outfile, files, { commit, releaseKey }, target)
      console.error(`compiled ${target}`)
      const bytes = readFileSync(outfile)
      rmSync(outfile)
      return bytes
    },
    libraries: values['no-image'] ? undefined : (arch) => debianLibraries(arch, values['debian-mirror']),
    key,
    url: values.url?.replace(/\/+$/, ''),
  })
  console.log(names.map((file) => join(values.out, file)).join('\n'))
}

if (import.meta.main) await release()
