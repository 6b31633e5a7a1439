// The account's MCP servers: their headers, whether they answer, and their tools.

import { useState } from 'react'
import { useSearchParams } from 'wouter'
import type { McpProbeView, McpServerView } from '../../http/console/answers.ts'
import { call, fullAddressOf, refresh, relayedAnswerWithinMs, useMcpServers } from '../api/call.ts'
import { t } from '../strings/text.ts'
import {
  ActForm,
  Badge,
  Button,
  Choice,
  Code,
  Dialog,
  Empty,
  Fact,
  Failure,
  Note,
  PageHead,
  Section,
  TextField,
  textOf,
  Time,
  useAct,
} from '../ui/kit.tsx'
import { QueryState } from '../ui/table.tsx'

export function McpServers() {
  const [adding, setAdding] = useState(false)
  const { data, error, isPending, refetch } = useMcpServers()
  return (
    <>
      <PageHead
        title={t('Tools')}
        about={t('MCP servers whose tools models may use, in the chat and in calls that name them.')}
      >
        <Button look="primary" onClick={() => setAdding(true)}>
          {t('Add a server')}
        </Button>
      </PageHead>
      <Outcome />
      <QueryState query={{ error, isPending, refetch }} />
      {data?.length === 0 && (
        <Empty title={t('There are no servers.')}>
          <p>{t('Register a server once, with its token. Calls then need only its name.')}</p>
        </Empty>
      )}
      <div className="grid gap-4">
        {data?.map((server) => (
          <Server key={server.name} server={server} />
        ))}
      </div>
      {data !== undefined && data.length > 0 && (
        <Section title={t('In a call')}>
          <Code label={t('A tool of a call')} text={exampleFor(data[0]!.name)} />
        </Section>
      )}
      {adding && <ServerForm names={data?.map(({ name }) => name) ?? []} onClose={() => setAdding(false)} />}
    </>
  )
}

function exampleFor(name: string): string {
  return `"tools": [{ "type": "mcp", "server_label": ${JSON.stringify(name)}, "require_approval": "never" }]`
}

/** The result of a sign-in at a server, on return from it. */
function Outcome() {
  const [query] = useSearchParams()
  const outcome = query.get('outcome')
  if (outcome === null) return null
  const isGood = outcome === 'authorized'
  return (
    <div className="mb-4">
      <Note tone={isGood ? 'good' : 'bad'} role="status">
        {isGood
          ? t('The server is authorised. Its tools can be used now.')
          : t('The server was not authorised. Nothing has changed; try it again.')}
      </Note>
    </div>
  )
}

function Server({ server }: { server: McpServerView }) {
  const { error, busy, act } = useAct()
  const [probe, setProbe] = useState<McpProbeView | null>(null)
  const [removing, setRemoving] = useState(false)
  const path = `mcp-servers/${encodeURIComponent(server.name)}`
  const test = () =>
    act(async () => {
      setProbe(null)
      setProbe(await call<McpProbeView>('POST', `${path}/test`, {}, { withinMs: relayedAnswerWithinMs }))
      await refresh('mcp-servers')
    })
  const lacking = server.needs_authorization || probe?.needs_authorization === true
  return (
    <section className="card p-4" aria-label={server.name}>
      <h2 className="flex flex-wrap items-center gap-2 font-semibold">
        <span className="min-w-0 font-mono break-all">{server.name}</span>
        {lacking && <Badge tone="warn">{t('needs a sign-in')}</Badge>}
        {server.authorized && !lacking && <Badge tone="good">{t('signed in')}</Badge>}
      </h2>
      <dl className="mt-2 grid gap-x-6 gap-y-2 sm:grid-cols-[minmax(0,2fr)_minmax(0,2fr)_auto]">
        <Fact mono name={t('Address')}>
          {server.url}
        </Fact>
        <Fact name={t('Is sent')}>{sentTo(server)}</Fact>
        <Fact name={t('Changed')}>
          <Time at={server.changed_at} />
        </Fact>
      </dl>
      <div className="mt-3 flex flex-wrap gap-2">
        <Button small busy={busy} onClick={() => void test()}>
          {t('Test')}
        </Button>
        {(lacking || server.authorized) && (
          <Button
            small
            look={lacking ? 'primary' : 'plain'}
            busy={busy}
            onClick={() => void act(() => authorize(server.name))}
          >
            {server.authorized ? t('Sign in again') : t('Sign in')}
          </Button>
        )}
        <Button small look="danger" busy={busy} onClick={() => setRemoving(true)}>
          {t('Remove')}
        </Button>
      </div>
      <div className="mt-3 grid gap-3 empty:hidden">
        {error !== null && <Failure error={error} />}
        {probe && <Tools probe={probe} />}
      </div>
      {removing && <Removing name={server.name} path={path} onClose={() => setRemoving(false)} />}
    </section>
  )
}

function sentTo({ headers, authorized }: McpServerView): string {
  const sent = [...headers, ...(authorized ? [t('a token of the sign-in')] : [])]
  return sent.length === 0 ? t('nothing') : sent.join(', ')
}

function Tools({ probe }: { probe: McpProbeView }) {
  const { tools, error } = probe
  return (
    <>
      <Note tone={error === null ? 'good' : 'bad'} role="status">
        {error === null
          ? t('It answers. Tools: {count}', { count: tools.length })
          : t('It cannot be used as it should: {reason}', { reason: error })}
      </Note>
      {tools.length > 0 && (
        <ul className="flex max-h-60 flex-wrap gap-1 overflow-y-auto" aria-label={t('Tools')}>
          {tools.map((tool) => (
            <li
              key={tool}
              className="max-w-full rounded border border-line px-1.5 font-mono text-[12px] break-all"
            >
              {tool}
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function Removing({ name, path, onClose }: { name: string; path: string; onClose: () => void }) {
  const { error, busy, act } = useAct()
  const remove = () =>
    act(async () => {
      await call('DELETE', path)
      await refresh('mcp-servers')
      onClose()
    })
  return (
    <Dialog title={t('Remove {name}', { name })} onClose={onClose}>
      <div className="grid gap-3">
        <p>{t('Its token and headers are deleted. Calls that name it are refused from then on.')}</p>
        {error !== null && <Failure error={error} />}
        <div>
          <Button look="danger" busy={busy} onClick={() => void remove()}>
            {t('Remove the server')}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}

// Registers a server: its URL and its headers.

type Way = 'nothing' | 'token' | 'oauth'

/** Redirects the browser to the server's sign-in. */
async function authorize(name: string): Promise<void> {
  const path = `mcp-servers/${encodeURIComponent(name)}/authorize`
  const { authorization_url } = await call<{ authorization_url: string }>(
    'POST',
    path,
    {},
    { withinMs: relayedAnswerWithinMs },
  )
  location.assign(authorization_url)
}

/** `names` are those of the existing servers. */
function ServerForm({ names, onClose }: { names: readonly string[]; onClose: () => void }) {
  const [way, setWay] = useState<Way>('nothing')
  const [replacing, setReplacing] = useState<string | null>(null)
  const add = async (given: FormData) => {
    const body = bodyOf(given, way)
    if (names.includes(body.name) && replacing !== body.name) return setReplacing(body.name)
    const { name } = await call<McpServerView>('POST', 'mcp-servers', body)
    await refresh('mcp-servers')
    if (way === 'oauth') await authorize(name)
    onClose()
  }
  const action =
    replacing !== null ? t('Replace it') : way === 'oauth' ? t('Add it and sign in') : t('Add it')
  return (
    <Dialog title={t('Add a server')} onClose={onClose}>
      <ActForm onSubmit={add} action={action} fields={['name', 'url', 'token']}>
        {(faultOf) => (
          <>
            <TextField
              label={t('Name')}
              name="name"
              required
              maxLength={64}
              autoComplete="off"
              hint={t('How calls name it: letters, digits, underscores and hyphens.')}
              error={faultOf('name')}
              onChange={() => setReplacing(null)}
            />
            <TextField
              label={t('Address')}
              name="url"
              type="url"
              required
              maxLength={2048}
              placeholder="https://mcp.example.com/mcp"
              error={faultOf('url')}
            />
            <Choice
              label={t('Authentication')}
              value={way}
              onChange={(event) => setWay(event.target.value as Way)}
              options={[
                ['nothing', t('nothing')],
                ['token', t('a token')],
                ['oauth', t('signing in with the browser')],
              ]}
            />
            {way === 'token' && (
              <TextField
                label={t('Token')}
                name="token"
                type="password"
                required
                maxLength={8192}
                autoComplete="off"
                hint={t('Kept encrypted, and never shown again.')}
                error={faultOf('token')}
              />
            )}
            {way === 'oauth' && <OAuthClient />}
            <details>
              <summary className="text-[13px]">{t('More headers')}</summary>
              <div className="mt-2">
                <label htmlFor="mcp-headers" className="mb-1 block text-[13px] font-medium">
                  {t('One per line, such as X-Team: a')}
                </label>
                <textarea
                  id="mcp-headers"
                  name="headers"
                  rows={3}
                  className="control h-auto py-1.5 font-mono"
                />
              </div>
            </details>
            {replacing !== null && (
              <Note tone="warn" role="status">
                {t('A server with this name exists. It is replaced, with its token and headers.')}
              </Note>
            )}
          </>
        )}
      </ActForm>
    </Dialog>
  )
}

function OAuthClient() {
  return (
    <details>
      <summary className="text-[13px]">{t('Use a client that I registered there')}</summary>
      <div className="mt-2 grid gap-3">
        <p className="text-[12.5px] text-muted">
          {t('Register one there with this address to come back to:')}{' '}
          <span className="font-mono break-all">{fullAddressOf('/console/api/mcp-servers/callback')}</span>
        </p>
        <TextField label={t('Client id')} name="client_id" maxLength={2048} autoComplete="off" />
        <TextField
          label={t('Client secret')}
          name="client_secret"
          type="password"
          maxLength={8192}
          autoComplete="off"
        />
      </div>
    </details>
  )
}

function bodyOf(form: FormData, way: Way) {
  const token = way === 'token' ? textOf(form, 'token') : undefined
  const id = way === 'oauth' ? textOf(form, 'client_id') : undefined
  const secret = textOf(form, 'client_secret')
  const headers = headersIn(textOf(form, 'headers') ?? '')
  return {
    name: textOf(form, 'name') ?? '',
    url: textOf(form, 'url') ?? '',
    ...(Object.keys(headers).length > 0 && { headers }),
    ...(token !== undefined && { token }),
    ...(id !== undefined && {
      oauth: { client_id: id, ...(secret !== undefined && { client_secret: secret }) },
    }),
  }
}

/** A line without a colon is sent unchanged, so that the gateway reports what is wrong with it. */
function headersIn(text: string): Record<string, string> {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return Object.fromEntries(
    lines.map((line) => {
      const [name, ...value] = line.split(':')
      return [name!.trim(), value.join(':').trim()]
    }),
  )
}
