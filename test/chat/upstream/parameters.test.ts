// Every parameter of a chat request on every route: it reaches the provider, or the client is told that it does not,
// or the call is refused. A new parameter or provider without an answer fails here.

import { describe, expect, test } from 'bun:test'
import { simModels } from '../../../src/catalog/bundled/bundled.ts'
import { type Model, parametersOf } from '../../../src/catalog/row.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { isObject } from '../../../src/protocols/lenient.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { chatCompletionRequest } from '../../../src/protocols/openai-chat/inbound/schema.ts'
import { gatewayFields } from '../../../src/protocols/request/gateway-tools.ts'
import { ignorableParameters } from '../../../src/protocols/openai/parameters.ts'
import { simulatorReads } from '../../../src/providers/simulator/request.ts'
import { catalogInUse } from '../../../src/serve/gateway/catalog.ts'
import { loaded } from '../../config/inputs.ts'
import { everyRoute, lowered as loweredOn, type Route, routeTo } from '../routes.ts'

type Parameter = keyof typeof chatCompletionRequest.shape

const parameters = Object.keys(chatCompletionRequest.shape) as Parameter[]

const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }

/** A value that asks for something, and what the request must hold besides for it to mean anything. */
const samples: Readonly<Record<Parameter, { readonly value: unknown; readonly beside?: JsonObject }>> = {
  model: { value: 'other/m' },
  messages: { value: [{ role: 'user', content: 'another' }] },
  stream: { value: true },
  stream_options: { value: { include_usage: true }, beside: { stream: true } },
  max_tokens: { value: 64 },
  max_completion_tokens: { value: 64 },
  temperature: { value: 0.5 },
  top_p: { value: 0.97 },
  top_k: { value: 5 },
  min_p: { value: 0.1 },
  frequency_penalty: { value: 0.5 },
  presence_penalty: { value: 0.5 },
  repetition_penalty: { value: 1.2 },
  seed: { value: 7 },
  stop: { value: ['END'] },
  logit_bias: { value: { '50256': -100 } },
  logprobs: { value: true },
  top_logprobs: { value: 2, beside: { logprobs: true } },
  n: { value: 2 },
  tools: { value: [tool] },
  tool_choice: { value: 'required', beside: { tools: [tool] } },
  parallel_tool_calls: { value: false, beside: { tools: [tool] } },
  web_search_options: { value: {} },
  functions: { value: [tool.function] },
  function_call: { value: { name: 'f' }, beside: { functions: [tool.function] } },
  response_format: { value: { type: 'json_object' } },
  reasoning_effort: { value: 'high' },
  reasoning: { value: { effort: 'high' } },
  modalities: { value: ['text', 'audio'] },
  audio: { value: { voice: 'alloy', format: 'pcm16' } },
  prediction: { value: { type: 'content', content: 'x' } },
  user: { value: 'u' },
  safety_identifier: { value: 's' },
  prompt_cache_key: { value: 'k' },
  prompt_cache_retention: { value: '24h' },
  prompt_cache_options: { value: { mode: 'explicit' } },
  service_tier: { value: 'flex' },
  metadata: { value: { a: 'b' } },
  store: { value: true },
  verbosity: { value: 'low' },
  models: { value: ['other/m'] },
  provider: { value: { order: ['a'] } },
  max_cost: { value: '0.05' },
  cache: { value: { ttl: 60 } },
  max_tool_calls: { value: 3 },
  session_id: { value: 's' },
  strict: { value: true },
  on_disconnect: { value: 'finish' },
  usage: { value: { include: true }, beside: { stream: true } },
}

const asked = { model: 'a/m', messages: [{ role: 'user', content: 'Hello' }] }

function bodyWith(param: Parameter): { without: JsonObject; given: JsonObject } {
  const { value, beside } = samples[param]
  const without = { ...asked, ...beside } as JsonObject
  return { without, given: { ...without, [param]: value } as JsonObject }
}

// ---- routes -----------------------------------------------------------------------------------------------

async function lowered(body: JsonObject, route: Route) {
  const sent = await loweredOn({ inbound, request: inbound.parse(body) }, route)
  return { ...sent, text: JSON.stringify(sent.body) }
}

type Answer = 'sent' | 'warned' | 'refused' | 'silent'

async function answerTo(param: Parameter, route: Route): Promise<Answer> {
  const { without, given } = bodyWith(param)
  try {
    const before = await lowered(without, route)
    const after = await lowered(given, route)
    const told = (name: string) => name === param || name.startsWith(`${param}.`) || sameThing[param] === name
    if (after.warnings.some(({ param: name }) => told(name))) return 'warned'
    return after.text === before.text && after.path === before.path ? 'silent' : 'sent'
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'unsupported_parameter') return 'refused'
    throw error
  }
}

/** Two spellings of one wish, which is named by one of them. */
const sameThing: Partial<Record<Parameter, string>> = {
  reasoning_effort: 'reasoning',
  function_call: 'tool_choice',
  max_completion_tokens: 'max_tokens',
}

// ---- what the gateway does itself -------------------------------------------------------------------------

/** `messages` is the request; the others steer the gateway. */
const steering = parameters.filter(
  (param) =>
    gatewayFields.includes(param) ||
    ['model', 'stream', 'stream_options', 'web_search_options'].includes(param),
)
const ofTools = ['max_tool_calls', 'web_search_options']

describe('a parameter of the gateway', () => {
  test.each(steering.filter((param) => !ofTools.includes(param)).map((param) => [param] as const))(
    '%s is read',
    (param) => {
      const { without, given } = bodyWith(param)
      expect(inbound.parse(given).envelope).not.toEqual(inbound.parse(without).envelope)
    },
  )

  test('web_search_options declares a search, and max_tool_calls bounds what the gateway runs', () => {
    const { given } = bodyWith('max_tool_calls')
    const { gatewayTools } = inbound.parse({ ...given, web_search_options: { search_context_size: 'high' } })
    expect(gatewayTools).toMatchObject({
      maxCalls: 3,
      declarations: [{ kind: 'web-search', param: 'web_search_options', contextSize: 'high' }],
    })
    expect(inbound.parse(given).gatewayTools).toBeUndefined()
  })
})

// ---- what the providers are told --------------------------------------------------------------------------

const forProviders = parameters.filter((param) => !steering.includes(param))

/** What each column's provider does: `+` it is told, `w` the client is warned (refused when strict), `r` refused. */
const columns: readonly Route[] = [
  routeTo('sim', 'echo', false),
  routeTo('lab', 'm', false),
  routeTo('openai', 'gpt-4o', false),
  routeTo('openai', 'gpt-5', true),
  routeTo('groq', 'm', false),
  routeTo('deepseek', 'm', true),
  routeTo('mistral', 'm', false),
  routeTo('xai', 'grok-4', true),
  routeTo('openrouter', 'm', false),
  routeTo('perplexity', 'm', false),
  routeTo('anthropic', 'claude-sonnet-4-5', true),
  routeTo('gemini', 'gemini-2.5-flash', true),
  routeTo('bedrock', 'amazon.nova-pro-v1:0', false),
  routeTo('cohere', 'command-a-03-2025', false),
  routeTo('ollama', 'm', false),
]

const signs: Readonly<Record<Answer, string>> = { sent: '+', warned: 'w', refused: 'r', silent: '-' }

const table: Readonly<Record<string, string>> = {
  messages: '+ + + + + + + + + + + + + + +',
  max_tokens: '+ + + + + + + + + + + + + + +',
  max_completion_tokens: '+ + + + + + + + + + + + + + +',
  temperature: '+ + + w + w + + + + + + + + +',
  top_p: '+ + + w + w + + + + + + + + +',
  top_k: '+ + w w w w w w + + + + + + +',
  min_p: '+ + w w w w w w + w w w w w +',
  frequency_penalty: 'w + + w w w + w + + w + w + +',
  presence_penalty: 'w + + w w w + w + + w + w + +',
  repetition_penalty: 'w + w w w w w w + w w w w w +',
  seed: '+ + + w + w + w + w w + w + +',
  stop: '+ + + w + + + w + w + + + + +',
  logit_bias: 'w + + w w w w w + w w w w w w',
  logprobs: '+ + + r r + r r + r r + r + +',
  top_logprobs: '+ + + r r + r r + r r + r r +',
  n: '+ + + r r r + r r r r + r r r',
  tools: '+ + + + + + + + + + + + + + +',
  tool_choice: '+ + + + + + + + + + + + + + w',
  parallel_tool_calls: '+ + + + + w + + + w + w w w w',
  functions: '+ + + + + + + + + + + + + + +',
  function_call: '+ + + + + + + + + + + + + + w',
  response_format: '+ + + + + + + + + + + + + + +',
  reasoning_effort: '+ + + + + + + + + + + + w w +',
  reasoning: '+ + + + + + + + + + + + w w +',
  modalities: 'w w w w w w w w w w w w w w w',
  audio: 'w + + w w w w w + w w + w w w',
  prediction: 'w + + w w w + w + w w w w w w',
  user: 'w + + + + + w + + w + w w w w',
  safety_identifier: 'w w + + w w w w + w + w w w w',
  prompt_cache_key: '+ w + + w w w w + w w w w w w',
  prompt_cache_retention: 'w w + + w w w w + w w w w w w',
  prompt_cache_options: 'w w + + w w w w + w w w w w w',
  service_tier: 'w w w w w w w w w w w w w w w',
  metadata: 'w w + + w w w w + w w w w w w',
  store: 'w w + w w w w w w w w w w w w',
  verbosity: 'w w + + w w w w + w w w w w w',
}

describe('a parameter for the provider', () => {
  test.each(forProviders.map((param) => [param] as const))('%s', async (param) => {
    const row = await Promise.all(columns.map((route) => answerTo(param, route)))
    expect(row.map((answer) => signs[answer]).join(' ')).toBe(table[param]!)
  })
})

describe('no parameter is lost in silence', () => {
  const routes = everyRoute.map(
    (route) => [route.provider.id, route.upstream, route.reasoning ? 'reasoning' : 'plain', route] as const,
  )

  test.each(routes)('%s %s, %s', async (_id, _name, _kind, route) => {
    const answers = await Promise.all(
      forProviders.map(async (param) => [param, await answerTo(param, route)] as const),
    )
    expect(answers.filter(([, answer]) => answer === 'silent')).toEqual([])
  })

  test('the simulator reads whatever it is sent', async () => {
    const route = routeTo('sim', 'echo', false)
    for (const param of forProviders) {
      if ((await answerTo(param, route)) !== 'sent') continue
      const { without, given } = bodyWith(param)
      const [before, after] = await Promise.all(
        [without, given].map(async (body) => (await lowered(body, route)).body),
      )
      const changed = Object.keys(after!).filter((field) => !Bun.deepEquals(after![field], before![field]))
      expect(changed).not.toEqual([])
      for (const field of changed) expect(simulatorReads).toContain(field)
    }
  })

  /** Listed although this sample of it is not honoured as it is. */
  function honouredInPart({ provider }: Route, param: Parameter): boolean {
    // A model that always thinks can be offered tools, not made to call one. Some can be told whether to think only.
    if (param === 'tool_choice') return provider.protocol === 'anthropic-messages'
    if (param === 'reasoning' || param === 'reasoning_effort') return true
    // The Responses protocol has one answer; several are asked for in chat completions.
    return param === 'n' && provider.protocol === 'openai-responses'
  }

  test('the catalog promises none that is then dropped', async () => {
    const { config } = loaded({})
    const catalog = catalogInUse({ ...config, data_dir: '/nowhere' }, () => Date.UTC(2026, 10, 1))
    const broken = new Set<string>()
    const asked = new Set<string>()
    for (const model of catalog.list()) {
      const [{ provider, upstream }] = model.offers as [Model['offers'][number]]
      const route = routeTo(provider, upstream, model.reasoning)
      for (const param of forProviders.filter((each) => model.supportedParameters.includes(each))) {
        const alike = route.provider.protocol.startsWith('openai') ? '' : upstream
        const same = [provider, route.provider.protocol, model.reasoning, alike, param].join()
        if (model.outputModalities.includes('embeddings') || asked.has(same)) continue
        asked.add(same)
        const answer = await answerTo(param, route)
        if (answer !== 'sent' && !honouredInPart(route, param)) broken.add(`${model.id} ${param} ${answer}`)
      }
    }
    expect([...broken]).toEqual([])
    expect(asked.size).toBeGreaterThan(100)
  })

  test('the catalog lists for the simulator what it honours, and nothing else', async () => {
    const listed = parametersOf(simModels.find(({ id }) => id === 'sim/echo')!.parameters)
    const honoured = await Promise.all(
      forProviders.map(async (param) => ((await answerTo(param, columns[0]!)) === 'sent' ? [param] : [])),
    )
    const aliases = ['structured_outputs', 'stream', 'functions', 'function_call', 'messages', 'modalities']
    const either = (names: readonly string[]) => names.filter((name) => !aliases.includes(name)).toSorted()
    expect(either(listed)).toEqual(either(honoured.flat()))
  })
})

describe('what changes nothing anywhere', () => {
  test.each<[Parameter, unknown]>([
    ['frequency_penalty', 0],
    ['presence_penalty', 0],
    ['repetition_penalty', 1],
    ['min_p', 0],
    ['logit_bias', {}],
    ['store', false],
    ['metadata', {}],
    ['service_tier', 'auto'],
    ['modalities', ['text']],
    ['parallel_tool_calls', true],
  ])('%s: %j is neither warned of nor refused', async (param, value) => {
    for (const route of columns) {
      const { warnings } = await lowered({ ...asked, tools: [tool], [param]: value } as JsonObject, route)
      expect(warnings).toEqual([])
    }
  })
})

describe('a server of the operator', () => {
  const shaping = ['n', 'logprobs', 'top_logprobs'] as const
  const deafTo = (param: (typeof ignorableParameters)[number]) =>
    routeTo('lab', 'm', false, { ignores: [param] })

  test.each(shaping.map((param) => [param] as const))(
    'that ignores %s is not asked, as the answer would have another shape',
    async (param) => expect(await answerTo(param, deafTo(param))).toBe('refused'),
  )

  const others = ignorableParameters.filter((param) => !shaping.some((shape) => shape === param))
  test.each(others.map((param) => [param] as const))(
    'that ignores %s is asked without it, and the client is warned',
    async (param) => {
      const deaf = deafTo(param)
      expect(await answerTo(param, deaf)).toBe('warned')
      const sent = (await lowered(bodyWith(param).given, deaf)).body
      expect(isObject(sent) && sent[param]).toBeUndefined()
    },
  )

  test('is told of no choice among tools that it is not shown', async () => {
    const { given } = bodyWith('function_call')
    const { provider, ...route } = routeTo('lab', 'm', false, { ignores: ['tools'] })
    // Of such a choice Cohere's lowering would say that it names no tool.
    const deaf = { ...route, provider: { ...provider, protocol: 'cohere' as const } }
    const sent = (await lowered(given, deaf)).body
    expect([sent['tools'], sent['tool_choice']]).toEqual([undefined, undefined])
  })

  test('may be the simulator: what is said of it holds for frames that go on as they are', async () => {
    const route = routeTo('sim', 'echo', false)
    const deaf = { ...route, provider: { ...route.provider, ignores: ['stop' as const] } }
    expect(await answerTo('stop', route)).toBe('sent')
    expect(await answerTo('stop', deaf)).toBe('warned')
  })
})
