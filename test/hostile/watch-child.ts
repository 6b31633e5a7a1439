// Watches a gateway from a process of its own: how long its event loop answers nobody, and what steady streams gain.
// `bun watch-child.ts <origin> <pid> <key>`; a line on standard input asks for the figures since the last, and the end
// of it ends the watch.
//
// The machine may be busy with other things, and no delay of theirs is the gateway's fault. The kernel counts how long
// a thread has run and how long it has waited for a core (schedstat). Held against the gateway is only time in which its
// own thread ran while this one slept: had it been awake, or waited for a core, an answer might have lain there.

import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import type { Figures } from './hostile.ts'

const [origin, pid, key, streamCount, seconds] = process.argv.slice(2)
if (!origin || !pid || !key)
  throw new Error('usage: bun watch-child.ts <origin> <pid> <key> <streams> <seconds>')
const port = Number(new URL(origin).port)

const now = () => performance.timeOrigin + performance.now()

/** Milliseconds that the main thread of a process has run on a core so far, and has waited for one. */
function scheduled(of: string | number): { ran: number; waited: number } {
  const [ran, waited] = readFileSync(`/proc/${of}/task/${of}/schedstat`, 'latin1').split(' ')
  return { ran: Number(ran) / 1e6, waited: Number(waited) / 1e6 }
}

/** A moment: of the clock, of the gateway's work, and of what kept this process from looking. */
interface Moment {
  readonly at: number
  readonly ran: number
  readonly away: number
}

function moment(): Moment {
  const own = scheduled(process.pid)
  return { at: now(), ran: scheduled(pid!).ran, away: own.ran + own.waited }
}

/** Milliseconds since a moment that are held against the gateway. */
function heldSince({ at, ran, away }: Moment): number {
  const current = moment()
  return Math.max(0, Math.min(current.at - at - (current.away - away), current.ran - ran))
}

// ---- how long the loop is held --------------------------------------------------------------------------------

let holds: number[] = []

/** Asks for the health again and again. */
function probe(): void {
  const socket = connect({ host: '127.0.0.1', port })
  let asked: Moment
  const ask = () => {
    asked = moment()
    socket.write('GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
  }
  socket.on('connect', ask)
  socket.on('data', () => {
    holds.push(heldSince(asked))
    setTimeout(ask, 5)
  })
  socket.on('close', () => process.exit(1))
}

// ---- what steady streams gain -----------------------------------------------------------------------------------

/** What had been by when. */
const moments: Moment[] = []
setInterval(() => {
  moments.push(moment())
  if (moments.length > 4_000) moments.splice(0, 2_000)
}, 5)

/** The last moment before a time. */
function momentBefore(at: number): Moment {
  let from = moments.length - 1
  while (from > 0 && moments[from]!.at > at) from--
  return moments[from] ?? moment()
}

let delays: number[] = []
let lost = 0
let events = 0
let broken = 0
let open = 0

const everyMs = 50

function stream(): void {
  const socket = connect({ host: '127.0.0.1', port })
  const wanted = Math.floor((Number(seconds) * 1000) / everyMs)
  const content = `${wanted} events every ${everyMs} ms`
  const body = JSON.stringify({ model: 'lab/paced', stream: true, messages: [{ role: 'user', content }] })
  const head = [
    'POST /v1/chat/completions HTTP/1.1',
    'host: 127.0.0.1',
    `authorization: Bearer ${key}`,
    'content-type: application/json',
    `content-length: ${body.length}`,
  ]
  open += 1
  let next = 0
  let rest = ''
  let done = false
  socket.on('connect', () => socket.write(`${head.join('\r\n')}\r\n\r\n${body}`))
  socket.setEncoding('latin1').on('data', (text: string) => {
    const received = rest + text
    let end = 0
    for (const match of received.matchAll(/"content":"(\d+)@([\d.]+);"/g)) {
      end = match.index + match[0].length
      const sentAt = Number(match[2])
      events += 1
      if (Number(match[1]) !== next) lost += 1
      next = Number(match[1]) + 1
      const delay = now() - sentAt
      delays.push(delay > 20 ? Math.min(delay, heldSince(momentBefore(sentAt))) : delay)
    }
    rest = received.slice(Math.max(end, received.length - 400))
    if (received.includes('[DONE]')) {
      if (next !== wanted) lost += 1
      done = true
      open -= 1
      socket.destroy()
    }
  })
  socket.on('close', () => {
    if (!done) broken += 1
  })
  socket.on('error', () => undefined)
}

probe()
for (let at = 0; at < Number(streamCount); at++) stream()

for await (const _ of createInterface({ input: process.stdin })) {
  const figures: Figures = {
    probes: holds.length,
    holdMs: Math.max(0, ...holds),
    events,
    lost,
    broken,
    open,
    delayMs: Math.max(0, ...delays),
  }
  console.log(JSON.stringify(figures))
  holds = []
  delays = []
  events = lost = broken = 0
}
process.exit(0)
