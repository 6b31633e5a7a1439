// Converts HTML to markdown, keeping the readable part. Runs in the worker; nothing of the page is executed.
// Its packages are large: no other file may load it, or every start does (test/serve/start-imports.test.ts).

import { Readability } from '@mozilla/readability'
import { parseHTML } from 'linkedom/worker'
import TurndownService from 'turndown'

export interface Extracted {
  readonly title: string
  readonly markdown: string
}

/** Limit of elements for Readability; a page with more is converted to plain text. */
const mostElements = 60_000

/** Never throws: a page that cannot be parsed gives the text between its tags. */
export function extract(html: string, address: string): Extracted {
  try {
    if (html.split('<', mostElements + 1).length > mostElements) return plainText(html)
    return read(html, address)
  } catch {
    // Nesting beyond the stack, for one.
    return plainText(html)
  }
}

function read(html: string, address: string): Extracted {
  // Without a root element the parser would keep only the first element.
  const { document } = parseHTML(/<html[\s>]/i.test(html) ? html : `<html><body>${html}</body></html>`)
  const ownTitle = document.querySelector('title')?.textContent ?? ''
  for (const element of document.querySelectorAll(neverRead)) element.remove()
  const all = markdownOf(document.body, address)
  const article = new Readability<Node>(document, {
    maxElemsToParse: mostElements,
    serializer: (node) => node,
    disableJSONLD: true,
  }).parse()
  const main = article?.content ? markdownOf(article.content as HTMLElement, address) : ''
  // Link lists and short pages have no article: then the whole page is better than what Readability extracts.
  const markdown = main.length * 5 >= all.length || main.length > 2_000 ? main : all
  const title = article?.title?.trim() ?? ''
  return { title: title === '' ? ownTitle.trim() : title, markdown }
}

const neverRead =
  'body title, script, style, noscript, template, iframe, object, embed, svg, canvas, form, [hidden], [aria-hidden="true"], [style*="display:none"], [style*="display: none"], [style*="visibility:hidden"], [style*="visibility: hidden"]'

function markdownOf(element: HTMLElement, address: string): string {
  const turndown = new TurndownService({
    headingStyle: 'atx',
    codeBlockStyle: 'fenced',
    bulletListMarker: '-',
  })
  turndown.addRule('image', { filter: 'img', replacement: (_, node) => attribute(node, 'alt') })
  turndown.addRule('link', {
    filter: 'a',
    replacement: (content, node) => {
      const target = absolute(attribute(node, 'href'), address)
      return target === undefined || content.trim() === '' ? content : `[${content.trim()}](${target})`
    },
  })
  return turndown
    .turndown(element)
    .replace(/[ \t]+\n/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim()
}

function attribute(node: Node, name: string): string {
  return 'getAttribute' in node ? ((node as Element).getAttribute(name) ?? '') : ''
}

/** Links that can be followed, unlike scripts, data URLs and fragments. */
function absolute(href: string, address: string): string | undefined {
  if (href === '' || href.startsWith('#')) return undefined
  const url = URL.parse(href, address)
  const follows = url?.protocol === 'https:' || url?.protocol === 'http:'
  return url && follows && url.href.length <= 2_048
    ? url.href.replace(/[()]/g, encodeURIComponent)
    : undefined
}

/** The text between the tags, in one linear pass. */
export function plainText(html: string): Extracted {
  const parts: string[] = []
  let hidden: string | undefined
  for (let at = 0; at < html.length;) {
    const open = html.indexOf('<', at)
    const end = open < 0 ? html.length : open
    if (hidden === undefined && end > at) parts.push(html.slice(at, end))
    if (open < 0) break
    const close = html.indexOf('>', open)
    if (close < 0) break
    const name = /^\/?[a-z0-9]+/i.exec(html.slice(open + 1, open + 20))?.[0].toLowerCase() ?? ''
    if (hidden === undefined && /^(script|style|noscript|template)$/.test(name)) hidden = `/${name}`
    else if (name === hidden) hidden = undefined
    if (/^\/?(p|div|li|tr|h[1-6]|br|section|article|table|ul|ol)$/.test(name)) parts.push('\n')
    at = close + 1
  }
  const markdown = parts
    .join('')
    .replace(/[ \t]+/g, ' ')
    .replace(/\s*\n\s*/g, '\n')
    .trim()
  return { title: '', markdown }
}
