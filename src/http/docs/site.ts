// How the pages of /docs look, and how Markdown becomes one of them. Pages name each other, the style and the script
// relative to their own address, so that they also work below a path of a proxy.

import { Marked, type Tokens } from 'marked'
import { type GuidePart, guideParts } from '../../guide/pages.ts'
import { escapeHtml } from '../../text/html.ts'
import script from './site-script.js' with { type: 'text' }
import style from './site.css' with { type: 'text' }

/** Water falling over a sill, as a data URL without quotes. */
const icon =
  'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 32 32%22%3E%3Crect width=%2232%22 height=%2232%22 rx=%227%22 fill=%22%230b6e8f%22/%3E%3Cpath d=%22M5 10h11c5 0 4 12 11 12%22 fill=%22none%22 stroke=%22%23fff%22 stroke-width=%223.5%22 stroke-linecap=%22round%22/%3E%3C/svg%3E'

/** What the pages load besides themselves, at addresses that change with their text. */
export const siteFiles = {
  'site.js': { text: script, type: 'text/javascript; charset=utf-8' },
  'site.css': { text: style, type: 'text/css; charset=utf-8' },
} as const

/** The policy of every page: this gateway and nobody else, also for the calls that a reader tries. */
export const sitePolicy =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export interface SitePage {
  /** Of its address below /docs; empty for the first page. */
  readonly name: string
  readonly title: string
  /** HTML. */
  readonly main: string
}

/** A whole page. */
export function renderPage({ name, title, main }: SitePage): string {
  const near = name === '' ? 'docs/' : ''
  const file = (path: keyof typeof siteFiles) => `${near}${path}?v=${hashOf(siteFiles[path].text)}`
  const titleText = name === '' ? 'Weir: the guide' : `${title} – Weir`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(titleText)}</title>
<link rel="icon" href="${icon}">
<link rel="stylesheet" href="${file('site.css')}">
<script src="${file('site.js')}" data-docs="${near}" defer></script>
</head>
<body>
<a class="skip" href="#main">To the text</a>
<header>
<a class="home" href="${name === '' ? 'docs' : '../docs'}">Weir</a>
<search><label><span>Search</span><input id="search" type="search" autocomplete="off" placeholder="Search the guide" aria-controls="found"></label><ol id="found" hidden></ol></search>
<button id="menu" type="button" aria-expanded="false" aria-controls="pages">Pages</button>
</header>
<nav id="pages" aria-label="Pages">
${parts()
  .map((part) => partMenu(part, name, near))
  .join('\n')}
</nav>
<main id="main" tabindex="-1">
${main}
</main>
</body>
</html>
`
}

/** The guide's parts, with the pages that are not Markdown among the references. */
export function parts(): readonly (Pick<GuidePart, 'title' | 'about'> & {
  readonly pages: readonly { readonly name: string; readonly title: string }[]
})[] {
  return guideParts.map((part) =>
    part.title === 'Reference'
      ? {
          ...part,
          pages: [{ name: 'api', title: 'The API' }, { name: 'errors', title: 'Errors' }, ...part.pages],
        }
      : part,
  )
}

function partMenu(part: ReturnType<typeof parts>[number], name: string, near: string): string {
  const isHere = part.pages.some((page) => isShownIn(page.name, name))
  const links = part.pages.map((page) => {
    const here = page.name === name ? ' aria-current="page"' : ''
    return `<li><a href="${near}${page.name}"${here}>${escapeHtml(page.title)}</a></li>`
  })
  return `<details${isHere || name === '' ? ' open' : ''}><summary>${part.title}</summary><ul>${links.join('')}</ul></details>`
}

/** Pages of the API are one in the menu. */
function isShownIn(entry: string, name: string): boolean {
  return entry === name || (entry === 'api' && name.startsWith('api-'))
}

/** The first page: the doors of the guide. */
export function homePage(): SitePage {
  const doors = parts().map(
    ({ title, about, pages }) => `<section class="door">
<h2>${title}</h2>
<p>${about}</p>
<ul>${pages.map((page) => `<li><a href="docs/${page.name}">${escapeHtml(page.title)}</a></li>`).join('')}</ul>
</section>`,
  )
  const main = `<h1>Weir</h1>
<p class="lead">One API in front of every provider of language models. Every call is charged at the provider’s own price, exactly, once.</p>
<p><a class="begin" href="docs/start">Start here</a> <a class="begin" href="docs/api">The API</a></p>
<div class="doors">
${doors.join('\n')}
</div>`
  return { name: '', title: 'Weir', main }
}

/** Markdown of ours as HTML: headings have anchors, links to other pages lead to them, tables scroll by themselves. */
export function renderMarkdown(text: string): string {
  return markdown.parse(text, { async: false })
}

const markdown = new Marked({
  renderer: {
    heading({ tokens, depth, text }: Tokens.Heading) {
      const inner = this.parser.parseInline(tokens)
      if (depth === 1) return `<h1>${inner}</h1>\n`
      const id = anchorOf(text)
      return `<h${depth} id="${id}"><a href="#${id}">${inner}</a></h${depth}>\n`
    },
    link({ href, tokens }: Tokens.Link) {
      // An address of mail in an example is nobody's.
      if (href.startsWith('mailto:')) return this.parser.parseInline(tokens)
      const to = href.replace(/^([a-z0-9-]+)\.md(?=#|$)/, '$1')
      return `<a href="${escapeHtml(to)}">${this.parser.parseInline(tokens)}</a>`
    },
    code({ text, lang }: Tokens.Code) {
      const language = (lang ?? '').split(' ')[0] ?? ''
      return codeBlock(text, language)
    },
    table({ header, rows, align }: Tokens.Table) {
      const cell = (tag: 'th' | 'td') => (one: Tokens.TableCell, at: number) =>
        `<${tag}${tag === 'th' ? ' scope="col"' : ''}${align[at] ? ` class="${align[at]}"` : ''}>${this.parser.parseInline(one.tokens)}</${tag}>`
      const body = rows.map((row) => `<tr>${row.map(cell('td')).join('')}</tr>`).join('')
      return tableOf(`<thead><tr>${header.map(cell('th')).join('')}</tr></thead><tbody>${body}</tbody>`)
    },
  },
})

/** A block that may be wider than the page: it scrolls, also by the keyboard. */
export function codeBlock(text: string, language: string): string {
  const named = language === '' ? '' : ` data-language="${language}"`
  return `<pre${named} tabindex="0"><code>${escapeHtml(text)}</code></pre>\n`
}

export function tableOf(rows: string): string {
  return `<div class="table" tabindex="0"><table>${rows}</table></div>\n`
}

/** `What a call costs` → `what-a-call-costs`. */
export function anchorOf(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-|-$/g, '')
}

/** What changes an address together with a text. */
export function hashOf(text: string): string {
  return new Bun.CryptoHasher('sha256').update(text).digest('base64url').slice(0, 12)
}

/** A part of a page that the search finds. */
export interface SearchEntry {
  readonly page: string
  readonly title: string
  readonly heading: string
  readonly anchor: string
  readonly text: string
}

/** The sections of every page of the guide, as plain words. */
export function guideEntries(): SearchEntry[] {
  return guideParts.flatMap(({ pages }) =>
    pages.flatMap(({ name, title, text }) =>
      text.split(/^## /m).map((section, at) => {
        const [first = '', ...rest] = section.split('\n')
        const heading = at === 0 ? '' : first
        return {
          page: name,
          title,
          heading,
          anchor: at === 0 ? '' : anchorOf(heading),
          text: rest
            .join(' ')
            .replace(/```\w*( shown)?|[`*|#>]|\]\([^)]*\)|\[/g, ' ')
            .replace(/\s+/g, ' ')
            .trim(),
        }
      }),
    ),
  )
}
