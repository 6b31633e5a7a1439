// The error reference: one page without scripts, one section per code. Errors link to it (`docs_url`).

import { renderError, GatewayError, type errorReference } from '../../errors.ts'

type Row = ReturnType<typeof errorReference>[number]

/** Water falling over a sill, as a data URL without quotes. */
export const icon =
  'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 32 32%22%3E%3Crect width=%2232%22 height=%2232%22 rx=%227%22 fill=%22%230b6e8f%22/%3E%3Cpath d=%22M5 10h11c5 0 4 12 11 12%22 fill=%22none%22 stroke=%22%23fff%22 stroke-width=%223.5%22 stroke-linecap=%22round%22/%3E%3C/svg%3E'

/** The page, and the hash that allows its style element in the Content-Security-Policy. */
export function errorPage(rows: readonly Row[]): { html: string; styleHash: string } {
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Weir: errors</title>
<link rel="icon" href="${icon}">
<style>${style}</style>
</head>
<body>
<header>
<p><a href="/docs">API reference</a></p>
<h1>Errors</h1>
${introduction()}
</header>
<nav aria-label="All codes">
${byStatus(rows).map(contents).join('\n')}
</nav>
<main>
${rows.map(section).join('\n')}
</main>
</body>
</html>
`
  return { html, styleHash: hashSource(style) }
}

/** The source expression of an inline style or script for a Content-Security-Policy, without quotes. */
export function hashSource(text: string): string {
  return `sha256-${new Bun.CryptoHasher('sha256').update(text).digest('base64')}`
}

function introduction(): string {
  const example = new GatewayError('credits_reserved', { retryAfterMs: 2_000 })
  return `<p>Every error has the same shape. <code>code</code> says what happened and has its section below, <code>param</code> names the field at fault, and <code>request_id</code> finds the request in the log.</p>
<pre><code>${escapeHtml(JSON.stringify(renderError(example, 'req_01a1fcaa216272aa8d5548c4e8af6c09'), null, 2))}</code></pre>
<p>The header <code>x-should-retry</code> tells whether the same request may succeed later, <code>retry-after-ms</code> and <code>retry-after</code> when. The official client libraries obey them. The same table as JSON: <a href="/v1/errors"><code>GET /v1/errors</code></a>.</p>`
}

function byStatus(rows: readonly Row[]): readonly (readonly Row[])[] {
  const groups = Map.groupBy(rows, ({ status }) => status)
  return [...groups].toSorted(([a], [b]) => a - b).map(([, group]) => group)
}

function contents(group: readonly Row[]): string {
  const links = group.map(({ code }) => `<a href="#${code}">${code}</a>`).join(' ')
  return `<p><b>${group[0]!.status}</b> <span>${links}</span></p>`
}

function section({ code, status, type, retryable, means, remedy }: Row): string {
  return `<section id="${code}">
<h2><a href="#${code}">${code}</a></h2>
<p class="facts"><b>${status}</b> ${type} <span>${retryable ? 'may be retried' : 'do not retry unchanged'}</span></p>
<p>${prose(means)}</p>
<p class="remedy">${prose(remedy)}</p>
</section>`
}

function prose(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>')
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`)
}

const style = `
:root { color-scheme: light dark; --ink: light-dark(#16242b, #dfe9ee); --dim: light-dark(#566970, #93a6ae); --paper: light-dark(#fff, #10181c); --bed: light-dark(#eef4f6, #19252b); --water: light-dark(#0b6e8f, #5cc3e3) }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1.5rem 1rem 6rem; max-width: 46rem; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere }
a { color: var(--water) }
h1 { margin: .5rem 0 1rem; font-size: 2rem; line-height: 1.2 }
h2 { margin: 0; font-size: 1.1rem }
h2 a { color: inherit; text-decoration: none }
h2 a:hover { text-decoration: underline }
code, h2, nav a { font-family: ui-monospace, monospace }
code { font-size: .9em }
pre { padding: 1rem; background: var(--bed); border-radius: .5rem; overflow-x: auto; overflow-wrap: normal; line-height: 1.4 }
nav { margin: 2rem 0; padding: .5rem 1rem; background: var(--bed); border-radius: .5rem; font-size: .9rem }
nav p { display: flex; gap: 1rem; margin: .5rem 0 }
nav b { flex: none }
nav span { display: flex; flex-wrap: wrap; gap: .25rem 1rem }
section { padding: 1.25rem 0; border-top: 1px solid var(--bed); scroll-margin-top: 1rem }
section p { margin: .4rem 0 }
section:target { margin: 0 -1rem; padding: 1.25rem 1rem; border-radius: .5rem; background: var(--bed); box-shadow: inset 4px 0 var(--water) }
.facts { color: var(--dim); font-size: .9rem }
.facts span::before { content: '· ' }
.remedy::before { content: '→ '; color: var(--water) }
`
