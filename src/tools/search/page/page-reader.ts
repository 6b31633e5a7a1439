// Converts pages to markdown in a worker, so that a hostile page cannot block calls. The worker is started for the
// first page, handles one at a time, and ends when a page takes too long or when idle. A page that takes too long as
// markdown is then read as plain text.

import TurndownService from 'turndown'
import { Worker } from 'node:worker_threads'
import { Readability } from '@mozilla/readability'
import { parseHTML } from 'linkedom/worker'

/** What goes to the worker. */
export interface ToExtract {
  readonly job: number
  readonly html: string
  readonly address: string
  readonly as: 'markdown' | 'text'
}

/** From the worker: that it has started, then one page per job. */
export type FromWorker = { readonly started: true } | ({ readonly job: number } & Extracted)

/** The page could not be converted in time, or too many others are waiting. */
export class UnreadablePage extends Error {}

interface Job extends ToExtract {
  readonly signal: AbortSignal
  readonly resolve: (extracted: Extracted) => void
  readonly reject: (reason: unknown) => void
}

/** An idle worker ends after this long, milliseconds. */
const idleMs = 60_000
/** Starting the worker loads a few hundred kilobytes of code. */
const startMs = 10_000
/** Limit of waiting pages: each is held in memory. */
const mostWaiting = 32

export class PageReader {
  readonly #timeoutMs: number
  readonly #waiting: Job[] = []
  #running: Job | undefined
  #last = 0
  #worker: Worker | undefined
  /** The worker has started and takes jobs. */
  #ready = false
  #idle: ReturnType<typeof setTimeout> | undefined
  #deadline: ReturnType<typeof setTimeout> | undefined

  /** @param timeoutMs how long a page may take, each way, milliseconds; starting the worker is not counted. */
  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** Whether a worker runs now. */
  get running(): boolean {
    return this.#worker !== undefined
  }

  /** The page as markdown. Throws UnreadablePage, and the signal's reason if the caller gave up. */
  extract(html: string, address: string, signal: AbortSignal): Promise<Extracted> {
    signal.throwIfAborted()
    if (this.#waiting.length >= mostWaiting) return Promise.reject(new UnreadablePage('too many pages wait'))
    const { promise, resolve, reject } = Promise.withResolvers<Extracted>()
    const job: Job = { job: ++this.#last, html, address, as: 'markdown', signal, resolve, reject }
    const give = () => {
      const at = this.#waiting.indexOf(job)
      if (at >= 0) this.#waiting.splice(at, 1)
      reject(signal.reason)
    }
    signal.addEventListener('abort', give, { once: true })
    this.#waiting.push(job)
    this.#next()
    return promise.finally(() => signal.removeEventListener('abort', give))
  }

  stop(): void {
    clearTimeout(this.#idle)
    clearTimeout(this.#deadline)
    void this.#worker?.terminate()
    this.#worker = undefined
    this.#ready = false
  }

  #next(): void {
    if (this.#running) return
    const job = this.#waiting.shift()
    if (!job) return
    this.#running = job
    clearTimeout(this.#idle)
    if (this.#ready) this.#send(job)
    else this.#start()
  }

  #send({ job, html, address, as }: Job): void {
    clearTimeout(this.#deadline)
    this.#worker?.postMessage({ job, html, address, as } satisfies ToExtract)
    this.#deadline = setTimeout(() => this.#late(), this.#timeoutMs)
  }

  /** The worker is still busy with the page: it is ended, and another reads the page as text. */
  #late(): void {
    const late = this.#running
    if (late?.as !== 'markdown' || late.signal.aborted)
      return this.#fail(new UnreadablePage(`it takes longer than ${this.#timeoutMs} ms to read`))
    this.stop()
    this.#running = { ...late, as: 'text' }
    this.#start()
  }

  /** The worker's current page is abandoned with it. */
  #fail(reason: unknown): void {
    this.stop()
    const failed = this.#running
    this.#running = undefined
    failed?.reject(reason)
    this.#next()
  }

  #take(message: FromWorker): void {
    if ('started' in message) {
      this.#ready = true
      if (this.#running) this.#send(this.#running)
      return
    }
    const { job, ...extracted } = message
    if (this.#running?.job !== job) return
    clearTimeout(this.#deadline)
    this.#running.resolve(extracted)
    this.#running = undefined
    this.#next()
    if (this.#running) return
    this.#idle = setTimeout(() => this.stop(), idleMs)
    this.#idle.unref()
  }

  #start(): void {
    const worker = startWorker()
    worker.on('message', (message: FromWorker) => {
      if (this.#worker === worker) this.#take(message)
    })
    worker.on('error', (error) => {
      if (this.#worker === worker) this.#fail(new UnreadablePage(`the reader failed: ${error.message}`))
    })
    // A process that exits does not wait for the worker.
    worker.unref()
    this.#worker = worker
    this.#deadline = setTimeout(() => this.#fail(new UnreadablePage('the reader did not start')), startMs)
  }
}

function startWorker(): Worker {
  // The executable keeps all code in one folder, the worker where the build put its file.
  const inSource = import.meta.url.endsWith('.ts')
  const file = inSource ? './page-worker.ts' : './tools/search/page/page-worker.ts'
  return new Worker(new URL(file, import.meta.url))
}

// Converts HTML to markdown, keeping the readable part. Runs in the worker; nothing of the page is executed.

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
