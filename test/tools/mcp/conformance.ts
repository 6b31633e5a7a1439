// The conformance suite of the MCP project: which of its scenarios are about Weir, and how they are run.

import { resolve } from 'node:path'
import { inOwnNetwork } from '../../support/own-network.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { tempDir } from '../../support/tmp.ts'

const suite = resolve(
  import.meta.dir,
  '../../../node_modules/@modelcontextprotocol/conformance/dist/index.js',
)

/** Servers of the suite against Weir's client. */
export const clientScenarios = {
  connection: ['initialize', 'tools_call', 'sse-retry'],
  /** Driven through a registered server. */
  authorization: [
    'auth/metadata-default',
    'auth/metadata-var1',
    'auth/metadata-var2',
    'auth/metadata-var3',
    'auth/basic-cimd',
    'auth/scope-from-www-authenticate',
    'auth/scope-from-scopes-supported',
    'auth/scope-omitted-when-undefined',
    'auth/scope-step-up',
    'auth/scope-retry-limit',
    'auth/token-endpoint-auth-basic',
    'auth/token-endpoint-auth-post',
    'auth/token-endpoint-auth-none',
    'auth/pre-registration',
    'auth/2025-03-26-oauth-endpoint-fallback',
    'auth/resource-mismatch',
    'auth/offline-access-scope',
    'auth/offline-access-not-supported',
  ],
} as const

/** Clients of the suite against /mcp. */
export const serverScenarios = [
  'server-initialize',
  'ping',
  'tools-list',
  'dns-rebinding-protection',
] as const

const otherServer =
  'calls tools, resources or prompts of the example server of the suite, by names that are only there'
const notOffered = 'is an option of servers, and /mcp does not offer it'
const noSession = 'an option of servers: answers of /mcp are not taken up again once their connection is gone'
const nobodyToAsk = 'a call of the API is answered in one go: nobody is there whom a server could ask'
const extension =
  'an extension; servers are authorised by their users in the browser, or sent a token as it is'

/** All other scenarios of the suite, and why they are not about Weir. */
export const notAboutWeir: Readonly<Record<string, string>> = {
  'elicitation-sep1034-client-defaults': nobodyToAsk,
  'auth/2025-03-26-oauth-metadata-backcompat':
    'its metadata names another issuer than the one it was asked of, which RFC 8414 (3.3) has clients refuse',
  'auth/client-credentials-jwt': extension,
  'auth/client-credentials-basic': extension,
  'auth/cross-app-access-complete-flow': extension,
  'logging-set-level': notOffered,
  'completion-complete': notOffered,
  'resources-list': notOffered,
  'resources-read-text': notOffered,
  'resources-read-binary': notOffered,
  'resources-templates-read': notOffered,
  'resources-subscribe': notOffered,
  'resources-unsubscribe': notOffered,
  'prompts-list': notOffered,
  'prompts-get-simple': notOffered,
  'prompts-get-with-args': notOffered,
  'prompts-get-embedded-resource': notOffered,
  'prompts-get-with-image': notOffered,
  'server-sse-polling': noSession,
  'server-sse-multiple-streams': noSession,
  'tools-call-simple-text': otherServer,
  'tools-call-image': otherServer,
  'tools-call-audio': otherServer,
  'tools-call-embedded-resource': otherServer,
  'tools-call-mixed-content': otherServer,
  'tools-call-with-logging': otherServer,
  'tools-call-error': otherServer,
  'tools-call-with-progress': otherServer,
  'tools-call-sampling': otherServer,
  'tools-call-elicitation': otherServer,
  'elicitation-sep1034-defaults': otherServer,
  'elicitation-sep1330-enums': otherServer,
  'json-schema-2020-12': otherServer,
}

export interface Verdict {
  readonly code: number
  readonly printed: string
}

/** The suite's verdict counts warnings as well; `problem` finds either. */
export const problem = /FAILURE|WARNING|✗|[1-9]\d* warnings/

export function clientConformance(scenario: string): Promise<Verdict> {
  const child = scenario.startsWith('auth/') ? 'conformance-auth-child.ts' : 'conformance-child.ts'
  const client = `${process.execPath} ${resolve(import.meta.dir, child)}`
  return conformance(['client', '--command', client, '--scenario', scenario], true)
}

export async function serverConformance(weir: ServedWeir, scenario: string): Promise<Verdict> {
  // The suite has no key to send.
  const keyed = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      const headers = new Headers(request.headers)
      headers.set('authorization', `Bearer ${weir.key}`)
      return fetch(`${weir.origin}/mcp`, { method: request.method, headers, body: request.body })
    },
  })
  const url = `http://127.0.0.1:${keyed.port}/mcp`
  const verdict = await conformance(['server', '--url', url, '--scenario', scenario], false)
  await keyed.stop(true)
  return verdict
}

/** The names of all scenarios of the suite. */
export async function allScenarios(): Promise<string[]> {
  const { printed } = await conformance(['list'], false)
  return [...printed.matchAll(/^ {2}- (\S+)/gm)].map(([, name]) => name!)
}

async function conformance(args: readonly string[], isolated: boolean): Promise<Verdict> {
  using folder = tempDir('weir-conformance-')
  const command = [process.execPath, suite, ...args]
  const child = Bun.spawn(isolated ? [...inOwnNetwork(command)] : command, {
    cwd: folder.path,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  return { code: await child.exited, printed: out + err }
}
