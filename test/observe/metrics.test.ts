import { describe, expect, test } from 'bun:test'
import { formatUsd } from '../../src/credits/money.ts'
import {
  CallLog,
  CallMetrics,
  type EndedCall,
  Histogram,
  joinFigures,
  type RequestLogRow,
} from '../../src/observe/call-log.ts'
import { logRowOf } from '../store/calls/support.ts'

function rowOf(changed: Partial<RequestLogRow> = {}): RequestLogRow {
  const tokens = { promptTokens: 7, completionTokens: 2, cost: 7_500_000n }
  return logRowOf('r', {
    model: 'lab/a',
    provider: 'lab',
    ...tokens,
    firstByteMs: 90,
    totalMs: 400,
    ...changed,
  })
}

const nothing = { commits: new Histogram(), syncs: new Histogram() }

function linesOf(metrics: CallMetrics): string[] {
  return metrics.text([], nothing).split('\n')
}

/** Without the histograms that are there from the start. */
function seriesOf(metrics: CallMetrics): string[] {
  return linesOf(metrics).filter((line) => /^weir_(calls|attempts|refusals|tokens|cost)/.test(line))
}

describe('metrics of calls', () => {
  test('calls, tokens and costs add up by provider and model; the cost is exact', () => {
    const metrics = new CallMetrics(formatUsd)
    metrics.count(rowOf())
    metrics.count(rowOf())
    metrics.count(rowOf({ code: 'upstream_error', status: 502, cost: 0n, firstByteMs: null }))
    expect(linesOf(metrics)).toEqual(
      expect.arrayContaining([
        '# TYPE weir_calls_total counter',
        'weir_calls_total{provider="lab",model="lab/a",code=""} 2',
        'weir_calls_total{provider="lab",model="lab/a",code="upstream_error"} 1',
        'weir_tokens_total{provider="lab",model="lab/a",kind="prompt"} 21',
        'weir_tokens_total{provider="lab",model="lab/a",kind="completion"} 6',
        'weir_cost_usd_total{provider="lab",model="lab/a"} 0.000015',
        'weir_call_duration_seconds_count{provider="lab"} 3',
        'weir_first_byte_seconds_count{provider="lab"} 2',
      ]),
    )
  })

  test('each bucket of a histogram has all that are below its bound', () => {
    const metrics = new CallMetrics(formatUsd)
    for (const totalMs of [50, 100, 400, 900_000]) metrics.count(rowOf({ totalMs }))
    const lines = linesOf(metrics).filter((line) => line.startsWith('weir_call_duration_seconds'))
    const bucket = (le: string) => `weir_call_duration_seconds_bucket{provider="lab",le="${le}"}`
    expect(lines).toEqual(
      expect.arrayContaining([
        `${bucket('0.1')} 2`,
        `${bucket('0.25')} 2`,
        `${bucket('0.5')} 3`,
        `${bucket('600')} 3`,
        `${bucket('+Inf')} 4`,
        'weir_call_duration_seconds_sum{provider="lab"} 900.55',
      ]),
    )
  })

  test('a refused call has no provider, and neither tokens nor times', () => {
    const metrics = new CallMetrics(formatUsd)
    metrics.count(rowOf({ provider: null, code: 'model_not_found', model: 'made/up' }), '')
    expect(seriesOf(metrics)).toEqual(['weir_calls_total{provider="",model="",code="model_not_found"} 1'])
  })

  test('names are quoted, and those of many models count as one', () => {
    const metrics = new CallMetrics(formatUsd)
    metrics.count(rowOf({ model: 'lab/"\\\n' }))
    expect(metrics.text([], nothing)).toContain(String.raw`model="lab/\"\\\n",code=""} 1`)
    for (let n = 0; n < 1_500; n++) metrics.count(rowOf({ model: `lab/${n}` }))
    const lines = linesOf(metrics).filter((line) => line.startsWith('weir_calls_total{'))
    expect(lines).toHaveLength(1_001)
    expect(lines).toContain('weir_calls_total{provider="lab",model="other",code=""} 501')
  })

  test('attempts are counted by provider and outcome, those of plain calls too', () => {
    const metrics = new CallMetrics(formatUsd)
    metrics.count(rowOf({ attempts: 3 }))
    const tried = [
      { provider: 'lab', outcome: 'upstream_error' },
      { provider: 'other', outcome: 'served' },
    ]
    metrics.count(rowOf({ provider: 'other', attempts: 2, tried }))
    metrics.count(rowOf({ attempts: 1, tried: [{ provider: 'lab', outcome: 'cached' }] }))
    metrics.count(rowOf({ provider: null, code: 'model_not_found', attempts: 0 }), '')
    expect(seriesOf(metrics).filter((line) => line.startsWith('weir_attempts'))).toEqual([
      'weir_attempts_total{provider="lab",outcome="upstream_error"} 1',
      'weir_attempts_total{provider="lab",outcome="cached"} 1',
      'weir_attempts_total{provider="lab",outcome="served"} 3',
      'weir_attempts_total{provider="other",outcome="served"} 1',
    ])
  })

  test('every refusal counts, of those that leave no row too', () => {
    const metrics = new CallMetrics(formatUsd)
    const quiet = () => undefined
    const rows: RequestLogRow[] = []
    const calls = new CallLog({
      log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
      keep: quiet,
      keepRefused: (row) => rows.push(row),
      keepTurnedAway: quiet,
      countRefusal: (code) => metrics.countRefusal(code),
      usd: formatUsd,
    })
    const refused: EndedCall = {
      ...rowOf({ provider: null, code: 'insufficient_credits', status: 402 }),
      lastFour: null,
    }
    for (let n = 0; n < 500; n++) calls.onRefused(refused, new Error('refused'))
    calls.turnedAway({ code: 'invalid_api_key' }, new Error('refused'))
    calls.onEnded(refused, undefined)
    // A call that a provider failed is none.
    calls.onEnded({ ...refused, provider: 'lab', code: 'upstream_error', status: 502 }, undefined)
    expect(rows.length).toBeLessThan(200)
    expect(seriesOf(metrics)).toEqual([
      'weir_refusals_total{code="insufficient_credits"} 501',
      'weir_refusals_total{code="invalid_api_key"} 1',
    ])
  })
})

test('the figures of several processes are one text: each name once, each series with its process', () => {
  const text = (value: number) =>
    `# HELP weir_a A.\n# TYPE weir_a gauge\nweir_a ${value}\n# HELP weir_b B, {c} d.\n# TYPE weir_b counter\nweir_b{of="x, {y} 1"} ${value}\n`
  expect(
    joinFigures([
      { process: 2, text: text(2) },
      { process: 1, text: text(1) },
    ]),
  ).toBe(
    [
      '# HELP weir_a A.',
      '# TYPE weir_a gauge',
      'weir_a{process="1"} 1',
      'weir_a{process="2"} 2',
      '# HELP weir_b B, {c} d.',
      '# TYPE weir_b counter',
      'weir_b{process="1",of="x, {y} 1"} 1',
      'weir_b{process="2",of="x, {y} 1"} 2',
      '',
    ].join('\n'),
  )
})
