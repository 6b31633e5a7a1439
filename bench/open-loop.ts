// Asks at random moments, as many a second as it is told, whether or not earlier calls were answered, and checks every
// answer. A call's time begins when it was due: what asks late, because all were busy, waits too. Runs as a process:
// `bun bench/open-loop.ts <JSON of OpenLoad>`; prints the figures as JSON.

import { faultIn, type Expected } from './wrk.ts'

/** What is asked, and how often. */
export interface OpenLoad {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly perSecond: number
  readonly seconds: number
  readonly expected: readonly Expected[]
}

/** Milliseconds from when a call was due to the end of its answer. */
export interface OpenFigures {
  readonly calls: number
  readonly p50: number
  readonly p99: number
  readonly p999: number
  readonly failures: number
}

if (import.meta.main) console.log(JSON.stringify(await drive(JSON.parse(process.argv[2]!) as OpenLoad)))

async function drive(load: OpenLoad): Promise<OpenFigures> {
  const times: number[] = []
  let failures = 0
  const ask = async (due: number) => {
    try {
      const response = await fetch(load.url, { method: 'POST', headers: load.headers, body: load.body })
      const text = await response.text()
      if (response.status !== 200 || faultIn(text, load.expected) !== undefined) failures++
    } catch {
      failures++
    }
    times.push(performance.now() - due)
  }
  const calls: Promise<void>[] = []
  const end = performance.now() + load.seconds * 1000
  // The pauses of arrivals that know nothing of each other are spread exponentially.
  const pause = () => (-Math.log(1 - Math.random()) * 1000) / load.perSecond
  for (let due = performance.now() + pause(); due < end; due += pause()) {
    const wait = due - performance.now()
    if (wait > 0) await Bun.sleep(wait)
    calls.push(ask(due))
  }
  await Promise.all(calls)
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0
  return { calls: times.length, p50: at(0.5), p99: at(0.99), p999: at(0.999), failures }
}
