// `open_page` as a tool of the model: fetches a page and returns its readable part as markdown.

import { z } from 'zod'
import type { ToolResult, WebSearchDeclaration } from '../../../conversation/gateway-tools.ts'
import type { EgressOptions } from '../../../egress/egress.ts'
import type { GatewayTool, ToolContext } from '../../tool.ts'
import { simPageAt } from '../backends/sim.ts'
import { failedResult } from '../failed.ts'
import { boundText, oneLine, pageText } from '../results-text.ts'
import { fetchPage, PageFault, type PageLimits } from './fetch-page.ts'
import { type PageReader, UnreadablePage } from './page-reader.ts'

export interface OpenPageOptions {
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

export function openPageTool(options: OpenPageOptions): GatewayTool {
  return {
    preferredName: 'open_page',
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
      const url = urlIn(argumentsText)
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

function urlIn(argumentsText: string): string | undefined {
  try {
    return argumentsSchema.safeParse(JSON.parse(argumentsText)).data?.url
  } catch {
    return undefined
  }
}
