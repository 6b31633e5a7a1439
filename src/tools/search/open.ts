// The configured web search, opened once for each call that declares it.

import { z } from 'zod'
import { type ToolResult, type WebSearchDeclaration, webTools } from '../../conversation/gateway-tools.ts'
import type { Pico } from '../../credits/money.ts'
import { type EgressOptions, type Fetched, fetchPublic } from '../../egress/egress.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { GatewayTool, ToolCaller, ToolContext, ToolSource, ToolSources } from '../tool.ts'
import {
  argumentsIn,
  brave,
  exa,
  failedResult,
  hostedBackend,
  recencies,
  type Recency,
  type SearchBackend,
  type SearchEngine,
  searchEngines,
  type SearchFault,
  searxng,
  tavily,
} from './backends.ts'
import { simBackend, simPageAt } from './sim.ts'
import { PageReader, UnreadablePage } from './page/page-reader.ts'
import { boundText, domainFilter, oneLine, pageText, searchTool } from './search-tool.ts'

export interface SearchSettings {
  readonly backend: 'none' | SearchEngine
  readonly baseUrl: string | undefined
  readonly apiKey: string | undefined
  /** The price of a search, picodollars; undefined for the backend's list price. */
  readonly pricePerSearch: Pico | undefined
  readonly timeoutMs: number
  readonly maxResults: number
  /** Whether and how the model may open pages: see PageLimits. */
  readonly pages: (PageLimits & { readonly readMs: number }) | undefined
  /** Private hosts that pages may be on, as host or host:port. */
  readonly allowHosts: readonly string[]
  readonly now: () => number
  /** Called for every failed search, with details that clients do not see. */
  readonly onFault?: (fault: SearchFault) => void
  /** How the network is reached, in tests. */
  readonly rim?: Pick<EgressOptions, 'fetcher' | 'resolve'>
}

export interface WebSearch {
  /**
   * The tools of one call. Test keys search the offline index, whatever is configured or requested. Throws
   * `unsupported_parameter` if no backend is configured or another one is requested, and `invalid_request` for an
   * invalid domain or recency.
   */
  open: ToolSources['web-search']
  /** The configured backend; undefined without one. */
  readonly backend: SearchBackend | undefined
}

/** Creates the web search for these settings. Opens no connection. */
export function openSearch(settings: SearchSettings): WebSearch {
  const configured = backendOf(settings)
  const sim = simBackend(settings.now)
  const reader = new PageReader(settings.pages?.readMs ?? 0)
  return {
    backend: configured,
    open: (declaration, _declared, caller) => {
      const backend = chooseBackend(declaration, caller, configured, sim)
      const { allowedDomains, blockedDomains, param, domainsParam = param, contextSize } = declaration
      const allows = domainFilter(allowedDomains, blockedDomains, domainsParam)
      const tool = searchTool({
        backend,
        request: declaration,
        recency: recencyOf(declaration),
        maxResults: settings.maxResults,
        allows,
        onFault: settings.onFault ?? (() => undefined),
      })
      // Fields that clients send by default must not cause pages to be opened.
      if (!settings.pages || declaration.optional === true) return sourceOf([tool])
      const egress = { allowHosts: settings.allowHosts, ...settings.rim }
      const offline = backend.id !== 'sim' ? 'no' : caller.mode === 'test' ? 'alone' : 'with-web'
      const page = openPageTool({ offline, contextSize, allows, limits: settings.pages, reader, egress })
      return sourceOf([tool, page])
    },
  }
}

function sourceOf(tools: Awaited<ReturnType<ToolSource['open']>>['tools']): ToolSource {
  return { open: () => Promise.resolve({ tools, items: [] }), close: () => Promise.resolve() }
}

function backendOf(settings: SearchSettings): SearchBackend | undefined {
  const { backend, baseUrl, apiKey, pricePerSearch, timeoutMs, rim = {} } = settings
  if (backend === 'none') return undefined
  if (backend === 'sim') return simBackend(settings.now, pricePerSearch)
  const rows = { searxng, tavily, brave, exa: exa(settings.now) }
  return hostedBackend(rows[backend], { baseUrl, apiKey, price: pricePerSearch, timeoutMs, rim })
}

function chooseBackend(
  { engine, param }: WebSearchDeclaration,
  { mode }: ToolCaller,
  configured: SearchBackend | undefined,
  sim: SearchBackend,
): SearchBackend {
  const known: readonly string[] = ['auto', 'native', ...searchEngines]
  if (!known.includes(engine)) {
    const message = `${param}.engine must be one of ${known.join(', ')}.`
    throw new GatewayError('invalid_request', { message, param: `${param}.engine` })
  }
  if (mode === 'test' || engine === 'sim') return sim
  if (configured === undefined) {
    throw refusalOf(
      param,
      'Web search is not set up on this gateway, and the provider of this model has none that can be used: the ' +
        'operator sets search.backend to searxng, tavily, brave, exa or sim. Test keys search an offline index.',
    )
  }
  if (engine === 'auto' || engine === configured.id) return configured
  throw refusalOf(
    param,
    engine === 'native'
      ? `The provider of this model has no web search of its own that can be used here: leave engine out to search with ${configured.id}.`
      : `The search engine ${engine} is not set up on this gateway (search.backend is ${configured.id}): leave engine out.`,
  )
}

function refusalOf(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_parameter', { message, param })
}

/** The declaration's own `recency`, an addition of ours to every protocol. */
function recencyOf({ rest, param }: WebSearchDeclaration): Recency | undefined {
  const { recency } = rest
  if (recency === undefined || recency === null) return undefined
  const known = recencies.find((each) => each === recency)
  if (known) return known
  const field = `${param}.recency`
  throw new GatewayError('invalid_request', {
    message: `${field} must be day, week, month or year.`,
    param: field,
  })
}

// `open_page` as a tool of the model: fetches a page and returns its readable part as markdown.

interface OpenPageOptions {
  /** How the offline index is used: `with-web` opens other pages too, `alone` (for test keys) only its own. */
  readonly offline: 'no' | 'with-web' | 'alone'
  readonly contextSize: WebSearchDeclaration['contextSize']
  /** The domain rules of the request, which also apply to redirects. */
  readonly allows: (url: string) => boolean
  readonly limits: PageLimits
  readonly reader: PageReader
  readonly egress: EgressOptions
}

/** Characters per page, by the requested context size. */
const pageCharacters: Readonly<Record<WebSearchDeclaration['contextSize'], number>> = {
  low: 8_000,
  medium: 24_000,
  high: 60_000,
}

const argumentsSchema = z.object({ url: z.string().trim().min(1).max(2_048) })

function openPageTool(options: OpenPageOptions): GatewayTool {
  return {
    preferredName: webTools['open-page'].name,
    description:
      'Opens a page of the web and returns its content as markdown. Use it to read a source that a search has found, ' +
      'or an address that the user has given.',
    parameters: {
      type: 'object',
      properties: {
        url: { type: 'string', description: 'The full address, beginning with https:// or http://.' },
      },
      required: ['url'],
      additionalProperties: false,
    },
    origin: { kind: 'open-page' },
    mostCost: 0n,
    run: async (argumentsText, context) => {
      context.signal.throwIfAborted()
      const url = argumentsIn(argumentsText, argumentsSchema)?.url
      if (url === undefined)
        return failedResult(
          'invalid_arguments',
          'The arguments must be JSON with a "url" that is a full address.',
        )
      const action = { type: 'open_page', url }
      try {
        return { ...(await openUrl(url, options, context)), action }
      } catch (error) {
        context.signal.throwIfAborted()
        if (error instanceof PageFault) return { ...failedResult(error.code, error.message), action }
        if (error instanceof UnreadablePage)
          return { ...failedResult('page_unreadable', `The page cannot be read: ${error.message}.`), action }
        throw error
      }
    },
  }
}

async function openUrl(url: string, options: OpenPageOptions, context: ToolContext): Promise<ToolResult> {
  if (!options.allows(url))
    throw new PageFault('url_not_allowed', 'The request does not allow the domain of this page.')
  const { title, markdown, address } = offlinePage(url, options) ?? (await read(url, options, context))
  if (markdown === '') throw new PageFault('page_empty', 'The page has no text that can be read.')
  const most = pageCharacters[options.contextSize]
  const cut =
    markdown.length > most
      ? `${boundText(markdown, most)}\n[cut: the page has ${markdown.length} characters]`
      : markdown
  const name = title === '' ? address : oneLine(title, 200)
  const addresses = address === url ? [url] : [address, url]
  return {
    text: pageText(address, name, cut),
    cost: 0n,
    searches: 0,
    sources: addresses.map((each) => ({ url: each, title: name })),
  }
}

interface ReadPage {
  readonly address: string
  readonly title: string
  readonly markdown: string
}

async function read(
  url: string,
  options: OpenPageOptions,
  { signal, deadlineAt }: ToolContext,
): Promise<ReadPage> {
  const left = Math.max(1, Math.floor(deadlineAt - performance.now()))
  const limits = { ...options.limits, fetchMs: Math.min(options.limits.fetchMs, left) }
  const page = await fetchPage(url, limits, { ...options.egress, allows: options.allows, signal })
  if (page.kind === 'text') return { address: page.url, title: '', markdown: page.text.trim() }
  return { address: page.url, ...(await options.reader.extract(page.text, page.url, signal)) }
}

function offlinePage(url: string, { offline }: OpenPageOptions): ReadPage | undefined {
  const page = offline === 'no' ? undefined : simPageAt(url)
  if (page) return { address: page.url, title: page.title, markdown: page.text }
  if (offline === 'alone')
    throw new PageFault('page_unavailable', 'The offline index holds no page at this address.')
  return undefined
}

// Fetches a web page as text through the egress guard; refuses other media, and decodes the text.

interface PageLimits {
  /** The most bytes of a page, after decompression. */
  readonly bytes: number
  /** The time limit for name resolution, redirects and the body, milliseconds. */
  readonly fetchMs: number
}

/** A page that cannot be read; code and message are for clients and models. */
class PageFault extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.name = 'PageFault'
    this.code = code
  }
}

interface Page {
  /** Where it was found, behind redirects. */
  readonly url: string
  readonly kind: 'html' | 'text'
  readonly text: string
}

/** Throws PageFault, and the signal's reason when the caller gave up. */
async function fetchPage(
  url: string,
  limits: PageLimits,
  options: EgressOptions & { readonly allows: (url: string) => boolean },
): Promise<Page> {
  const fetched = await fetchPublic(url, {
    ...options,
    maxBytes: limits.bytes,
    timeoutMs: limits.fetchMs,
    accept: 'text/html, application/xhtml+xml, text/plain;q=0.9, text/*;q=0.8, application/json;q=0.8',
  }).catch((error: unknown) => {
    options.signal?.throwIfAborted()
    if (!(error instanceof GatewayError)) throw error
    const code = error.code === 'url_not_allowed' ? 'url_not_allowed' : 'page_unavailable'
    throw new PageFault(code, error.message)
  })
  if (fetched.status >= 300)
    throw new PageFault('page_unavailable', `The page answers with HTTP ${fetched.status}.`)
  const kind = kindOf(fetched)
  if (kind === undefined) {
    const type = /^[\w.+-]+\/[\w.+-]+$/.test(fetched.mediaType)
      ? fetched.mediaType.slice(0, 80)
      : 'of an unknown type'
    throw new PageFault('page_not_text', `The page is ${type}: only web pages and text can be read.`)
  }
  return { url: fetched.url, kind, text: decodePage(fetched, kind) }
}

const textTypes = /^(text\/(?!rtf)|application\/([\w.-]+\+)?(json|xml|yaml|javascript|x-ndjson)$)/

/** undefined if it is not text, whatever its content type. */
function kindOf({ mediaType, bytes }: Fetched): Page['kind'] | undefined {
  const start = new TextDecoder('latin1').decode(bytes.subarray(0, 1_024))
  // UTF-16 contains zero bytes too, but begins with a byte order mark.
  if (start.startsWith('%PDF-') || (start.includes('\0') && !/^(ÿþ|þÿ)/.test(start))) return undefined
  if (mediaType === 'text/html' || mediaType === 'application/xhtml+xml') return 'html'
  if (textTypes.test(mediaType)) return 'text'
  // Servers use this type for unknown files.
  if (mediaType !== '' && mediaType !== 'application/octet-stream') return undefined
  return /^\s*(<!doctype html|<html)/i.test(start) ? 'html' : 'text'
}

/** By the header, the byte order mark or the page itself, in browsers' order of precedence. */
function decodePage({ bytes, charset }: Fetched, kind: Page['kind']): string {
  const start = new TextDecoder('latin1').decode(bytes.subarray(0, 1_024))
  const mark = start.startsWith('ï»¿')
    ? 'utf-8'
    : start.startsWith('ÿþ')
      ? 'utf-16le'
      : start.startsWith('þÿ')
        ? 'utf-16be'
        : undefined
  const named =
    kind === 'html' ? /<meta[^>]{0,200}?charset\s*=\s*["']?([\w:.-]+)/i.exec(start)?.[1] : undefined
  return decoderFor(mark ?? charset ?? named).decode(bytes)
}

function decoderFor(label: string | undefined): TextDecoder {
  try {
    return new TextDecoder(label ?? 'utf-8')
  } catch {
    return new TextDecoder()
  }
}
