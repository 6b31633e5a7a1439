// `npm test`: every check, then every test on all cores, and the counts of both on the last line.

import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { availableParallelism, tmpdir, totalmem } from 'node:os'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dir, '..')

interface Check {
  readonly name: string
  readonly command: readonly string[]
}

const bun = process.execPath
const cores = availableParallelism()

/** Each counts as one test; the last runs the suites and counts its own. */
const checks: readonly Check[] = [
  { name: 'types', command: [bun, 'check'] },
  { name: 'lint', command: [bun, 'x', 'oxlint', '--deny-warnings'] },
  { name: 'format', command: [bun, 'fmt', '--check', 'src', 'test', 'bench'] },
  { name: 'dead code', command: [bun, 'x', 'knip', '--no-progress', '--config', '.knip.json'] },
  { name: 'build', command: [bun, 'run', 'build'] },
]

// Every test has data directories of its own, and waits for each of their syncs: in memory these take no time. What a
// disk has after a power cut is known from a trace of the calls (test/kill/power-cut.ts), not from a disk.
const scratch = mkdtempSync(join(roomInMemory() ?? tmpdir(), 'weir-tests-'))
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }))

/** The folder of the file system in memory, where it has room for what the tests write: a container may have little. */
function roomInMemory(): string | null {
  const folder = '/dev/shm'
  if (!existsSync(folder)) return null
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize > 4 * 1024 ** 3 ? folder : null
}

/** Runs a command in the project's root, its output given to `show` as it comes. Gives the output and the exit code. */
function run(
  command: readonly string[],
  show: (bytes: Buffer) => unknown,
): Promise<{ code: number; output: string }> {
  const { promise, resolve: done } = Promise.withResolvers<{ code: number; output: string }>()
  const child = spawn(command[0]!, command.slice(1), {
    cwd: root,
    // The type-aware rules are a program in Go, which collects garbage for a third of its time unless it has room.
    env: { GOGC: 'off', GOMEMLIMIT: '3GiB', ...process.env, TMPDIR: scratch },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes: Buffer) => {
      output += bytes.toString()
      show(bytes)
    })
  }
  child.on('close', (code) => done({ code: code ?? 1, output }))
  return promise
}

/** The counts that the test runner states in its closing lines. */
function countsOf(output: string): { passed: number; failed: number } {
  const count = (word: string) => Number(new RegExp(`^\\s*(\\d+) ${word}$`, 'm').exec(output)?.[1] ?? 0)
  return { passed: count('pass'), failed: count('fail') }
}

let passed = 0
let failed = 0
// All at once: some use one core only. What each prints is shown whole, in its turn.
const checked = checks.map(({ name, command }) => ({ name, ended: run(command, () => undefined) }))
for (const { name, ended } of checked) {
  console.log(`\n== ${name}`)
  const { code, output } = await ended
  process.stdout.write(output)
  if (code === 0) passed += 1
  else failed += 1
  console.log(code === 0 ? `${name}: ok` : `${name}: FAILED`)
}

console.log('\n== tests')
// A test waits for timers, pages and processes nearly half of its time: two workers more than cores. Each keeps its
// modules from file to file, since to load them for every file takes minutes, and so has grown to a gigabyte at its end.
const workers = Math.max(cores, Math.min(cores + 2, Math.floor(totalmem() / (2 * 1024 ** 3))))
// A test that hangs is ended; on a machine that has much else to do five seconds, the default, are less than some starts
// take.
const suiteCommand = [
  bun,
  'test',
  '--only-failures',
  `--parallel=${workers}`,
  '--no-isolate',
  '--timeout=30000',
  ...process.argv.slice(2),
]
const suite = await run(suiteCommand, (bytes) => process.stdout.write(bytes))
const counts = countsOf(suite.output)
passed += counts.passed
failed += counts.failed
// A runner that died, or ran nothing, has not passed whatever it counted.
if (suite.code !== 0 && counts.failed === 0) failed += 1
if (counts.passed === 0) failed += 1

console.log(`\n${passed} passed, ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
