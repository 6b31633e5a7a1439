// `weir upgrade`: replaces the running executable by that of a signed release, or puts the former one back.

import { createHash } from 'node:crypto'
import {
  accessSync,
  constants,
  existsSync,
  linkSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { z } from 'zod'
import { reasonOf, storePlace } from '../../config/config.ts'
import { fileInTar } from '../../release/archive.ts'
import {
  readPublicKey,
  type ReleaseIndex,
  releaseIndex,
  SignatureFault,
  sumsIn,
  verifySignature,
} from '../../release/minisign.ts'
import { syncFile } from '../../store/upgrade.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'
import { builtFor, releaseKey, version } from '../../version.ts'
import { CommandFailure, type Context, type Invocation, print, usageFault } from '../context.ts'

const mostListBytes = 1024 * 1024
const mostArchiveBytes = 512 * 1024 * 1024
/** Of an executable, unpacked. */
const mostProgramBytes = 1024 * 1024 * 1024
/** For a list and for an archive, milliseconds. */
const listMs = 30_000
const archiveMs = 30 * 60_000
const firstWordMs = 20_000

/** Upgrades, only looks (`--check`), or goes back (`--rollback`). Throws CommandFailure; then nothing has changed. */
export async function upgrade(context: Context, invocation: Invocation): Promise<void> {
  const executable = ownExecutable()
  if (invocation.flag('rollback')) return rollBack(context, invocation, executable)
  const release = await provenRelease(context, invocation)
  const order = Bun.semver.order(release.index.version, version)
  const facts = { current: version, available: release.index.version, newer: order > 0 }
  if (invocation.flag('check') || order === 0) {
    const text =
      order > 0
        ? `${facts.available} is there; this is ${version}`
        : order === 0
          ? `this is ${version}, the version of the release`
          : `the release is ${facts.available}, older than this ${version}`
    return print(context, { json: facts, text })
  }
  if (order < 0 && !invocation.flag('downgrade'))
    throw new CommandFailure(
      `the release is ${facts.available}, older than this ${version} (--downgrade takes it)`,
    )
  requireReplaceable(context, invocation, executable)
  const staged = await stageProgram(release, executable)
  try {
    const said = versionOf(staged)
    if (said.version !== release.index.version)
      throw new CommandFailure(
        `the program in the release says that it is ${said.version}, not ${release.index.version}`,
      )
    const copy = await copyLedger(context, said)
    swap(executable, staged)
    report(context, facts, said.version, previousOf(executable), copy)
  } finally {
    rmSync(staged, { force: true })
  }
}

async function rollBack(context: Context, invocation: Invocation, executable: string): Promise<void> {
  const previous = previousOf(executable)
  if (!existsSync(previous)) throw new CommandFailure(`there is no ${previous}: nothing was upgraded here`)
  requireReplaceable(context, invocation, executable)
  const said = versionOf(previous)
  const copy = await copyLedger(context, said)
  // By way of a third name, so that each of the two is there at every moment.
  const staged = stagedBeside(executable)
  rmSync(staged, { force: true })
  linkOrMove(previous, staged)
  try {
    swap(executable, staged)
  } finally {
    rmSync(staged, { force: true })
  }
  report(context, { current: version, available: said.version, newer: false }, said.version, previous, copy)
}

function report(
  context: Context,
  facts: object,
  now: string,
  previous: string,
  copy: string | undefined,
): void {
  const text = [
    `weir ${now} is in place; ${version} is ${previous}`,
    ...(copy === undefined
      ? ['no database was found here, so none was copied (--data-dir)']
      : [`the database was copied to ${copy}`]),
    'a server that runs goes on with the former program: restart it',
  ]
  print(context, {
    json: { ...facts, installed: now, previous, backup: copy ?? null },
    text: text.join('\n'),
  })
}

// Where this program is, and whether it may be replaced.

function ownExecutable(): string {
  if (!Bun.main.startsWith('/$bunfs/') && !/^[A-Z]:[\\/]~BUN/i.test(Bun.main))
    throw new CommandFailure(
      'this one runs from its source, which git updates: weir upgrade replaces executables',
    )
  return realpathSync(process.execPath)
}

/** What put the program where it is, and how that is upgraded; undefined for a file that somebody has put there. */
export function installerOf(
  executable: string,
  env: Context['env'],
  read: (path: string) => string | undefined,
): string | undefined {
  const noted = read(resolve(dirname(executable), '../share/weir/installed-by'))?.trim()
  if (noted) return noted
  if (/[\\/]node_modules[\\/]/.test(executable)) return 'npm: npm install weir@latest'
  if (executable.includes('/Cellar/')) return 'Homebrew: brew upgrade weir'
  if (executable.startsWith('/nix/store/')) return 'Nix'
  const isContainer =
    read('/.dockerenv') !== undefined ||
    read('/run/.containerenv') !== undefined ||
    Boolean(env['KUBERNETES_SERVICE_HOST'])
  return isContainer ? 'a container image: pull a newer one' : undefined
}

function requireReplaceable({ env }: Context, invocation: Invocation, executable: string): void {
  const installer = installerOf(executable, env, (path) => {
    try {
      return readFileSync(path, 'utf8')
    } catch {
      return undefined
    }
  })
  if (installer !== undefined && !invocation.flag('force'))
    throw new CommandFailure(`${executable} was installed by ${installer}`)
  try {
    accessSync(dirname(executable), constants.W_OK | constants.X_OK)
  } catch {
    throw new CommandFailure(
      `${dirname(executable)} cannot be written: run it as its owner (sudo weir upgrade …)`,
    )
  }
}

function previousOf(executable: string): string {
  return executable.replace(/(\.exe)?$/i, '.previous$1')
}

// The release.

interface Place {
  readonly show: string
  /** The name of the file that was named, if it was an archive. */
  readonly archive: string | undefined
  read(name: string, mostBytes: number, ms: number): Promise<Uint8Array>
}

interface ProvenRelease {
  readonly place: Place
  readonly index: ReleaseIndex
  readonly sums: ReadonlyMap<string, string>
}

/** Reads the lists of a release and proves them by their signature. Throws CommandFailure. */
async function provenRelease(context: Context, invocation: Invocation): Promise<ProvenRelease> {
  const from = invocation.option('from')
  if (from === undefined) throw usageFault('--from takes the folder or the address of a release')
  const key = trustedKey(context, invocation)
  const place = placeOf(from, context.io.cwd)
  const list = await place.read('SHA256SUMS', mostListBytes, listMs)
  const signature = await place.read('SHA256SUMS.minisig', mostListBytes, listMs)
  try {
    verifySignature(list, Buffer.from(signature).toString('utf8'), key)
  } catch (error) {
    if (error instanceof SignatureFault) throw new CommandFailure(`${place.show}: ${error.message}`)
    throw error
  }
  const sums = sumsIn(Buffer.from(list).toString('utf8'))
  const text = await readProven({ place, sums }, 'release.json', mostListBytes, listMs)
  const parsed = releaseIndex.safeParse(JSON.parse(Buffer.from(text).toString('utf8')))
  if (!parsed.success)
    throw new CommandFailure(`${place.show}/release.json is not one that this version reads`)
  return { place, sums, index: parsed.data }
}

function trustedKey({ io }: Context, invocation: Invocation) {
  const given = invocation.option('key')
  const text = given ?? releaseKey
  if (text === null)
    throw usageFault('this build trusts no key: --key takes the public key of whoever releases Weir for you')
  const path = resolve(io.cwd, text)
  try {
    return readPublicKey(given !== undefined && existsSync(path) ? readFileSync(path, 'utf8') : text)
  } catch (error) {
    if (error instanceof SignatureFault) throw usageFault(`--key: ${error.message}`)
    throw error
  }
}

function placeOf(from: string, cwd: string): Place {
  const isAddress = /^https?:\/\//i.test(from)
  const bare = from.replace(/[\\/]+$/, '')
  const name = basename(isAddress ? new URL(bare).pathname : bare)
  const isFile = isAddress
    ? /\.tar\.gz$|^release\.json$|^SHA256SUMS/.test(name)
    : statSync(resolve(cwd, bare), { throwIfNoEntry: false })?.isFile() === true
  const folder = isFile ? bare.slice(0, -name.length - 1) || (isAddress ? bare : '.') : bare
  const archive = isFile && name.endsWith('.tar.gz') ? name : undefined
  const show = isAddress ? folder : resolve(cwd, folder)
  return {
    show,
    archive,
    read: isAddress
      ? (file, mostBytes, ms) => download(`${folder}/${file}`, mostBytes, ms)
      : async (file, mostBytes) => readLocal(join(show, file), mostBytes),
  }
}

async function download(address: string, mostBytes: number, ms: number): Promise<Uint8Array> {
  try {
    const response = await fetchBounded(address, { signal: AbortSignal.timeout(ms) }, mostBytes)
    if (response.ok) return new Uint8Array(await response.arrayBuffer())
    await response.body?.cancel()
    throw new CommandFailure(`${address} answers ${response.status}`)
  } catch (cause) {
    if (cause instanceof CommandFailure) throw cause
    throw new CommandFailure(`${address} cannot be read: ${reasonOf(cause)}`)
  }
}

function readLocal(path: string, mostBytes: number): Uint8Array {
  const size = statSync(path, { throwIfNoEntry: false })?.size
  if (size === undefined) throw new CommandFailure(`there is no ${path}`)
  if (size > mostBytes) throw new CommandFailure(`${path} is larger than a file of a release`)
  return readFileSync(path)
}

async function readProven(
  { place, sums }: Pick<ProvenRelease, 'place' | 'sums'>,
  file: string,
  mostBytes: number,
  ms: number,
): Promise<Uint8Array> {
  const sum = sums.get(file)
  if (sum === undefined) throw new CommandFailure(`${place.show}: SHA256SUMS does not name ${file}`)
  const bytes = await place.read(file, mostBytes, ms)
  if (createHash('sha256').update(bytes).digest('hex') !== sum)
    throw new CommandFailure(`${place.show}/${file} is not what SHA256SUMS says: it was changed or cut short`)
  return bytes
}

// The program.

/** Writes the program of the release beside the executable, ready to take its place. */
async function stageProgram(release: ProvenRelease, executable: string): Promise<string> {
  const { place, index } = release
  const target = builtFor ?? `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  const file =
    place.archive ?? index.files.find((one) => one.kind === 'archive' && one.target === target)?.name
  if (file === undefined) throw new CommandFailure(`the release has no program for ${target}`)
  const archive = await readProven(release, file, mostArchiveBytes, archiveMs)
  const program = programIn(Buffer.from(archive), file)
  const staged = stagedBeside(executable)
  rmSync(staged, { force: true })
  try {
    writeFileSync(staged, program, { flag: 'wx', mode: statSync(executable).mode & 0o777 })
    syncFile(staged)
  } catch (cause) {
    rmSync(staged, { force: true })
    throw new CommandFailure(`${staged} cannot be written: ${reasonOf(cause)}`)
  }
  return staged
}

function programIn(archive: Buffer, file: string): Uint8Array {
  // The size that gzip notes at its end.
  if (archive.length < 18 || archive.readUInt32LE(archive.length - 4) > mostProgramBytes)
    throw new CommandFailure(`${file} is no archive of a program`)
  const tar = Bun.gunzipSync(Uint8Array.from(archive))
  const folder = file.replace(/\.tar\.gz$/, '')
  const program = fileInTar(tar, `${folder}/weir`) ?? fileInTar(tar, `${folder}/weir.exe`)
  if (program === undefined) throw new CommandFailure(`${file} holds no program`)
  return program
}

function stagedBeside(executable: string): string {
  return executable.replace(/(\.exe)?$/i, '.new$1')
}

const versionAnswer = z.object({ version: z.string(), schema: z.int() })

/** What a program says of itself: that it starts at all is proven before anything depends on it. */
function versionOf(program: string): z.output<typeof versionAnswer> {
  const { exitCode, stdout, stderr } = Bun.spawnSync([program, 'version', '--json'], { timeout: firstWordMs })
  const answer = exitCode === 0 ? versionAnswer.safeParse(jsonIn(stdout.toString())) : undefined
  if (answer?.success) return answer.data
  const said = `${stdout.toString()}${stderr.toString()}`.trim().slice(0, 300)
  throw new CommandFailure(
    `${program} does not start here, and nothing was replaced: ${said || `it ended with ${exitCode}`}`,
  )
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Copies the database, if there is one. Throws CommandFailure where it is too new for the program to come. */
async function copyLedger(
  { config, io }: Context,
  next: z.output<typeof versionAnswer>,
): Promise<string | undefined> {
  const server = storePlace(config).server
  if (server !== undefined) {
    io.err(
      `no copy was made of the database on PostgreSQL: pg_dump makes one, and point-in-time recovery goes back\n`,
    )
    return undefined
  }
  const { hasStore } = await import('../../store/open.ts')
  if (!hasStore(config.data_dir)) return undefined
  const { backUp } = await import('../../store/backup.ts')
  const time = new Date(io.clock()).toISOString().replace(/[-:]|\.\d+/g, '')
  const copy = join(config.data_dir, `weir-before-${next.version}-${time}.db`)
  const { schema, broken } = backUp(config.data_dir, copy)
  if (schema > next.schema) {
    rmSync(copy, { force: true })
    throw new CommandFailure(
      `the database is of schema ${schema}, and ${next.version} knows ${next.schema} at most: stop the server and restore ` +
        'the copy that was made before the upgrade (weir restore FILE --force), then try again',
    )
  }
  if (broken !== null)
    throw new CommandFailure(`the ledger does not hold, so nothing was replaced: ${broken}`)
  return copy
}

/** Puts the staged program in the executable's place, which becomes the former one. At no moment is there none. */
function swap(executable: string, staged: string): void {
  const previous = previousOf(executable)
  try {
    rmSync(previous, { force: true })
    linkOrMove(executable, previous)
    renameSync(staged, executable)
    syncFolder(dirname(executable))
  } catch (cause) {
    if (!existsSync(executable) && existsSync(previous)) renameSync(previous, executable)
    throw new CommandFailure(`${executable} could not be replaced: ${reasonOf(cause)}`)
  }
}

/** Windows replaces no program that runs, but lets it be renamed. */
function linkOrMove(from: string, to: string): void {
  if (process.platform === 'win32') return renameSync(from, to)
  try {
    linkSync(from, to)
  } catch {
    // A file system without hard links.
    renameSync(from, to)
  }
}

function syncFolder(folder: string): void {
  if (process.platform !== 'win32') syncFile(folder)
}
