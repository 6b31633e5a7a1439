// Watches a gateway from a process of its own: how long its event loop answers nobody, and what steady streams gain.
// `bun watch-child.ts <origin> <pid> <key>`; a line on standard input asks for the figures since the last, and the end
// of it ends the watch.
//
// The machine may be busy with other things, and no delay of theirs is the gateway's fault. The kernel counts how long
// the gateway's thread has run and how long it has waited for a core while it could have run (schedstat), and the
// same of this process: what is held against the gateway is only time in which its own thread ran.

import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import type { Figures } from './hostile.ts'

const [origin, pid, key, streamCount, seconds] = process.argv.slice(2)
if (!origin || !pid || !key)
  throw new Error('usage: bun watch-child.ts <origin> <pid> <key> <streams> <seconds>')
const port = Number(new URL(origin).port)

const now = () => performance.timeOrigin + performance.now()

/** Milliseconds that the gateway's main thread has run on a core so far. */
function ran(): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'latin1').split(' ')[0]) / 1e6
}

// ---- how long the loop is held --------------------------------------------------------------------------------

let holds: number[] = []

/** Asks for the health again and again. While an answer is awaited, the loop is held for no longer than its thread ran. */
function probe(): void {
  const socket = connect({ host: '127.0.0.1', port })
  let askedAt = 0
  let ranAt = 0
  const ask = () => {
    askedAt = now()
    ranAt = ran()
    socket.write('GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
  }
  socket.on('connect', ask)
  socket.on('data', () => {
    holds.push(Math.min(now() - askedAt, ran() - ranAt))
    setTimeout(ask, 5)
  })
  socket.on('close', () => process.exit(1))
}

// ---- what steady streams gain -----------------------------------------------------------------------------------

/** What the thread had run by when; the delay of an event is held against the gateway only as far as it ran within. */
const ranBy: { at: number; ms: number }[] = []
setInterval(() => {
  ranBy.push({ at: now(), ms: ran() })
  if (ranBy.length > 4_000) ranBy.splice(0, 2_000)
}, 5)

function ranSince(at: number): number {
  let from = ranBy.length - 1
  while (from > 0 && ranBy[from]!.at > at) from--
  return ran() - (ranBy[from]?.ms ?? 0)
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
      delays.push(delay > 20 ? Math.min(delay, ranSince(sentAt)) : delay)
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
