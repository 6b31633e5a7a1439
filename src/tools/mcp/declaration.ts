// Checks the declaration of an MCP server in a request. Its shape is that of OpenAI's `mcp` tool.

import { z } from 'zod'
import type { McpDeclaration } from '../../conversation/gateway-tools.ts'
import { GatewayError } from '../../errors.ts'
import type { McpServer } from './connection.ts'

/** Selects tools of a server; a tool must match all fields. */
export interface ToolFilter {
  readonly names: ReadonlySet<string> | undefined
  readonly readOnly: boolean | undefined
}

export interface ApprovalRule {
  readonly always: ToolFilter | undefined
  readonly never: ToolFilter | undefined
  /** For tools that match neither, or both. */
  readonly otherwise: 'always' | 'never'
}

/** A server by its address, or by the name under which the account registered it. */
export type McpTarget =
  | { readonly kind: 'address'; readonly server: McpServer }
  | { readonly kind: 'registered'; readonly name: string }

export interface CheckedDeclaration {
  readonly label: string
  readonly target: McpTarget
  /** undefined allows every tool. */
  readonly allowed: ToolFilter | undefined
  readonly disallowed: ReadonlySet<string>
  readonly approval: ApprovalRule
}

const names = z.array(z.string().max(500)).max(2_000)
const filter = () => z.strictObject({ tool_names: names.optional(), read_only: z.boolean().optional() })

const schema = z.lazy(() =>
  z.looseObject({
    server_label: z.string(),
    server_url: z.string().min(1).max(8_192).optional(),
    server_name: z.string().min(1).max(64).optional(),
    authorization: z.string().min(1).max(16_384).nullish(),
    headers: z.record(z.string().max(200), z.string().max(16_384)).nullish(),
    allowed_tools: z.union([names, filter()]).nullish(),
    disallowed_tools: names.nullish(),
    require_approval: z
      .union([
        z.enum(['always', 'never']),
        z.strictObject({ always: filter().optional(), never: filter().optional() }),
      ])
      .nullish(),
  }),
)
type Written = z.infer<typeof schema>

/** A server is reached by its address. Programs are never started, whatever a declaration contains. */
const programFields = ['command', 'args', 'env', 'cwd', 'stdio'] as const

/** Headers of the connection or the protocol, which callers may not set. */
const reservedHeader =
  /^(?:host|connection|content-.*|transfer-encoding|te|trailer|upgrade|keep-alive|proxy-.*|expect|accept|accept-encoding|mcp-.*|last-event-id|forwarded|x-forwarded-.*|via)$/

/** Throws GatewayError, 400, naming the field. */
export function checkedDeclaration({ declaration, param, serverLabel }: McpDeclaration): CheckedDeclaration {
  refusePrograms(declaration, param)
  const read = schema.safeParse(declaration)
  if (!read.success) {
    const issue = read.error.issues[0]!
    throw wrong([param, ...issue.path].join('.'), 'is not what a declaration of an MCP server may hold')
  }
  const written = read.data
  return {
    label: serverLabel,
    target: targetOf(written, param),
    allowed: written.allowed_tools == null ? undefined : filterOf(written.allowed_tools),
    disallowed: new Set(written.disallowed_tools ?? []),
    approval: approvalOf(written.require_approval ?? 'always'),
  }
}

/** Whether a tool is selected. `readOnly` is what its server claims. */
export function fits(
  filter: ToolFilter,
  tool: { readonly name: string; readonly readOnly: boolean },
): boolean {
  if (filter.names && !filter.names.has(tool.name)) return false
  return filter.readOnly === undefined || filter.readOnly === tool.readOnly
}

export function asksFirst(
  { always, never, otherwise }: ApprovalRule,
  tool: { readonly name: string; readonly readOnly: boolean },
): boolean {
  if (always && fits(always, tool)) return true
  if (never && fits(never, tool)) return false
  return otherwise === 'always'
}

const transports: ReadonlySet<unknown> = new Set(['http', 'sse', 'streamable-http', 'streamable_http'])

function refusePrograms(declaration: Readonly<Record<string, unknown>>, param: string): void {
  const field = programFields.find((name) => declaration[name] !== undefined)
  if (field !== undefined) throw wrong(`${param}.${field}`, 'would start a program; name a server_url')
  const { transport } = declaration
  if (transport !== undefined && !transports.has(transport)) {
    throw wrong(`${param}.transport`, 'must be http or sse')
  }
  if (declaration.connector_id != null) {
    throw new GatewayError('unsupported_parameter', {
      message: 'Connectors are a service of OpenAI; name a server_url.',
      param: `${param}.connector_id`,
    })
  }
}

function targetOf(
  { server_url, server_name, server_label, authorization, headers }: Written,
  param: string,
): McpTarget {
  if (server_url === undefined) {
    if (authorization != null || headers != null) {
      throw wrong(
        `${param}.server_url`,
        'is missing: a token or headers are for a server named by its address',
      )
    }
    return { kind: 'registered', name: server_name ?? server_label }
  }
  if (server_name !== undefined) throw wrong(`${param}.server_name`, 'cannot stand beside server_url')
  return {
    kind: 'address',
    server: { url: server_url, headers: headersOf(headers ?? {}, authorization ?? undefined, param) },
  }
}

function headersOf(written: Record<string, string>, token: string | undefined, param: string): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(written)) {
    const field = `${param}.headers.${name}`
    if (reservedHeader.test(name.toLowerCase()))
      throw wrong(field, 'is a header that the gateway itself sets')
    set(headers, name, value, field)
  }
  if (token === undefined) return headers
  if (headers.has('authorization')) {
    throw wrong(`${param}.authorization`, 'is there twice: here and among the headers')
  }
  set(headers, 'authorization', `Bearer ${token}`, `${param}.authorization`)
  return headers
}

function set(headers: Headers, name: string, value: string, field: string): void {
  try {
    headers.set(name, value)
  } catch {
    // The library's error would repeat the value, which may be a secret.
    throw wrong(field, 'is no valid header')
  }
}

function filterOf(written: NonNullable<Written['allowed_tools']>): ToolFilter {
  if (Array.isArray(written)) return { names: new Set(written), readOnly: undefined }
  return { names: written.tool_names && new Set(written.tool_names), readOnly: written.read_only }
}

function approvalOf(written: NonNullable<Written['require_approval']>): ApprovalRule {
  if (typeof written === 'string') return { always: undefined, never: undefined, otherwise: written }
  const { always, never } = written
  return { always: always && filterOf(always), never: never && filterOf(never), otherwise: 'always' }
}

function wrong(param: string, what: string): GatewayError {
  return new GatewayError('invalid_request', { message: `\`${param}\` ${what}.`, param })
}
