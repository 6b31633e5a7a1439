// The configured web search, opened once for each call that declares it.

import type { WebSearchDeclaration } from '../../conversation/gateway-tools.ts'
import type { Pico } from '../../credits/money.ts'
import type { EgressOptions } from '../../egress/egress.ts'
import { GatewayError } from '../../errors.ts'
import type { ToolCaller, ToolSource, ToolSources } from '../tool.ts'
import {
  recencies,
  type Recency,
  searchEngines,
  type SearchBackend,
  type SearchEngine,
  type SearchFault,
} from './backends/backend.ts'
import { hostedBackend } from './backends/hosted.ts'
import { brave, exa, searxng, tavily } from './backends/rows.ts'
import { simBackend } from './backends/sim.ts'
import { domainFilter } from './domains.ts'
import type { PageLimits } from './page/fetch-page.ts'
import { openPageTool } from './page/open-page.ts'
import { PageReader } from './page/page-reader.ts'
import { searchTool } from './search-tool.ts'

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
  open: ToolSources['webSearch']
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
