// Which types of tools are served, for clients of every protocol: one table, so that a type is opened in one place and
// refused everywhere in the same words.

import type { Json } from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import { isObject } from '../json.ts'

/**
 * `gateway`: the gateway runs it. `left-out`: the client sends it with every request, wanted or not, and works without;
 * it is named in a warning.
 */
type Fate = 'served' | 'gateway' | 'left-out' | 'refused'

interface Rule {
  readonly type: RegExp
  readonly fate: Exclude<Fate, 'refused'>
}

/** By the protocol the client speaks; the first rule that fits holds, a type without one is refused. */
const rules: Readonly<
  Record<'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'messages-elsewhere', readonly Rule[]>
> = {
  'openai-chat': [
    { type: /^function$/, fate: 'served' },
    { type: /^(openrouter:)?web_search(_\w+)?$|^mcp$/, fate: 'gateway' },
  ],
  'openai-responses': [
    { type: /^function$/, fate: 'served' },
    { type: /^(openrouter:)?web_search(_\w+)?$|^mcp$/, fate: 'gateway' },
    // Its functions are served; Codex sends some with every request.
    { type: /^namespace$/, fate: 'left-out' },
  ],
  // Tools that Anthropic defines and the client runs, and its search among the client's own: they cost tokens alone.
  'anthropic-messages': [
    { type: /^custom$|^(bash|text_editor|computer|memory)_\d{8}$|^tool_search_tool_/, fate: 'served' },
    { type: /^web_search_\d{8}$|^mcp_toolset$/, fate: 'gateway' },
  ],
  // The same client at a provider that is not Anthropic's: without the search all tools are shown at once.
  'messages-elsewhere': [
    { type: /^custom$/, fate: 'served' },
    { type: /^tool_search_tool_/, fate: 'left-out' },
  ],
}

/** What becomes of a client's tool. One without a type is a function in every protocol that allows it. */
export function fateOf(protocol: keyof typeof rules, tool: Json | object): Fate {
  const fields: { readonly [field: string]: unknown } = isObject(tool) ? tool : {}
  const { type } = fields
  if (typeof type !== 'string') return 'served'
  const rule = rules[protocol].find((each) => each.type.test(type))
  return rule?.fate ?? 'refused'
}

/** The error for a tool of this type; `param` is its path in the client's notation. */
export function toolRefused(type: string, param: string): GatewayError {
  return new GatewayError('unsupported_parameter', {
    message: `'${param}' cannot be honoured: tools of type ${JSON.stringify(type.slice(0, 64))} are not served here.`,
    param,
  })
}
