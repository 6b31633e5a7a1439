// The clients of the soak: `bun load-child.ts <base URL> <key> <requests a second> <open streams> <seconds>`. Requests come at
// their rate whether the gateway keeps up or not; of the streams so many are always open. Every twentieth client leaves
// in the middle. A line on standard input ends it: nothing new is asked, and the figures are printed when all is over.

import type { LoadFigures } from './soak.ts'

const [baseUrl, key, rate, openStreams, streamSeconds] = process.argv.slice(2)
if (!baseUrl || !key || !rate || !openStreams || !streamSeconds)
  throw new Error('usage: bun load-child.ts <url> <key> <rate> <streams>')

/** How often the clock is looked at, milliseconds. */
const tickMs = 20
/** More than this many at once are not asked: the gateway has fallen behind for good. */
const mostInFlight = 5_000

const figures: LoadFigures = { asked: 0, served: 0, refused: 0, broken: 0, left: 0, shed: 0 }
const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
const running = new Set<Promise<void>>()
const ending = new AbortController()

async function ask(model: string, stream: boolean, leavesAfterBytes: number | undefined): Promise<void> {
  figures.asked++
  const leaving = new AbortController()
  try {
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: 'POST',
      headers,
      body: JSON.stringify({
        model: `lab/${model}`,
        stream,
        max_tokens: 100,
        messages: [{ role: 'user', content: `Say something about the river, please (${figures.asked}).` }],
      }),
      signal: leaving.signal,
    })
    let text = ''
    const decoder = new TextDecoder()
    for await (const piece of response.body!) {
      text += decoder.decode(piece, { stream: true })
      if (leavesAfterBytes !== undefined && text.length > leavesAfterBytes) leaving.abort()
    }
    const isWhole = stream ? text.includes('[DONE]') && !text.includes('"error"') : response.ok
    if (!response.ok) figures.refused++
    else if (isWhole) figures.served++
    else figures.broken++
  } catch {
    if (leaving.signal.aborted) figures.left++
    else figures.broken++
  }
}

let turn = 0
/** Four of ten are streamed, one of twenty is left in the middle. */
function next(): void {
  turn++
  const stream = turn % 10 < 4
  const asked = ask(stream ? 'stream' : 'whole', stream, stream && turn % 20 === 0 ? 300 : undefined).finally(
    () => running.delete(asked),
  )
  running.add(asked)
}

async function keepOpen(at: number): Promise<void> {
  // Not all at once, now and whenever they end.
  await Bun.sleep((at * Number(streamSeconds) * 1000) / Number(openStreams))
  for (let round = 0; !ending.signal.aborted; round++)
    await ask('drip', true, (at + round) % 20 === 0 ? 2_000 : undefined)
}

const started = performance.now()
let due = 0
const ticking = setInterval(() => {
  const until = ((performance.now() - started) / 1000) * Number(rate)
  for (; due < until; due++) {
    if (running.size < mostInFlight) next()
    else figures.shed++
  }
}, tickMs)
const open = Array.from({ length: Number(openStreams) }, (_, at) => keepOpen(at))

await new Promise<void>((resolve) => process.stdin.once('data', () => resolve()))
ending.abort()
clearInterval(ticking)
await Promise.all([...open, ...running])
console.log(JSON.stringify(figures))
process.exit(0)
