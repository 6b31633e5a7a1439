// A new key, shown only once, with a first call to try it. It waits for that call and turns green when it arrives.
// The key is lost when the dialog closes.

import { useQuery } from '@tanstack/react-query'
import { call } from '../../api/call.ts'
import type { MadeKey, Page, RequestRow } from '../../api/wire.ts'
import { milliseconds, moment, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Button, Code, Copy, Note } from '../../ui/basics.tsx'
import { Dialog } from '../../ui/dialog.tsx'

const askEveryMs = 1_500

export function RevealedKey({ made, onClose }: { made: MadeKey; onClose: () => void }) {
  const { data: first } = useQuery({
    queryKey: ['first-call', made.id],
    queryFn: async () =>
      (await call<Page<RequestRow>>('GET', `requests?limit=1&key=${encodeURIComponent(made.id)}`)).data[0] ??
      null,
    refetchInterval: ({ state }) => (state.data ? false : askEveryMs),
    gcTime: 0,
  })
  const base = `${location.origin}/v1`
  return (
    <Dialog title={t('Your new key')} onClose={onClose} wide firm>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
        <p>{t('This is the only time that it is shown. Weir keeps its hash and cannot show it again.')}</p>
        <div className="flex items-center gap-2 rounded-md border border-line-strong bg-paper p-2.5">
          <code className="min-w-0 flex-1 font-mono text-[13px] break-all" data-testid="key">
            {made.key}
          </code>
          <Copy text={made.key} look="primary" label={t('Copy the key')} />
        </div>
        {made.replaced_works_until != null && (
          <Note tone="warn">
            {t('The key that it replaces works until {time}.', { time: moment(made.replaced_works_until) })}
          </Note>
        )}
        <div>
          <h3 className="mb-1 text-[13px] font-medium">{t('For client libraries')}</h3>
          <Code
            label={t('Environment')}
            text={`export OPENAI_BASE_URL=${base}\nexport OPENAI_API_KEY=${made.key}`}
          />
        </div>
        <div>
          <h3 className="mb-1 text-[13px] font-medium">{t('A first call')}</h3>
          <Code label={t('A first call')} text={firstCall(base, made.key)} />
        </div>
        <FirstCall first={first ?? null} />
        <div className="flex justify-end">
          <Button look="primary" onClick={onClose}>
            {t('I have stored the key')}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}

function FirstCall({ first }: { first: RequestRow | null }) {
  if (first === null) {
    return (
      <Note role="status">
        <span className="inline-block size-2 animate-pulse rounded-full bg-line-strong" aria-hidden="true" />{' '}
        {t('Waiting for the first call with this key …')}
      </Note>
    )
  }
  const { code, model, total_ms: ms, cost } = first
  if (code !== null) {
    return (
      <Note tone="bad" role="status">
        {t('The first call has arrived and was refused: {code}.', { code })}{' '}
        <a className="underline" href={`/console/requests/${first.id}`}>
          {t('Why?')}
        </a>
      </Note>
    )
  }
  return (
    <Note tone="good" role="status">
      <span className="text-good">✓</span>{' '}
      {t('The first call has arrived: {model} in {time} for {cost}.', {
        model: model ?? '',
        time: milliseconds(ms),
        cost: usd(cost),
      })}
    </Note>
  )
}

function firstCall(base: string, key: string): string {
  return [
    `curl ${base}/chat/completions \\`,
    `  -H "Authorization: Bearer ${key}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d '{"model": "sim/echo", "messages": [{"role": "user", "content": "Hello"}]}'`,
  ].join('\n')
}
