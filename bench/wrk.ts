// Drives one address with `wrk` and reads its figures.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { otherCore } from './processes.ts'

export interface Load {
  readonly url: string
  readonly key: string
  /** Beside those of every call. */
  readonly headers?: Readonly<Record<string, string>>
  readonly body: object
  readonly connections: number
  readonly seconds: number
  /**
   * Mean pause of each connection before a request; 0 drives as fast as it goes. The pauses are spread exponentially: with
   * equal ones all connections would ask at the same moment, over and over.
   */
  readonly pauseMs: number
  /** What each answer has to hold; not looked at without it, which spares the driver time. */
  readonly expected?: readonly Expected[]
}

/** How often something stands in an answer: a text in which a space after a colon may be missing. */
export interface Expected {
  readonly text: string
  readonly times: number
}

/** What of an answer is not as expected. */
export function faultIn(answer: string, expected: readonly Expected[]): string | undefined {
  const close = answer.replaceAll('": ', '":')
  const found = expected.find(({ text, times }) => close.split(text).length - 1 !== times)
  return found && `${JSON.stringify(found.text)} is not there ${found.times} time(s)`
}

export interface Figures {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  /** Answers that were not 200, and requests without one. */
  readonly failures: number
}

/** Runs the load, pinned away from the gateway. Latencies are in milliseconds. */
export async function drive(load: Load): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-wrk-'))
  try {
    const script = join(folder, 'load.lua')
    writeFileSync(script, scriptOf(load))
    const child = Bun.spawn(
      [
        'taskset',
        '-c',
        otherCore,
        'wrk',
        '-t1',
        `-c${load.connections}`,
        `-d${load.seconds}s`,
        '--timeout',
        '10s',
        '-s',
        script,
        load.url,
      ],
      { stdin: 'ignore', stdout: 'pipe', stderr: 'inherit' },
    )
    const text = await new Response(child.stdout).text()
    const line = text.split('\n').find((each) => each.startsWith('FIGURES '))
    if (line === undefined) throw new Error(`wrk gave no figures:\n${text}`)
    const [requests, micros, p50, p99, failures] = line.slice(8).split(' ').map(Number) as [
      number,
      number,
      number,
      number,
      number,
    ]
    return { perSecond: (requests / micros) * 1e6, p50: p50 / 1000, p99: p99 / 1000, failures }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** In a body: a number that is another with each request. */
export const another = '<another>'

function bodyIn(text: string): string {
  const [before, behind] = text.split(another).map((part) => JSON.stringify(part)) as [string, string?]
  if (behind === undefined) return `wrk.body = ${before}`
  return `
local before, behind, count = ${before}, ${behind}, 100000
function request()
  count = count + 1
  return wrk.format(nil, nil, nil, before .. count .. behind)
end`
}

/** The pattern of an expected text. */
function patternOf(text: string): string {
  return text.replaceAll(/[^\w\s":]/g, '%$&').replaceAll('":', '":%s*')
}

function checkOf(expected: readonly Expected[]): string {
  const checks = expected.map(
    ({ text, times }) =>
      `  if countOf(body, ${JSON.stringify(patternOf(text))}) ~= ${times} then return false end`,
  )
  return `
function countOf(body, pattern)
  local count = 0
  for _ in body:gmatch(pattern) do count = count + 1 end
  return count
end
function isRight(body)
${checks.join('\n')}
  return true
end
function response(status, headers, body)
  if status == 200 and not isRight(body) then wrong = wrong + 1 end
end`
}

function scriptOf(load: Load): string {
  // wrk counts a status above 399 as an error by itself, and nothing else.
  return `
wrk.method = "POST"
${bodyIn(JSON.stringify(load.body))}
wrk.headers["content-type"] = "application/json"
wrk.headers["authorization"] = ${JSON.stringify(`Bearer ${load.key}`)}
${Object.entries(load.headers ?? {})
  .map(([name, value]) => `wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}`)
  .join('\n')}
${load.pauseMs > 0 ? `function delay() return math.floor(-${load.pauseMs} * math.log(1 - math.random()) + 0.5) end` : ''}
${load.expected === undefined ? '' : checkOf(load.expected)}
local driver
wrong = 0
function setup(thread) driver = thread end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("FIGURES %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99), e.status + e.connect + e.read + e.write + e.timeout + driver:get("wrong")))
end
`
}
