// How much slower the machine is at the moment than at its best: the same piece of work again and again, in a process
// that nobody attacks. Prints, whenever a line comes on standard input, by how much since the last; ends with it.
//
// A thread that shares its core with others finds its caches cold and its frequency low, and the kernel counts all of
// that as its own time. What the gateway is held to must not depend on who else is at work.

import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const text = JSON.stringify(
  Array.from({ length: 4_000 }, (_, at) => ({ id: `call_${at}`, words: 'Where the river runs. '.repeat(4) })),
)
const everyMs = 100

/** Milliseconds that this thread has run. */
function ran(): number {
  // Asked for the time of all threads, the kernel brings the file up to date: by itself it does so once in a tick.
  process.cpuUsage()
  return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'latin1').split(' ')[0]) / 1e6
}

/** Much like what the gateway does: JSON is read, changed and written. About a millisecond at best. */
function work(): number {
  const begun = ran()
  const items = JSON.parse(text) as { id: string; words: string }[]
  for (const item of items) item.words = item.words.replace('river', 'weir')
  if (JSON.stringify(items).length > 2 * text.length) throw new Error('it was not done')
  return ran() - begun
}

for (let warm = 0; warm < 100; warm++) work()
let best = Math.min(...Array.from({ length: 100 }, work))
let took: number[] = []
setInterval(() => {
  const ms = work()
  took.push(ms)
  best = Math.min(best, ms)
}, everyMs)

for await (const _ of createInterface({ input: process.stdin })) {
  const slowFirst = took.toSorted((a, b) => b - a)
  // The slowest tenth is left out: the gateway's own figure is that of its slowest moment.
  console.log(String(Math.max(1, (slowFirst[Math.floor(slowFirst.length / 10)] ?? best) / best)))
  took = []
}
process.exit(0)
