// What `npm start` and `npm test` run, with nothing but Node.js and npm on the machine: it fetches the version of Bun
// that the project is pinned to, installs the libraries, and hands over. Everything stays in this folder.
//
//   node .run/run.mjs start [arguments of weir serve]
//   node .run/run.mjs test [test files]
//   node .run/run.mjs bun <arguments of bun>

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const bunVersion = '1.4.5'
const root = dirname(dirname(fileURLToPath(import.meta.url)))
const ownBun = join(root, '.bun', 'node_modules', 'bun', 'bin', 'bun.exe')

const [task, ...given] = process.argv.slice(2)
const say = (text) => process.stderr.write(`weir: ${text}\n`)
const startedAt = Date.now()
const isFirst = !existsSync(join(root, 'node_modules'))

if (task === 'start') {
  const bun = foundBun()
  // What runs it, not what checks it: bun leaves development dependencies alone where they are installed already.
  install(bun, ['--production', '--omit=peer'], 'the libraries it runs on (170 MB on disk)')
  compileConsole(bun)
  if (isFirst) say(`installed in ${Math.round((Date.now() - startedAt) / 1000)} s, starting`)
  handOver(bun, ['src/main.ts', 'serve', ...given])
} else if (task === 'test') {
  const bun = foundBun()
  install(bun, [], 'the libraries and what tests them (600 MB on disk)')
  handOver(bun, ['test/run.ts', ...given])
} else if (task === 'bun') {
  handOver(foundBun(), given)
} else {
  say('node .run/run.mjs start | test | bun <arguments>')
  process.exitCode = 2
}

/** The path of Bun at the pinned version: the one on the PATH, or a copy in this folder, fetched by npm once. */
function foundBun() {
  const candidates = [process.versions.bun ? process.execPath : 'bun', ownBun]
  const found = candidates.find(isRightVersion)
  if (found !== undefined) return found
  say(`fetching Bun ${bunVersion}, once (40 MB to download, 105 MB on disk) …`)
  const folder = join(root, '.bun')
  mkdirSync(folder, { recursive: true })
  const args = ['install', '--prefix', folder, '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  const fetched = npm([...args, `bun@${bunVersion}`])
  if (!isRightVersion(ownBun)) {
    process.stderr.write(fetched.stderr ?? '')
    fail(`Bun ${bunVersion} could not be fetched by npm: is its registry reachable? (npm ping)`)
  }
  return ownBun
}

function isRightVersion(bun) {
  const { stdout } = spawnSync(bun, ['--version'], { encoding: 'utf8' })
  return stdout?.trim() === bunVersion
}

function npm(args) {
  const options = { cwd: root, encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] }
  const cli = process.env.npm_execpath
  if (cli?.endsWith('npm-cli.js')) return spawnSync(process.execPath, [cli, ...args], options)
  return spawnSync('npm', args, { ...options, shell: process.platform === 'win32' })
}

/** Installs as the lock file says: a moment where everything is there. */
function install(bun, options, what) {
  if (isFirst) say(`installing ${what} …`)
  const args = ['install', '--frozen-lockfile', '--silent', ...options]
  const { status } = spawnSync(bun, args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) fail('the libraries could not be installed')
}

/** Compiles the console where it is missing or older than its source. Without it the gateway serves all the same. */
function compileConsole(bun) {
  const args = ['src/console/build.ts', '--if-stale']
  const { status } = spawnSync(bun, args, { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) say('the console could not be compiled, so /console stays empty (bun run console)')
}

/** Runs Bun in the foreground: this process passes signals on and ends as it ends. */
function handOver(bun, args) {
  const path = [join(root, '.bun', 'node_modules', '.bin'), process.env.PATH ?? ''].join(delimiter)
  const child = spawn(bun, args, { stdio: 'inherit', env: { ...process.env, PATH: path } })
  let orphaned
  child.on('error', (error) => fail(`${bun} could not be started: ${error.message}`))
  child.on('close', (code, signal) => {
    clearInterval(orphaned)
    process.exitCode = signal === null ? code : 128 + constants.signals[signal]
  })
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  // A terminal sends Ctrl-C to the whole group: the child has got it already.
  process.on('SIGINT', () => {})
  // npm passes SIGTERM to the shell between it and this process, and a shell ends without passing it on.
  const parent = process.ppid
  orphaned = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(orphaned)
    child.kill('SIGTERM')
  }, 200)
  orphaned.unref()
}

function fail(text) {
  say(text)
  process.exit(1)
}
