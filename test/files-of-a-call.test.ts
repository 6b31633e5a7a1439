// How many files of the source a reader opens to follow one call: those in whose lines coverage counts more with the
// call than without it. A figure may only shrink.

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { tempDir } from './support/tmp.ts'

/**
 * What was counted last. A timer of the gateway's own that comes due meanwhile adds a file or two; a payment may be noticed
 * by the calls of its account before the end.
 */
const most = { whole: 80, stream: 88, message: 30 }
const byTimers = 2

const root = resolve(import.meta.dir, '..')

/** How often each line of the source runs in a gateway that takes one such call, or none: hits by `file:line`. */
async function hitsWith(call: keyof typeof most | 'none', idleMs = 0): Promise<ReadonlyMap<string, number>> {
  using folder = tempDir()
  const coverage = ['--coverage', '--coverage-reporter=lcov', `--coverage-dir=${folder.path}`]
  const child = Bun.spawn([process.execPath, 'test', ...coverage, './test/support/plain-call-child.ts'], {
    cwd: root,
    env: { ...process.env, PLAIN_CALL: call, PLAIN_IDLE_MS: String(idleMs) },
    stdout: 'ignore',
    stderr: 'pipe',
  })
  const printed = await new Response(child.stderr).text()
  if ((await child.exited) !== 0) throw new Error(printed)
  const hits = new Map<string, number>()
  let file = ''
  for (const line of readFileSync(folder.join('lcov.info'), 'utf8').split('\n')) {
    if (line.startsWith('SF:')) file = line.slice('SF:'.length)
    const [at, count] = line.startsWith('DA:') ? line.slice('DA:'.length).split(',') : []
    if (count !== undefined && file.startsWith('src/')) hits.set(`${file}:${at}`, Number(count))
  }
  return hits
}

/** What a busy machine adds to one run, such as another look for open calls while it stops, is not in the other. */
function fewest(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>) {
  return new Map([...one].map(([line, times]) => [line, Math.min(times, other.get(line) ?? 0)]))
}

test('a plain call runs in few files', async () => {
  const calls = ['whole', 'stream', 'message'] as const
  const hits = new Map<keyof typeof most, ReadonlyMap<string, number>>()
  const begun = performance.now()
  for (const call of calls) hits.set(call, fewest(await hitsWith(call), await hitsWith(call)))
  // However slow the machine is, timers come due more often without a call than with any: it takes longer than all six.
  const none = await hitsWith('none', Math.max(2_000, performance.now() - begun))
  for (const call of calls) {
    const more = [...hits.get(call)!].filter(([line, times]) => times > (none.get(line) ?? 0))
    const files = [...new Set(more.map(([line]) => line.slice(0, line.indexOf(':'))))]
    expect(
      files.length > 5 && files.length <= most[call] + byTimers ? [] : [call, files.length, ...files],
    ).toEqual([])
  }
}, 60_000)
