// What a client may rely on in each protocol, as cases for any gateway or provider: platform.openai.com/docs/api-reference,
// docs.anthropic.com/en/api/messages and ai.google.dev/api/generate-content.

import {
  type Case,
  LeftOut,
  refuseMissing,
  type Reply,
  type StreamReply,
  type Subject,
  type Trial,
  type TriedProtocol,
} from './trial.ts'

type Json = Record<string, unknown>

const prompt = 'Say one short sentence about a river.'
const bound = 256
const weather = {
  name: 'get_weather',
  description: 'The weather in a city.',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}
const weatherPrompt = 'What is the weather in Graz? Use the tool.'
const person = {
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: 'integer' } },
  required: ['name', 'age'],
  additionalProperties: false,
}
const personPrompt = 'Invent a person.'

const list = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : [])
const object = (value: unknown): Json => (typeof value === 'object' && value !== null ? (value as Json) : {})
const text = (value: unknown): string => (typeof value === 'string' ? value : '')

function parseText(json: unknown): unknown {
  try {
    return JSON.parse(text(json))
  } catch {
    return undefined
  }
}

/** Cases of one protocol, from tables of what holds. */
function casesOf(
  protocol: TriedProtocol,
  table: Readonly<
    Partial<Record<Subject, Readonly<Record<string, readonly [about: string, run: Case['run']]>>>>
  >,
): Case[] {
  return Object.entries(table).flatMap(([subject, cases]) =>
    Object.entries(cases).map(([name, [about, run]]) => ({
      id: `${protocol}/${name}`,
      protocol,
      subject: subject as Subject,
      about,
      run,
    })),
  )
}

/** Whether a protocol is there; a case of one that is not is left out. */
function isServed(trial: Trial, reply: Reply, path: string): boolean {
  refuseMissing(reply, path)
  return trial.isSuccess(reply)
}

/** An error as JSON with this status, whose object is checked by `check`. */
function expectRefusal(
  trial: Trial,
  reply: Reply,
  statuses: readonly number[],
  check: (error: Json) => void,
): void {
  trial.holds(
    statuses.includes(reply.status),
    `the status should be ${statuses.join(' or ')}, not ${reply.status}`,
  )
  trial.holds(
    (reply.headers.get('content-type') ?? '').startsWith('application/json'),
    'an error should be JSON by its content-type',
  )
  trial.isA(reply.json['error'], 'object', 'error')
  check(object(reply.json['error']))
}

/** Counters of a usage: whole numbers, of which these add up. */
function counts(
  trial: Trial,
  usage: unknown,
  names: { read: string; written: string; total?: string },
): void {
  const { [names.read]: read, [names.written]: written } = object(usage)
  trial.holds(
    Number.isInteger(read) && Number(read) > 0,
    `usage.${names.read} should be a whole number above 0`,
  )
  trial.holds(
    Number.isInteger(written) && Number(written) >= 0,
    `usage.${names.written} should be a whole number`,
  )
  if (names.total !== undefined)
    trial.is(
      object(usage)[names.total],
      Number(read) + Number(written),
      `usage.${names.total}, the sum of both,`,
    )
}

// ---- models -------------------------------------------------------------------------------------------------

const models = casesOf('models', {
  answers: {
    list: [
      'GET /models lists models by their ids.',
      async (trial) => {
        const reply = await trial.ask('/models')
        if (!isServed(trial, reply, '/models')) return
        trial.is(reply.json['object'], 'list', 'object')
        const ids = list(reply.json['data']).map(({ id }) => id)
        trial.holds(ids.length > 0, 'data should hold models')
        trial.holds(
          ids.every((id) => typeof id === 'string' && id !== ''),
          'every model should have an id',
        )
      },
    ],
  },
})

// ---- chat completions ---------------------------------------------------------------------------------------

const chatPath = '/chat/completions'
const chatBody = (trial: Trial, more: Json = {}): Json => ({
  model: trial.model,
  messages: [{ role: 'user', content: prompt }],
  max_tokens: bound,
  ...more,
})
const chatTool = { type: 'function', function: weather }
const chatForced = { type: 'function', function: { name: weather.name } }
const chatReasons = ['stop', 'length', 'tool_calls', 'content_filter']
const chatCounters = { read: 'prompt_tokens', written: 'completion_tokens', total: 'total_tokens' }
const chatAsks = (content: string) => [{ role: 'user', content }]
const deltasOf = ({ events }: StreamReply) =>
  events.flatMap(({ json }) => list(json['choices']).map((choice) => object(choice['delta'])))

function chatMessage(trial: Trial, reply: Reply): Json {
  const [choice] = list(reply.json['choices'])
  trial.isA(choice, 'object', 'choices[0]')
  const { message, finish_reason } = choice ?? {}
  trial.holds(
    chatReasons.includes(text(finish_reason)),
    `finish_reason should be one of ${chatReasons.join(', ')}`,
  )
  return object(message)
}

function calledWeather(trial: Trial, call: { id?: unknown; name?: unknown; arguments?: unknown }): void {
  trial.holds(text(call.id) !== '', 'the call should have an id')
  trial.is(call.name, weather.name, 'the name of the function')
  const given = parseText(call.arguments)
  trial.holds(typeof object(given)['city'] === 'string', 'its arguments should be JSON with the city')
}

const chat = casesOf('chat', {
  answers: {
    whole: [
      'A whole answer is a chat.completion with a text, a finish reason and counters that add up.',
      async (trial) => {
        const reply = await trial.ask(chatPath, chatBody(trial))
        if (!isServed(trial, reply, chatPath)) return
        trial.is(reply.json['object'], 'chat.completion', 'object')
        trial.isA(reply.json['id'], 'string', 'id')
        trial.isA(reply.json['created'], 'number', 'created')
        const message = chatMessage(trial, reply)
        trial.is(message['role'], 'assistant', 'message.role')
        trial.isA(message['content'], 'string', 'message.content')
        counts(trial, reply.json['usage'], chatCounters)
      },
    ],
    roles: [
      'Instructions of the roles system and developer, and texts in parts, are taken.',
      async (trial) => {
        for (const role of ['system', 'developer']) {
          const content = [{ type: 'text', text: prompt }]
          const messages = [
            { role, content: 'Be brief.' },
            { role: 'user', content },
          ]
          if (isServed(trial, await trial.ask(chatPath, chatBody(trial, { messages })), chatPath)) continue
          return
        }
      },
    ],
    'unknown-field': [
      'A field that nobody knows does no harm.',
      async (trial) =>
        void isServed(trial, await trial.ask(chatPath, chatBody(trial, { x_unknown: { a: 1 } })), chatPath),
    ],
  },
  streams: {
    stream: [
      'A stream is chunks of one id: a role first, a finish reason last, then [DONE].',
      async (trial) => {
        const { events, status } = await trial.stream(chatPath, chatBody(trial, { stream: true }))
        if (status !== 200) return
        trial.is(events.at(-1)?.data, '[DONE]', 'the last event')
        const chunks = events.slice(0, -1).map(({ json }) => json)
        trial.holds(
          chunks.every(({ object: kind }) => kind === 'chat.completion.chunk'),
          'every object should be chat.completion.chunk',
        )
        trial.is(new Set(chunks.map(({ id }) => id)).size, 1, 'the number of ids')
        trial.is(
          object(list(chunks[0]?.['choices'])[0]?.['delta'])['role'],
          'assistant',
          'the role of the first delta',
        )
        const reasons = chunks.flatMap(({ choices }) =>
          list(choices).flatMap(({ finish_reason }) => finish_reason ?? []),
        )
        trial.is(reasons.length, 1, 'the number of finish reasons')
        trial.holds(
          chunks.every(({ usage }) => usage == null),
          'there should be no usage that nobody asked for',
        )
      },
    ],
    'stream-usage': [
      'With include_usage the last chunk has no choices and the counters.',
      async (trial) => {
        const body = chatBody(trial, { stream: true, stream_options: { include_usage: true } })
        const { events, status } = await trial.stream(chatPath, body)
        if (status !== 200) return
        const last = events.at(-2)?.json ?? {}
        trial.is(list(last['choices']).length, 0, 'the number of choices in the last chunk')
        counts(trial, last['usage'], chatCounters)
      },
    ],
  },
  tools: {
    call: [
      'A function that must be called is called with arguments that are JSON.',
      async (trial) => {
        const body = chatBody(trial, {
          messages: chatAsks(weatherPrompt),
          tools: [chatTool],
          tool_choice: chatForced,
        })
        const reply = await trial.ask(chatPath, body)
        if (!isServed(trial, reply, chatPath)) return
        const [call] = list(chatMessage(trial, reply)['tool_calls'])
        calledWeather(trial, { id: call?.['id'], ...object(call?.['function']) })
      },
    ],
    'call-streamed': [
      'A call in a stream has its id and name first, and pieces of arguments that are JSON together.',
      async (trial) => {
        const more = {
          messages: chatAsks(weatherPrompt),
          tools: [chatTool],
          tool_choice: chatForced,
          stream: true,
        }
        const reply = await trial.stream(chatPath, chatBody(trial, more))
        if (reply.status !== 200) return
        const pieces = deltasOf(reply)
          .flatMap(({ tool_calls }) => list(tool_calls))
          .filter(({ index }) => index === 0)
        const first = pieces[0] ?? {}
        const json = pieces.map((piece) => text(object(piece['function'])['arguments'])).join('')
        calledWeather(trial, { id: first['id'], name: object(first['function'])['name'], arguments: json })
      },
    ],
    result: [
      'The result of a call is taken, and answered.',
      async (trial) => {
        const call = {
          id: 'call_1',
          type: 'function',
          function: { name: weather.name, arguments: '{"city":"Graz"}' },
        }
        const messages = [
          ...chatAsks(weatherPrompt),
          { role: 'assistant', content: null, tool_calls: [call] },
          { role: 'tool', tool_call_id: 'call_1', content: 'Sunny, 24 °C' },
        ]
        const reply = await trial.ask(chatPath, chatBody(trial, { messages, tools: [chatTool] }))
        if (isServed(trial, reply, chatPath)) chatMessage(trial, reply)
      },
    ],
  },
  formats: {
    schema: [
      'An answer that has to fit a JSON schema does.',
      async (trial) => {
        const response_format = {
          type: 'json_schema',
          json_schema: { name: 'person', strict: true, schema: person },
        }
        const reply = await trial.ask(
          chatPath,
          chatBody(trial, { messages: chatAsks(personPrompt), response_format }),
        )
        if (isServed(trial, reply, chatPath)) isPerson(trial, chatMessage(trial, reply)['content'])
      },
    ],
  },
  limits: {
    bound: [
      'No more tokens are written than max_tokens says.',
      async (trial) => {
        const messages = chatAsks('Count from one to two hundred in words.')
        const reply = await trial.ask(chatPath, chatBody(trial, { messages, max_tokens: 16 }))
        if (!isServed(trial, reply, chatPath)) return
        const written = Number(object(reply.json['usage'])['completion_tokens'])
        trial.holds(written <= 16, `usage.completion_tokens should be at most 16, not ${written}`)
      },
    ],
  },
  errors: {
    key: [
      'A wrong key is 401 with an error object.',
      (trial) => chatRefusal(trial, chatBody(trial), [401], { key: 'sk-wrong' }),
    ],
    model: [
      'A model that is not there is 400 or 404 with an error object.',
      (trial) => chatRefusal(trial, chatBody(trial, { model: 'no-such/model-1' }), [400, 404]),
    ],
    json: [
      'A body that is no JSON is 400 with an error object.',
      (trial) => chatRefusal(trial, '{"model":', [400]),
    ],
    messages: [
      'A body without messages is 400 with an error object.',
      (trial) => chatRefusal(trial, { model: trial.model }, [400]),
    ],
  },
})

async function chatRefusal(
  trial: Trial,
  body: unknown,
  statuses: readonly number[],
  more = {},
): Promise<void> {
  expectRefusal(trial, await trial.ask(chatPath, body, more), statuses, (error) => {
    trial.isA(error['message'], 'string', 'error.message')
    trial.isA(error['type'], 'string', 'error.type')
  })
}

function isPerson(trial: Trial, json: unknown): void {
  const { name, age, ...more } = object(parseText(json))
  trial.holds(
    typeof name === 'string' && Number.isInteger(age) && Object.keys(more).length === 0,
    'the text should be JSON that fits the schema',
  )
}

// ---- responses ----------------------------------------------------------------------------------------------

const responsesPath = '/responses'
const responsesBody = (trial: Trial, more: Json = {}): Json => ({
  model: trial.model,
  input: prompt,
  max_output_tokens: bound,
  store: false,
  ...more,
})
const responsesTool = { type: 'function', strict: false, ...weather }
const responsesCounters = { read: 'input_tokens', written: 'output_tokens', total: 'total_tokens' }
const itemsOf = (response: unknown, type: string) =>
  list(object(response)['output']).filter((item) => item['type'] === type)

function textOfResponse(response: unknown): string {
  return itemsOf(response, 'message')
    .flatMap(({ content }) => list(content).map((part) => text(part['text'])))
    .join('')
}

const responses = casesOf('responses', {
  answers: {
    whole: [
      'A whole answer is a response with a message, a status and counters that add up.',
      async (trial) => {
        const { json, ...reply } = await trial.ask(responsesPath, responsesBody(trial))
        if (!isServed(trial, { json, ...reply }, responsesPath)) return
        trial.is(json['object'], 'response', 'object')
        trial.holds(
          ['completed', 'incomplete'].includes(text(json['status'])),
          'status should be completed or incomplete',
        )
        trial.holds(textOfResponse(json) !== '', 'output should hold a message with a text')
        counts(trial, json['usage'], responsesCounters)
      },
    ],
  },
  streams: {
    stream: [
      'A stream is numbered from 0 on, its texts add up, and its last event holds the response.',
      async (trial) => {
        const { events, status } = await trial.stream(responsesPath, responsesBody(trial, { stream: true }))
        if (status !== 200) return
        const all = events.filter(({ data }) => data !== '[DONE]').map(({ json }) => json)
        trial.is(all[0]?.['type'], 'response.created', 'the first event')
        const numbers = all.map(({ sequence_number }) => sequence_number)
        trial.holds(
          numbers.every((number, at) => number === at),
          'sequence_number should count from 0 without gaps',
        )
        const last = all.at(-1) ?? {}
        trial.holds(
          /^response\.(completed|incomplete)$/.test(text(last['type'])),
          'the last event should end the response',
        )
        const said = all
          .filter(({ type }) => type === 'response.output_text.delta')
          .map(({ delta }) => text(delta))
        trial.is(
          said.join(''),
          textOfResponse(last['response']),
          'the text of the deltas, as in the response,',
        )
        const open = new Map<unknown, unknown>()
        for (const { type, output_index, item } of all) {
          if (type === 'response.output_item.added') open.set(output_index, object(item)['id'])
          if (type !== 'response.output_item.done') continue
          trial.is(object(item)['id'], open.get(output_index), 'the id of a finished item')
          open.delete(output_index)
        }
        trial.is(open.size, 0, 'the number of items that were never finished')
      },
    ],
  },
  tools: {
    call: [
      'A function that must be called is called with arguments that are JSON.',
      async (trial) => {
        const tool_choice = { type: 'function', name: weather.name }
        const reply = await trial.ask(
          responsesPath,
          responsesBody(trial, { input: weatherPrompt, tools: [responsesTool], tool_choice }),
        )
        if (!isServed(trial, reply, responsesPath)) return
        const [call] = itemsOf(reply.json, 'function_call')
        calledWeather(trial, { id: call?.['call_id'], name: call?.['name'], arguments: call?.['arguments'] })
      },
    ],
    result: [
      'The result of a call is taken, and answered.',
      async (trial) => {
        const input = [
          { role: 'user', content: weatherPrompt },
          { type: 'function_call', call_id: 'call_1', name: weather.name, arguments: '{"city":"Graz"}' },
          { type: 'function_call_output', call_id: 'call_1', output: 'Sunny, 24 °C' },
        ]
        const reply = await trial.ask(responsesPath, responsesBody(trial, { input, tools: [responsesTool] }))
        if (isServed(trial, reply, responsesPath)) trial.isA(reply.json['output'], 'array', 'output')
      },
    ],
  },
  formats: {
    schema: [
      'An answer that has to fit a JSON schema does.',
      async (trial) => {
        const format = { type: 'json_schema', name: 'person', strict: true, schema: person }
        const reply = await trial.ask(
          responsesPath,
          responsesBody(trial, { input: personPrompt, text: { format } }),
        )
        if (isServed(trial, reply, responsesPath)) isPerson(trial, textOfResponse(reply.json))
      },
    ],
  },
  memory: {
    continue: [
      'A stored response is found by its id, continued by it, and gone once it is deleted.',
      async (trial) => {
        const first = await trial.ask(responsesPath, responsesBody(trial, { store: true }))
        if (!isServed(trial, first, responsesPath)) return
        if (first.json['store'] === false) throw new LeftOut('nothing is stored there')
        const path = `${responsesPath}/${text(first.json['id'])}`
        const found = await trial.ask(path)
        if (trial.isSuccess(found)) trial.is(found.json['id'], first.json['id'], 'the id of what was found')
        const next = { input: 'And one more.', previous_response_id: first.json['id'] }
        const second = await trial.ask(responsesPath, responsesBody(trial, next))
        if (trial.isSuccess(second)) {
          const [before, after] = [first, second].map(({ json }) =>
            Number(object(json['usage'])['input_tokens']),
          )
          trial.holds(after! > before!, 'what was said before should be read again')
        }
        trial.isSuccess(await trial.ask(path, undefined, { method: 'DELETE' }))
        trial.is((await trial.ask(path)).status, 404, 'the status of a response that was deleted')
      },
    ],
  },
  errors: {
    key: [
      'A wrong key is 401 with an error object.',
      async (trial) => responsesRefusal(trial, responsesBody(trial), [401], { key: 'sk-wrong' }),
    ],
    input: [
      'A body without input is 400 with an error object.',
      (trial) => responsesRefusal(trial, { model: trial.model }, [400]),
    ],
    previous: [
      'A response that is not there cannot be continued: 400 or 404.',
      (trial) =>
        responsesRefusal(trial, responsesBody(trial, { previous_response_id: 'resp_none' }), [400, 404]),
    ],
  },
})

async function responsesRefusal(
  trial: Trial,
  body: unknown,
  statuses: readonly number[],
  more = {},
): Promise<void> {
  const reply = await trial.ask(responsesPath, body, more)
  // A server without the protocol would pass every one of these.
  if (reply.status === 404 && (await trial.ask(responsesPath, responsesBody(trial))).status === 404)
    throw new LeftOut(`${responsesPath} is not served: 404`)
  expectRefusal(trial, reply, statuses, (error) => trial.isA(error['message'], 'string', 'error.message'))
}

// ---- messages -----------------------------------------------------------------------------------------------

const messagesPath = '/messages'
const messagesBody = (trial: Trial, more: Json = {}): Json => ({
  model: trial.model,
  max_tokens: bound,
  messages: [{ role: 'user', content: prompt }],
  ...more,
})
const { parameters: input_schema, ...named } = weather
const messagesTool = { ...named, input_schema }
const messagesReasons = ['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'pause_turn', 'refusal']
const messagesCounters = { read: 'input_tokens', written: 'output_tokens' }

const messages = casesOf('messages', {
  answers: {
    whole: [
      'A whole answer is a message with blocks, a stop reason and counters.',
      async (trial) => {
        const { json, ...reply } = await trial.ask(messagesPath, messagesBody(trial))
        if (!isServed(trial, { json, ...reply }, messagesPath)) return
        trial.is(json['type'], 'message', 'type')
        trial.is(json['role'], 'assistant', 'role')
        trial.holds(
          list(json['content']).some(({ type }) => type === 'text'),
          'content should hold a block of text',
        )
        trial.holds(
          messagesReasons.includes(text(json['stop_reason'])),
          'stop_reason should be one that is documented',
        )
        counts(trial, json['usage'], messagesCounters)
      },
    ],
    count: [
      'Tokens are counted without an answer.',
      async (trial) => {
        const { max_tokens: _, ...body } = messagesBody(trial)
        const reply = await trial.ask(`${messagesPath}/count_tokens`, body)
        if (!isServed(trial, reply, `${messagesPath}/count_tokens`)) return
        trial.holds(Number(reply.json['input_tokens']) > 0, 'input_tokens should be above 0')
      },
    ],
  },
  streams: {
    stream: [
      'A stream begins and ends as a message does, opens one block at a time, and names each event.',
      async (trial) => {
        const { events, status } = await trial.stream(messagesPath, messagesBody(trial, { stream: true }))
        if (status !== 200) return
        const all = events.filter(({ json }) => json['type'] !== 'ping')
        trial.holds(
          all.every(({ name, json }) => name === json['type']),
          'every event should be named as its type',
        )
        trial.is(all[0]?.name, 'message_start', 'the first event')
        trial.is(all.at(-1)?.name, 'message_stop', 'the last event')
        let open: unknown
        for (const { name, json } of all) {
          if (name === 'content_block_start') {
            trial.is(open, undefined, 'the block that is open when another begins')
            open = json['index']
          }
          if (name === 'content_block_delta') trial.is(json['index'], open, 'the block of a delta')
          if (name === 'content_block_stop') open = undefined
        }
        const delta = all.findLast(({ name }) => name === 'message_delta')?.json ?? {}
        trial.holds(
          messagesReasons.includes(text(object(delta['delta'])['stop_reason'])),
          'message_delta should say why it ended',
        )
        const written = object(delta['usage'])['output_tokens']
        trial.holds(Number.isInteger(written), 'message_delta should count output_tokens')
      },
    ],
  },
  tools: {
    call: [
      'A tool that must be used is used, with an object as its input.',
      async (trial) => {
        const tool_choice = { type: 'tool', name: weather.name }
        const body = messagesBody(trial, {
          messages: chatAsks(weatherPrompt),
          tools: [messagesTool],
          tool_choice,
        })
        const reply = await trial.ask(messagesPath, body)
        if (!isServed(trial, reply, messagesPath)) return
        const call = list(reply.json['content']).find(({ type }) => type === 'tool_use')
        calledWeather(trial, {
          id: call?.['id'],
          name: call?.['name'],
          arguments: JSON.stringify(call?.['input'] ?? null),
        })
        trial.is(reply.json['stop_reason'], 'tool_use', 'stop_reason')
      },
    ],
    result: [
      'The result of a tool is taken, and answered.',
      async (trial) => {
        const use = { type: 'tool_use', id: 'toolu_1', name: weather.name, input: { city: 'Graz' } }
        const result = { type: 'tool_result', tool_use_id: 'toolu_1', content: 'Sunny, 24 °C' }
        const asked = [
          ...chatAsks(weatherPrompt),
          { role: 'assistant', content: [use] },
          { role: 'user', content: [result] },
        ]
        const reply = await trial.ask(
          messagesPath,
          messagesBody(trial, { messages: asked, tools: [messagesTool] }),
        )
        if (isServed(trial, reply, messagesPath)) trial.isA(reply.json['content'], 'array', 'content')
      },
    ],
  },
  errors: {
    key: [
      'A wrong key is 401 with an error of Anthropic’s shape.',
      (trial) => messagesRefusal(trial, messagesBody(trial), [401], { key: 'sk-wrong' }),
    ],
    bound: [
      'A body without max_tokens is 400 with an error of Anthropic’s shape.',
      (trial) => messagesRefusal(trial, { model: trial.model, messages: chatAsks(prompt) }, [400]),
    ],
  },
})

async function messagesRefusal(
  trial: Trial,
  body: unknown,
  statuses: readonly number[],
  more = {},
): Promise<void> {
  const reply = await trial.ask(messagesPath, body, more)
  if (reply.status === 404) throw new LeftOut(`${messagesPath} is not served: 404`)
  expectRefusal(trial, reply, statuses, (error) => {
    trial.is(reply.json['type'], 'error', 'type')
    trial.isA(error['type'], 'string', 'error.type')
    trial.isA(error['message'], 'string', 'error.message')
  })
}

// ---- Gemini -------------------------------------------------------------------------------------------------

const geminiPath = (trial: Trial, method: string) => `/v1beta/models/${trial.model}:${method}`
const geminiBody = (more: Json = {}, say = prompt): Json => ({
  contents: [{ role: 'user', parts: [{ text: say }] }],
  generationConfig: { maxOutputTokens: bound },
  ...more,
})
const geminiTool = { functionDeclarations: [{ ...named, parametersJsonSchema: input_schema }] }
const geminiCounters = { read: 'promptTokenCount', written: 'candidatesTokenCount' }
const geminiParts = (json: Json) =>
  list(json['candidates']).flatMap(({ content }) => list(object(content)['parts']))

const gemini = casesOf('gemini', {
  answers: {
    whole: [
      'A whole answer has a candidate with a text, a finish reason and counters.',
      async (trial) => {
        const path = geminiPath(trial, 'generateContent')
        const { json, ...reply } = await trial.ask(path, geminiBody())
        if (!isServed(trial, { json, ...reply }, path)) return
        trial.holds(
          geminiParts(json).some((part) => text(part['text']) !== ''),
          'candidates[0] should hold a text',
        )
        trial.holds(
          text(list(json['candidates'])[0]?.['finishReason']) !== '',
          'candidates[0] should say why it ended',
        )
        counts(trial, json['usageMetadata'], geminiCounters)
      },
    ],
  },
  streams: {
    stream: [
      'A stream is chunks of candidates, the last of which says why it ended, and counts.',
      async (trial) => {
        const path = geminiPath(trial, 'streamGenerateContent')
        const { events, status } = await trial.stream(`${path}?alt=sse`, geminiBody())
        if (status !== 200) return
        trial.holds(
          events.every(({ json }) => 'candidates' in json || 'usageMetadata' in json),
          'every event should be a chunk',
        )
        const last = events.at(-1)?.json ?? {}
        trial.holds(
          text(list(last['candidates'])[0]?.['finishReason']) !== '',
          'the last chunk should say why it ended',
        )
        counts(trial, last['usageMetadata'], geminiCounters)
      },
    ],
  },
  tools: {
    call: [
      'A function that must be called is called.',
      async (trial) => {
        const toolConfig = { functionCallingConfig: { mode: 'ANY' } }
        const path = geminiPath(trial, 'generateContent')
        const reply = await trial.ask(path, geminiBody({ tools: [geminiTool], toolConfig }, weatherPrompt))
        if (!isServed(trial, reply, path)) return
        const call = object(
          geminiParts(reply.json).find(({ functionCall }) => functionCall !== undefined)?.['functionCall'],
        )
        calledWeather(trial, {
          id: 'none is needed',
          name: call['name'],
          arguments: JSON.stringify(call['args'] ?? null),
        })
      },
    ],
  },
  errors: {
    key: [
      'A wrong key is 400, 401 or 403 with an error of Google’s shape.',
      async (trial) => {
        const reply = await trial.ask(geminiPath(trial, 'generateContent'), geminiBody(), { key: 'wrong' })
        if (reply.status === 404) throw new LeftOut('Gemini’s protocol is not served: 404')
        expectRefusal(trial, reply, [400, 401, 403], (error) => {
          trial.is(error['code'], reply.status, 'error.code')
          trial.isA(error['status'], 'string', 'error.status')
          trial.isA(error['message'], 'string', 'error.message')
        })
      },
    ],
  },
})

/** All cases, by protocol. */
export const conformanceCases: readonly Case[] = [...models, ...chat, ...responses, ...messages, ...gemini]
