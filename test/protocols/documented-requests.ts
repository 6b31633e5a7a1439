// Requests as Anthropic, Google and Amazon document them, every field that they do not name refused: what a real
// provider would answer with 400, so far as documents and reports of its users tell.

import { z } from 'zod'

const words = z.string().regex(/\S/)
const bytes = z.base64()
const object = z.record(z.string(), z.unknown())

// ---- Anthropic --------------------------------------------------------------------------------------------

const mediaTypes = z.enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])
const text = z.strictObject({ type: z.literal('text'), text: words })
const image = z.strictObject({
  type: z.literal('image'),
  source: z.union([
    z.strictObject({ type: z.literal('base64'), media_type: mediaTypes, data: bytes }),
    z.strictObject({ type: z.literal('url'), url: z.url({ protocol: /^https$/ }) }),
  ]),
})
const document = z.strictObject({
  type: z.literal('document'),
  title: z.string().optional(),
  source: z.union([
    z.strictObject({ type: z.literal('base64'), media_type: z.literal('application/pdf'), data: bytes }),
    z.strictObject({ type: z.literal('text'), media_type: z.literal('text/plain'), data: z.string() }),
    z.strictObject({ type: z.literal('url'), url: z.url() }),
    z.strictObject({ type: z.literal('file'), file_id: z.string() }),
  ]),
})
const toolUseId = z.string().regex(/^[a-zA-Z0-9_-]+$/)
const result = z.strictObject({
  type: z.literal('tool_result'),
  tool_use_id: toolUseId,
  content: z.union([words, z.array(z.union([text, image, document])).min(1)]).optional(),
  is_error: z.boolean().optional(),
})
const use = z.strictObject({
  type: z.literal('tool_use'),
  id: toolUseId,
  name: z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/),
  input: object,
})
const thought = z.strictObject({ type: z.literal('thinking'), thinking: z.string(), signature: words })
const turns = z
  .array(
    z.discriminatedUnion('role', [
      z.strictObject({
        role: z.literal('user'),
        content: z.array(z.union([text, image, document, result])).min(1),
      }),
      z.strictObject({
        role: z.literal('assistant'),
        content: z.array(z.union([text, use, thought])).min(1),
      }),
    ]),
  )
  .min(1)
  .refine((all) => all.every((turn, at) => turn.role !== all[at + 1]?.role), 'roles take turns')
  .refine(
    (all) => all.every((turn, at) => answered(turn.content, all[at + 1]?.content ?? [])),
    'calls are answered',
  )

function answered(
  calls: readonly { readonly type: string; readonly id?: string }[],
  next: readonly { readonly type: string; readonly tool_use_id?: string }[],
): boolean {
  const asked = calls.flatMap(({ type, id }) => (type === 'tool_use' ? [id] : []))
  const given = next.flatMap(({ type, tool_use_id }) => (type === 'tool_result' ? [tool_use_id] : []))
  const first = next.slice(0, given.length).every(({ type }) => type === 'tool_result')
  return first && JSON.stringify(asked.toSorted()) === JSON.stringify(given.toSorted())
}

/** A grammar takes objects that are closed, and constrains nothing else but shapes. */
function isClosed(schema: unknown): boolean {
  if (Array.isArray(schema)) return schema.every(isClosed)
  if (typeof schema !== 'object' || schema === null) return true
  const { type, additionalProperties } = schema as { type?: unknown; additionalProperties?: unknown }
  const unknown = ['minimum', 'maximum', 'pattern', 'minLength', 'maxLength', 'oneOf', 'not'].some(
    (each) => each in schema,
  )
  const open = type === 'object' && additionalProperties !== false
  return !open && !unknown && Object.values(schema).every(isClosed)
}

const rootObject = z
  .looseObject({ type: z.literal('object') })
  .refine(
    (schema) => !['anyOf', 'oneOf', 'allOf'].some((each) => each in schema),
    'no alternatives at the root',
  )
const once = { disable_parallel_tool_use: z.boolean().optional() }

export const anthropicRequest = z
  .strictObject({
    model: z.string(),
    max_tokens: z.int().min(1),
    system: words.optional(),
    messages: turns,
    tools: z
      .array(
        z.strictObject({
          name: z.string().regex(/^[a-zA-Z0-9_-]{1,128}$/),
          description: z.string().optional(),
          input_schema: rootObject,
          strict: z.literal(true).optional(),
        }),
      )
      .min(1)
      .refine(
        (tools) => tools.every((tool) => !tool.strict || isClosed(tool.input_schema)),
        'strict tools are closed',
      )
      .optional(),
    tool_choice: z
      .discriminatedUnion('type', [
        z.strictObject({ type: z.literal('auto'), ...once }),
        z.strictObject({ type: z.literal('any'), ...once }),
        z.strictObject({ type: z.literal('tool'), name: z.string(), ...once }),
        z.strictObject({ type: z.literal('none') }),
      ])
      .optional(),
    thinking: z
      .union([
        z.strictObject({
          type: z.literal('enabled'),
          budget_tokens: z.int().min(1024),
          display: z.enum(['summarized', 'omitted']).optional(),
        }),
        z.strictObject({
          type: z.literal('adaptive'),
          display: z.enum(['summarized', 'omitted']).optional(),
        }),
        z.strictObject({ type: z.literal('disabled') }),
      ])
      .optional(),
    output_config: z
      .strictObject({
        format: z
          .strictObject({ type: z.literal('json_schema'), schema: object.refine(isClosed) })
          .optional(),
        effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).optional(),
      })
      .optional(),
    temperature: z.number().min(0).max(1).optional(),
    top_p: z.number().min(0).max(1).optional(),
    top_k: z.int().optional(),
    stop_sequences: z.array(words).min(1).optional(),
    metadata: z.strictObject({ user_id: z.string() }).optional(),
    service_tier: z.enum(['auto', 'standard_only']).optional(),
    stream: z.boolean().optional(),
  })
  .refine(
    ({ tools, tool_choice }) => tools !== undefined || tool_choice === undefined,
    'a choice needs tools',
  )
  .refine(({ thinking, max_tokens }) => thinking?.type !== 'enabled' || thinking.budget_tokens < max_tokens)
  .refine((body) => !thinks(body) || body.temperature === undefined || body.temperature === 1)
  .refine((body) => !thinks(body) || !['any', 'tool'].includes(body.tool_choice?.type ?? 'auto'))

function thinks({ thinking }: { readonly thinking?: { readonly type: string } | undefined }): boolean {
  return thinking !== undefined && thinking.type !== 'disabled'
}

// ---- Google -----------------------------------------------------------------------------------------------

const blob = z.strictObject({ mimeType: z.string().regex(/^(?!image\/jpg)\w+\/[\w.+;=-]+$/), data: bytes })
const inline = z.strictObject({ inlineData: blob })
const callId = { id: z.string().optional() }
const part = z.union([
  z.strictObject({
    text: z.string().min(1),
    thought: z.boolean().optional(),
    thoughtSignature: words.optional(),
  }),
  z.strictObject({ text: z.string(), thoughtSignature: words }),
  inline,
  z.strictObject({ fileData: z.strictObject({ fileUri: words, mimeType: z.string().optional() }) }),
  z.strictObject({
    functionCall: z.strictObject({ ...callId, name: words, args: object }),
    thoughtSignature: words.optional(),
  }),
  z.strictObject({
    functionResponse: z.strictObject({
      ...callId,
      name: words,
      response: object,
      parts: z.array(inline).optional(),
    }),
  }),
])

export const geminiRequest = z
  .strictObject({
    contents: z
      .array(z.strictObject({ role: z.enum(['user', 'model']), parts: z.array(part).min(1) }))
      .min(1),
    systemInstruction: z
      .strictObject({ parts: z.array(z.strictObject({ text: z.string().min(1) })).min(1) })
      .optional(),
    tools: z
      .tuple([
        z.strictObject({
          functionDeclarations: z
            .array(
              z.strictObject({
                name: z.string().regex(/^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$/),
                description: z.string().optional(),
                parameters: z.looseObject({ type: z.literal('object') }).optional(),
                parametersJsonSchema: object.optional(),
              }),
            )
            .min(1),
        }),
      ])
      .optional(),
    toolConfig: z
      .strictObject({
        functionCallingConfig: z.strictObject({
          mode: z.enum(['AUTO', 'ANY', 'NONE']),
          allowedFunctionNames: z.array(z.string()).min(1).optional(),
        }),
      })
      .optional(),
    generationConfig: z
      .strictObject({
        temperature: z.number().min(0).max(2).optional(),
        topP: z.number().min(0).max(1).optional(),
        topK: z.int().optional(),
        seed: z.int().optional(),
        stopSequences: z.array(z.string().min(1)).min(1).max(5).optional(),
        maxOutputTokens: z.int().min(1).optional(),
        candidateCount: z.int().min(1).max(8).optional(),
        presencePenalty: z.number().optional(),
        frequencyPenalty: z.number().optional(),
        responseLogprobs: z.boolean().optional(),
        logprobs: z.int().min(0).max(20).optional(),
        responseMimeType: z.literal('application/json').optional(),
        responseSchema: z.looseObject({ type: z.string() }).optional(),
        responseJsonSchema: object.optional(),
        thinkingConfig: z
          .strictObject({
            includeThoughts: z.boolean().optional(),
            thinkingBudget: z.int().min(-1).optional(),
            thinkingLevel: z.enum(['minimal', 'low', 'medium', 'high']).optional(),
          })
          .refine((thinking) => thinking.thinkingBudget === undefined || thinking.thinkingLevel === undefined)
          .optional(),
      })
      .optional(),
  })
  .refine(({ tools, toolConfig }) => tools !== undefined || toolConfig === undefined, 'a choice needs tools')

/** Before generation 3 a format and functions exclude each other. */
export const olderGeminiRequest = geminiRequest.refine(
  ({ tools, generationConfig }) => tools === undefined || generationConfig?.responseMimeType === undefined,
  'a format beside functions is refused',
)

// ---- Amazon -----------------------------------------------------------------------------------------------

const wireName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/)
const textBlock = z.strictObject({ text: words })
const mediaBlocks = [
  z.strictObject({
    image: z.strictObject({
      format: z.enum(['png', 'jpeg', 'gif', 'webp']),
      source: z.strictObject({ bytes }),
    }),
  }),
  z.strictObject({
    document: z.strictObject({
      format: z.enum(['pdf', 'csv', 'doc', 'docx', 'xls', 'xlsx', 'html', 'txt', 'md']),
      name: z.string().regex(/^(?!.*\s{2})[a-zA-Z0-9\s()[\]-]{1,200}$/),
      source: z.strictObject({ bytes }),
    }),
  }),
] as const
const toolResultBlock = z.strictObject({
  toolResult: z.strictObject({
    toolUseId: wireName,
    content: z.array(z.union([textBlock, ...mediaBlocks])).min(1),
    status: z.enum(['success', 'error']).optional(),
  }),
})
const toolUseBlock = z.strictObject({
  toolUse: z.strictObject({ toolUseId: wireName, name: wireName, input: object }),
})
const converseTurns = z
  .array(
    z.discriminatedUnion('role', [
      z.strictObject({
        role: z.literal('user'),
        content: z.array(z.union([textBlock, ...mediaBlocks, toolResultBlock])).min(1),
      }),
      z.strictObject({
        role: z.literal('assistant'),
        content: z.array(z.union([textBlock, toolUseBlock])).min(1),
      }),
    ]),
  )
  .min(1)
  .refine((all) => all[0]!.role === 'user', 'the user speaks first')
  .refine((all) => all.every((turn, at) => turn.role !== all[at + 1]?.role), 'roles take turns')

export const converseRequest = z
  .strictObject({
    messages: converseTurns,
    system: z.array(textBlock).min(1).optional(),
    inferenceConfig: z
      .strictObject({
        maxTokens: z.int().min(1).optional(),
        temperature: z.number().min(0).max(1).optional(),
        topP: z.number().min(0).max(1).optional(),
        stopSequences: z.array(words).min(1).optional(),
      })
      .optional(),
    toolConfig: z
      .strictObject({
        tools: z
          .array(
            z.strictObject({
              toolSpec: z.strictObject({
                name: wireName,
                description: words.optional(),
                inputSchema: z.strictObject({ json: z.looseObject({ type: z.literal('object') }) }),
              }),
            }),
          )
          .min(1),
        toolChoice: z
          .union([
            z.strictObject({ any: z.strictObject({}) }),
            z.strictObject({ tool: z.strictObject({ name: wireName }) }),
          ])
          .optional(),
      })
      .optional(),
    outputConfig: z
      .strictObject({
        textFormat: z.strictObject({
          type: z.literal('json_schema'),
          structure: z.strictObject({
            jsonSchema: z.strictObject({
              name: wireName,
              description: words.optional(),
              schema: z.string().refine((schema) => isClosed(JSON.parse(schema)), 'the schema is closed'),
            }),
          }),
        }),
      })
      .optional(),
    additionalModelRequestFields: object.optional(),
    additionalModelResponseFieldPaths: z.array(z.string().startsWith('/')).max(10).optional(),
  })
  .refine(
    ({ messages, toolConfig }) =>
      toolConfig !== undefined ||
      !messages.some(({ content }) => content.some((block) => 'toolUse' in block)),
    'calls in the history need their declarations',
  )
