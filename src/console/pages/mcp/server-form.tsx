// Registers a server: its URL and its headers.

import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { call, relayedAnswerWithinMs } from '../../api/call.ts'
import type { McpServer } from '../../api/wire.ts'
import { t } from '../../strings/text.ts'
import { Note } from '../../ui/basics.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Choice, textOf, TextField } from '../../ui/form.tsx'
import { ActForm } from '../../ui/act-form.tsx'

type Way = 'nothing' | 'token' | 'oauth'

/** Redirects the browser to the server's sign-in. */
export async function authorize(name: string): Promise<void> {
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
export function ServerForm({ names, onClose }: { names: readonly string[]; onClose: () => void }) {
  const client = useQueryClient()
  const [way, setWay] = useState<Way>('nothing')
  const [replacing, setReplacing] = useState<string | null>(null)
  const add = async (given: FormData) => {
    const body = bodyOf(given, way)
    if (names.includes(body.name) && replacing !== body.name) return setReplacing(body.name)
    const { name } = await call<McpServer>('POST', 'mcp-servers', body)
    await client.invalidateQueries({ queryKey: ['mcp-servers'] })
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
          <span className="font-mono break-all">{`${location.origin}/console/api/mcp-servers/callback`}</span>
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
