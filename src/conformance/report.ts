// What a trial has found, as text for a terminal and as a page that can be published.

import type { CaseResult } from './trial.ts'

export interface Report {
  readonly base_url: string
  readonly model: string
  /** ISO 8601. */
  readonly made_at: string
  /** The version of the program whose cases they are. */
  readonly weir: string
  readonly scores: Readonly<Record<string, Score>>
  readonly results: readonly CaseResult[]
}

/** Of a protocol, or of all together (`all`). */
export interface Score {
  readonly passed: number
  readonly failed: number
  readonly left_out: number
}

export function scoresOf(results: readonly CaseResult[]): Report['scores'] {
  const protocols = [...new Set(results.map(({ protocol }) => protocol))]
  const scored = protocols.map(
    (name) => [name, scoreOf(results.filter(({ protocol }) => protocol === name))] as const,
  )
  return { all: scoreOf(results), ...Object.fromEntries(scored) }
}

function scoreOf(results: readonly CaseResult[]): Score {
  const count = (wanted: CaseResult['verdict']) => results.filter(({ verdict }) => verdict === wanted).length
  return { passed: count('passed'), failed: count('failed'), left_out: count('left_out') }
}

const marks: Readonly<Record<CaseResult['verdict'], string>> = {
  passed: 'ok',
  failed: 'FAILED',
  left_out: 'left out',
}

/** The line of one case, and below it what did not hold. */
export function lineOf({ id, verdict, about, faults }: CaseResult): string {
  const line = `${marks[verdict].padEnd(8)}  ${id.padEnd(24)}  ${about}`
  return [line, ...faults.map((fault) => `          ${fault}`)].join('\n')
}

export function scoreLine(name: string, { passed, failed, left_out }: Score): string {
  const left = left_out === 0 ? '' : `, ${left_out} left out`
  return `${name}: ${passed} of ${passed + failed} hold${left}`
}

/** The report as one page without anything from elsewhere. */
export function reportPage(report: Report): string {
  const { base_url, model, made_at, weir, scores, results } = report
  const head = Object.entries(scores).map(
    ([name, { passed, failed, left_out }]) =>
      `<tr><th>${escapeText(name)}</th><td>${passed}</td><td>${failed}</td><td>${left_out}</td></tr>`,
  )
  const rows = results.map(
    ({ id, subject, verdict, about, faults, ms }) =>
      `<tr class="${verdict}"><td>${marks[verdict]}</td><td><code>${escapeText(id)}</code></td><td>${escapeText(subject)}</td>` +
      `<td>${escapeText(about)}${faults.map((fault) => `<p>${escapeText(fault)}</p>`).join('')}</td><td>${ms} ms</td></tr>`,
  )
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conformance of ${escapeText(base_url)}</title>
<style>
:root { color-scheme: light dark; --bad: light-dark(#b3261e, #ffb4ab); --quiet: light-dark(#5a5a5a, #a8a8a8) }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid light-dark(#ddd, #444) }
td p { margin: .2rem 0 0; color: var(--quiet); overflow-wrap: anywhere }
.failed td:first-child { color: var(--bad); font-weight: 600 }
.left_out { color: var(--quiet) }
.wide { overflow-x: auto }
td:last-child { white-space: nowrap }
</style>
<h1>Conformance of ${escapeText(base_url)}</h1>
<p>Model <code>${escapeText(model)}</code>, ${escapeText(made_at)}, by the cases of weir ${escapeText(weir)}.</p>
<table><thead><tr><th>Protocol</th><th>Hold</th><th>Fail</th><th>Left out</th></tr></thead><tbody>${head.join('')}</tbody></table>
<div class="wide"><table><thead><tr><th>Verdict</th><th>Case</th><th>Subject</th><th>What holds</th><th>Time</th></tr></thead>
<tbody>${rows.join('\n')}</tbody></table></div>
</html>
`
}

function escapeText(text: string): string {
  return Bun.escapeHTML(text)
}
