// Traces of calls for a collector of OpenTelemetry: a span for each call, each provider that it asks and each tool that
// it runs, with the names of opentelemetry.io/docs/specs/semconv/gen-ai and the exact cost. No prompts, no answers, unless the log has them (`log.prompts`).
// The libraries are loaded only where the environment names a collector.

import type { Context, Span, Tracer } from '@opentelemetry/api'
import type { BatchSpanProcessorOptions } from '@opentelemetry/sdk-trace'
import { LRUCache } from 'lru-cache'
import type { EndedCall } from './call-log.ts'
import type { Log } from './log.ts'

type Attributes = Readonly<Record<string, string | number | boolean>>

/** A provider that is asked, or a tool that runs. */
export interface CallSpan {
  /** Headers with which the other side can go on with the trace. */
  readonly headers: Readonly<Record<string, string>>
  note(attributes: Attributes): void
  /** Only the first end counts. `error` says what kind of failure it was. */
  end(error?: string): void
}

export interface Traces {
  /** A request that costs money has come in; `arrivedAt` is of performance.now(). */
  onRequest(requestId: string, request: Request, model: string, arrivedAt: number): void
  /** Begins a span of a call; undefined for a call that has ended, or is not known. */
  spanOf(
    requestId: string,
    kind: 'provider' | 'tool' | 'guardrail',
    name: string,
    attributes: Attributes,
  ): CallSpan | undefined
  onCallEnded(call: EndedCall): void
  /** Sends what has not been sent yet, for at most a few seconds. Never rejects. */
  close(): Promise<void>
}

interface TracesParts {
  readonly version: string
  readonly log: Pick<Log, 'warn' | 'info'>
  /** Picodollars as a decimal string of US dollars. */
  readonly usd: (amount: bigint) => string
}

type Environment = Readonly<Record<string, string | undefined>>

/** More calls than run at once: what an answer from memory began, and nothing ends, is forgotten. */
const mostOpen = 20_000
const closeMs = 3_000

/**
 * The traces of this process, or undefined where the environment names no collector (`OTEL_EXPORTER_OTLP_ENDPOINT`, or
 * the same for traces alone). Address, headers, timeout, compression and certificates are read from the environment by
 * the exporter: opentelemetry.io/docs/specs/otel/protocol/exporter.
 */
export async function openTraces(env: Environment, parts: TracesParts): Promise<Traces | undefined> {
  const endpoint = env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] || env['OTEL_EXPORTER_OTLP_ENDPOINT']
  if (!endpoint || env['OTEL_SDK_DISABLED'] === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none')
    return undefined
  const protocol = env['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] || env['OTEL_EXPORTER_OTLP_PROTOCOL']
  if (protocol !== undefined && protocol !== 'http/protobuf')
    parts.log.warn('traces are sent as http/protobuf', { asked: protocol })
  const [api, sdk, exporting, resources, core] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/sdk-trace'),
    import('@opentelemetry/exporter-trace-otlp-proto'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/core'),
  ])
  const exporter = new exporting.OTLPTraceExporter()
  let isFailing = false
  const reporting = {
    export: (...[spans, done]: Parameters<typeof exporter.export>) =>
      exporter.export(spans, (result) => {
        const failed = result.code !== core.ExportResultCode.SUCCESS
        // One line when the collector is lost, and one when it is back.
        if (failed && !isFailing)
          parts.log.warn('traces cannot be sent', { endpoint: withoutSecrets(endpoint), error: result.error })
        if (!failed && isFailing) parts.log.info('traces are sent again', {})
        isFailing = failed
        done(result)
      }),
    shutdown: () => exporter.shutdown(),
  }
  const own = resources.resourceFromAttributes({
    'service.name': 'weir',
    'service.version': parts.version,
    // Several gateways are one service.
    'service.instance.id': crypto.randomUUID(),
  })
  const given = resources.detectResources({ detectors: [resources.envDetector] })
  const provider = new sdk.TracerProvider({
    resource: resources.defaultResource().merge(own).merge(given),
    sampler: samplerOf(env, sdk),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: reporting, ...batchOf(env) })],
  })
  return new CallTraces(parts, {
    api,
    tracer: provider.getTracer('weir', parts.version),
    propagation: new core.W3CTraceContextPropagator(),
    shutdown: () => provider.shutdown(),
  })
}

/** The origin of an address, without the name and password that it may hold. */
function withoutSecrets(address: string): string {
  return URL.canParse(address) ? new URL(address).origin : ''
}

/** As OTEL_TRACES_SAMPLER says: opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables. */
function samplerOf(env: Environment, sdk: typeof import('@opentelemetry/sdk-trace')) {
  const name = env['OTEL_TRACES_SAMPLER'] || 'parentbased_always_on'
  const asked = Number(env['OTEL_TRACES_SAMPLER_ARG'] || 1)
  const ratio = asked >= 0 && asked <= 1 ? asked : 1
  const bare = name.replace(/^parentbased_/, '')
  const root =
    bare === 'always_off'
      ? new sdk.AlwaysOffSampler()
      : bare === 'traceidratio'
        ? new sdk.TraceIdRatioBasedSampler(ratio)
        : new sdk.AlwaysOnSampler()
  return name.startsWith('parentbased_') ? new sdk.ParentBasedSampler({ root }) : root
}

/** As the variables of the batch processor say, of the same document. */
function batchOf(env: Environment): Partial<BatchSpanProcessorOptions> {
  const positive = (name: string) => {
    const value = Number(env[name])
    return Number.isInteger(value) && value > 0 ? value : undefined
  }
  const [everyMs, queue] = [positive('OTEL_BSP_SCHEDULE_DELAY'), positive('OTEL_BSP_MAX_QUEUE_SIZE')]
  const [batch, timeoutMs] = [positive('OTEL_BSP_MAX_EXPORT_BATCH_SIZE'), positive('OTEL_BSP_EXPORT_TIMEOUT')]
  return {
    ...(everyMs !== undefined && { scheduledDelayMillis: everyMs }),
    ...(queue !== undefined && { maxQueueSize: queue }),
    ...(batch !== undefined && { maxExportBatchSize: batch }),
    ...(timeoutMs !== undefined && { exportTimeoutMillis: timeoutMs }),
  }
}

interface Library {
  readonly api: typeof import('@opentelemetry/api')
  readonly tracer: Tracer
  readonly propagation: import('@opentelemetry/core').W3CTraceContextPropagator
  readonly shutdown: () => Promise<void>
}

interface OpenCall {
  readonly span: Span
  readonly context: Context
  readonly operation: string
  /** What the providers that were asked are called in traces, by their ids. */
  readonly providers: Map<string, string>
}

class CallTraces implements Traces {
  readonly #parts: TracesParts
  readonly #library: Library
  readonly #open = new LRUCache<string, OpenCall>({ max: mostOpen })

  constructor(parts: TracesParts, library: Library) {
    this.#parts = parts
    this.#library = library
  }

  onRequest(requestId: string, request: Request, model: string, arrivedAt: number): void {
    const { api, tracer, propagation } = this.#library
    const { headers, method, url } = request
    const from = propagation.extract(api.ROOT_CONTEXT, headers, headerGetter)
    const { pathname: path, protocol } = new URL(url)
    const operation = operationOf(path)
    const span = tracer.startSpan(
      `${operation} ${model}`,
      {
        kind: api.SpanKind.SERVER,
        // Not from `performance.timeOrigin`: the clock may have been set since the process began.
        startTime: Date.now() - (performance.now() - arrivedAt),
        attributes: {
          'gen_ai.operation.name': operation,
          'gen_ai.request.model': model,
          'http.request.method': method,
          'url.scheme': protocol.slice(0, -1),
          'url.path': path,
          'weir.request_id': requestId,
        },
      },
      from,
    )
    const context = api.trace.setSpan(from, span)
    this.#open.set(requestId, { span, context, operation, providers: new Map() })
  }

  spanOf(
    requestId: string,
    kind: 'provider' | 'tool' | 'guardrail',
    name: string,
    attributes: Attributes,
  ): CallSpan | undefined {
    const call = this.#open.get(requestId)
    if (call === undefined) return undefined
    const { api, tracer, propagation } = this.#library
    const operation = kind === 'tool' ? 'execute_tool' : kind === 'guardrail' ? kind : call.operation
    if (kind === 'provider')
      call.providers.set(String(attributes['weir.provider']), String(attributes['gen_ai.provider.name']))
    const span = tracer.startSpan(
      `${operation} ${name}`,
      {
        kind: kind === 'tool' ? api.SpanKind.INTERNAL : api.SpanKind.CLIENT,
        attributes: { 'gen_ai.operation.name': operation, ...attributes },
      },
      call.context,
    )
    const headers: Record<string, string> = {}
    propagation.inject(api.trace.setSpan(call.context, span), headers, headerSetter)
    return {
      headers,
      note: (noted) => void span.setAttributes(noted),
      end: (error) => {
        if (!span.isRecording()) return
        if (error !== undefined) fail(span, error, api.SpanStatusCode.ERROR)
        span.end()
      },
    }
  }

  onCallEnded(call: EndedCall): void {
    const open = this.#open.get(call.requestId)
    if (open === undefined) return
    this.#open.delete(call.requestId)
    const { span, providers } = open
    const cost = this.#parts.usd(call.cost)
    span.setAttributes({
      'http.response.status_code': call.status,
      'gen_ai.usage.input_tokens': call.promptTokens,
      'gen_ai.usage.output_tokens': call.completionTokens,
      'weir.account': call.account,
      'weir.stream': call.stream,
      'weir.attempts': call.attempts,
      // Collectors add up numbers; the text is exact.
      ...fractionOf('weir.cost_usd', Number(cost)),
      'weir.cost_usd_exact': cost,
      ...(call.key === null ? {} : { 'weir.key': call.key }),
      ...(call.provider === null
        ? {}
        : {
            'gen_ai.provider.name': providers.get(call.provider) ?? call.provider,
            'weir.provider': call.provider,
          }),
      ...(call.ending === null ? {} : { 'weir.ending': call.ending }),
      ...(call.firstByteMs === null ? {} : { 'weir.first_byte_ms': call.firstByteMs }),
    })
    if (call.tags !== null) span.setAttributes(attributesOf(call.tags))
    // There with log.prompts alone.
    if (call.contents !== null) span.setAttribute('weir.contents', call.contents)
    if (call.code !== null) span.setAttribute('error.type', call.code)
    // A server that refuses a request has not failed: opentelemetry.io/docs/specs/semconv/http/http-spans, "Status".
    const isRefused = call.status >= 400 && call.status < 500
    if (call.code !== null && !isRefused) span.setStatus({ code: this.#library.api.SpanStatusCode.ERROR })
    span.end()
  }

  async close(): Promise<void> {
    const late = new Promise<void>((resolve) => setTimeout(resolve, closeMs).unref())
    await Promise.race([this.#library.shutdown().catch(() => {}), late])
  }
}

/**
 * A number that collectors know as a floating-point number: whole ones are sent as integers, and an attribute of two types is
 * refused where columns have one. Zero adds nothing, and is left out.
 */
function fractionOf(name: string, value: number): Attributes {
  if (value === 0) return {}
  return { [name]: Number.isInteger(value) ? value * (1 + Number.EPSILON) : value }
}

/** The tags of a call, as its row has them; who it is made for also by the name that collectors know. */
function attributesOf(tags: string): Attributes {
  const attributes: Record<string, string> = {}
  for (const [name, value] of Object.entries(JSON.parse(tags) as Readonly<Record<string, string>>)) {
    attributes[`weir.tag.${name}`] = value
    if (name === 'user') attributes['user.id'] = value
  }
  return attributes
}

function fail(span: Span, error: string, code: import('@opentelemetry/api').SpanStatusCode): void {
  span.setAttribute('error.type', error)
  span.setStatus({ code })
}

function operationOf(path: string): string {
  if (/embed/i.test(path)) return 'embeddings'
  return path.endsWith('/decisions') ? 'decisions' : 'chat'
}

const headerGetter = {
  get: (headers: Headers, name: string) => headers.get(name) ?? undefined,
  keys: (headers: Headers) => [...headers.keys()],
}

const headerSetter = {
  set: (headers: Record<string, string>, name: string, value: string) => {
    headers[name] = value
  },
}
