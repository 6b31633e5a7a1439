// Webhooks: addresses that receive events of the account, and the deliveries to each.

import { useState } from 'react'
import type { AttemptView, DeliveryView, WebhookView } from '../../http/console/answers.ts'
import { call, newId, refresh, relayedAnswerWithinMs, useData } from '../api/call.ts'
import { milliseconds, t } from '../strings/text.ts'
import {
  Back,
  ActForm,
  Badge,
  Button,
  Dialog,
  Empty,
  Failure,
  Note,
  PageHead,
  ShownOnce,
  TextField,
  textOf,
  Time,
  useAct,
} from '../ui/kit.tsx'
import { QueryState } from '../ui/table.tsx'

const events: Readonly<Record<WebhookView['events'][number], string>> = {
  'balance.low': 'The purchased credit is low',
  'lot.expiring': 'A top-up expires soon',
  'top_up.credited': 'A top-up was credited',
  'key.created': 'A key was created',
  'key.limit_reached': 'A key has reached its limit',
  'key.frozen': 'A key has leaked, or seems to have, and is frozen',
  'group.budget_reached': 'A group has spent a share of its budget',
}

export function WebhooksPage() {
  const [adding, setAdding] = useState(false)
  const { data, error, isPending, refetch } = useData<readonly WebhookView[]>(['webhooks'], 'webhooks')
  return (
    <>
      <Back href="/settings">{t('Settings')}</Back>
      <PageHead
        title={t('Webhooks')}
        about={t('Signed messages to an address of yours. One that is not accepted is sent again, for days.')}
      >
        <Button look="primary" onClick={() => setAdding(true)}>
          {t('Add a webhook')}
        </Button>
      </PageHead>
      <QueryState query={{ error, isPending, refetch }} />
      {data?.length === 0 && (
        <Empty title={t('There are no webhooks.')}>
          <p>
            {t('A program of yours is notified, for example when credit is low or a key reaches its limit.')}
          </p>
        </Empty>
      )}
      <div className="grid gap-4">
        {data?.map((webhook) => (
          <Hook key={webhook.id} webhook={webhook} />
        ))}
      </div>
      {adding && <Adding onClose={() => setAdding(false)} />}
    </>
  )
}

function Hook({ webhook }: { webhook: WebhookView }) {
  const { error, busy, act } = useAct()
  const [tried, setTried] = useState<(AttemptView & { ok: boolean }) | null>(null)
  const path = `webhooks/${encodeURIComponent(webhook.id)}`
  const test = () =>
    act(async () => {
      const limit = { withinMs: relayedAnswerWithinMs }
      setTried(await call<AttemptView & { ok: boolean }>('POST', `${path}/test`, {}, limit))
    })
  const remove = () =>
    act(async () => {
      await call('DELETE', path)
      await refresh('webhooks')
    })
  return (
    <section className="card p-4" aria-label={webhook.url}>
      <h2 className="font-mono text-[13px] font-semibold break-all">{webhook.url}</h2>
      <p className="mt-2 flex flex-wrap gap-1">
        {webhook.events.map((event) => (
          <Badge key={event}>{event}</Badge>
        ))}
      </p>
      <div className="mt-3 flex flex-wrap gap-2">
        <Button small busy={busy} onClick={() => void test()}>
          {t('Send a test')}
        </Button>
        <Button small look="danger" busy={busy} onClick={() => void remove()}>
          {t('Remove')}
        </Button>
      </div>
      <div className="mt-3 grid gap-3">
        {error !== null && <Failure error={error} />}
        {tried && (
          <Note tone={tried.ok ? 'good' : 'bad'} role="status">
            {tried.ok
              ? t('Accepted: {status} after {time}.', {
                  status: tried.status ?? '',
                  time: milliseconds(tried.ms),
                })
              : t('Not accepted: {reason}.', { reason: tried.error ?? '' })}
          </Note>
        )}
        <Deliveries path={path} id={webhook.id} />
      </div>
    </section>
  )
}

const states: Readonly<Record<DeliveryView['state'], readonly [string, 'good' | 'accent' | 'bad']>> = {
  waiting: ['waits', 'accent'],
  delivered: ['delivered', 'good'],
  given_up: ['given up', 'bad'],
}

function Deliveries({ path, id }: { path: string; id: string }) {
  const { data, error, refetch } = useData<readonly DeliveryView[]>(['webhooks', id], `${path}/deliveries`, {
    refetchInterval: 10_000,
  })
  if (error) return <Failure error={error} retry={() => void refetch()} />
  if (!data || data.length === 0) return <p className="text-muted">{t('Nothing was sent yet.')}</p>
  return (
    <ul className="grid gap-1" aria-label={t('Messages')}>
      {data.map((delivery) => {
        const [name, tone] = states[delivery.state]
        return (
          <li key={delivery.id} className="border-t border-line pt-2">
            <details>
              <summary className="flex flex-wrap items-center gap-2">
                <span className="font-mono text-[12.5px]">{delivery.type}</span>
                <Badge tone={tone}>{t(name)}</Badge>
                <span className="text-[12.5px] text-muted">
                  <Time at={delivery.at} />
                </span>
                {delivery.next_at !== null && (
                  <span className="text-[12.5px] text-muted">
                    {t('tried next')} <Time at={delivery.next_at} />
                  </span>
                )}
              </summary>
              <p className="mt-1 font-mono text-[12px] break-all text-muted">{delivery.id}</p>
              <ol className="mt-1 grid gap-0.5 text-[13px]" aria-label={t('Attempts')}>
                {delivery.attempts.map((attempt, index) => (
                  <li key={attempt.at}>
                    {index + 1}. <Time at={attempt.at} />: {attempt.error ?? attempt.status} (
                    {milliseconds(attempt.ms)})
                  </li>
                ))}
                {delivery.attempts.length === 0 && <li>{t('Not tried yet.')}</li>}
              </ol>
            </details>
          </li>
        )
      })}
    </ul>
  )
}

/** The secret is only in this dialog's state and is lost when it closes. */
function Adding({ onClose }: { onClose: () => void }) {
  // If the answer was lost, the same request is sent again with this id and adds no second webhook.
  const [id] = useState(() => newId())
  const [secret, setSecret] = useState<string | null>(null)
  const add = async (given: FormData) => {
    const body = { url: textOf(given, 'url') ?? '', events: given.getAll('events').map(String), id }
    try {
      const made = await call<WebhookView & { secret: string }>('POST', 'webhooks', body)
      setSecret(made.secret)
    } finally {
      // Also after an error: it may have been added, and only the answer was lost.
      void refresh('webhooks')
    }
  }
  if (secret !== null)
    return (
      <ShownOnce
        title={t('The secret of the webhook')}
        warning={t(
          'This is the only time that it is shown. Messages are signed with it as Standard Webhooks has it.',
        )}
        secret={secret}
        label={t('Secret')}
        done={t('I have stored the secret')}
        onClose={onClose}
      />
    )
  return (
    <Dialog title={t('Add a webhook')} onClose={onClose}>
      <ActForm onSubmit={add} action={t('Add it')}>
        <TextField
          label={t('Address')}
          name="url"
          type="url"
          required
          maxLength={2048}
          placeholder="https://example.com/hooks/weir"
        />
        <fieldset className="grid gap-1.5">
          <legend className="mb-1 text-[13px] font-medium">{t('Notify it when')}</legend>
          {Object.entries(events).map(([type, name]) => (
            <label key={type} className="flex items-center gap-2">
              <input type="checkbox" name="events" value={type} defaultChecked />
              {t(name)}
            </label>
          ))}
        </fieldset>
      </ActForm>
    </Dialog>
  )
}
