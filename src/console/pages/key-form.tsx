// The form for a new key, and for changes of a key.

import { type FormEvent, useState } from 'react'
import { call, faultIn, newId } from '../api/call.ts'
import type { Key, MadeKey } from '../api/wire.ts'
import { t } from '../strings/text.ts'
import { Button, Failure } from '../ui/basics.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Choice, TextField, textOf, useAct } from '../ui/form.tsx'

interface KeyFormProps {
  readonly existing?: Key
  readonly onClose: () => void
  readonly onMade: (made: MadeKey) => void
}

export function KeyForm({ existing, onClose, onMade }: KeyFormProps) {
  const { error, busy, act } = useAct()
  // If the answer was lost, the same request is sent again with this id and makes no second key.
  const [id] = useState(() => newId())
  const [more, setMore] = useState(existing !== undefined && hasBounds(existing))
  const fault = error === null ? undefined : faultIn(error)
  const wrong = (param: string) => (fault?.param === param ? fault.message : undefined)
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const rights = rightsIn(new FormData(event.currentTarget))
    void act(async () => {
      if (existing === undefined) onMade(await call<MadeKey>('POST', 'keys', { ...withoutUnset(rights), id }))
      else {
        const { mode: _, sees: __, ...changes } = rights
        const shown = more ? changes : { name: changes.name }
        await call<Key>('PATCH', `keys/${encodeURIComponent(existing.id)}`, shown)
        onClose()
      }
    })
  }
  return (
    <Dialog
      title={existing ? t('Change {name}', { name: existing.name }) : t('Create a key')}
      onClose={onClose}
    >
      <form onSubmit={submit} className="grid gap-3.5">
        <TextField
          label={t('Name')}
          name="name"
          defaultValue={existing?.name}
          placeholder={t('for example: laptop, CI, search service')}
          required
          maxLength={100}
          autoFocus
          error={wrong('name')}
        />
        {existing === undefined && (
          <Choice
            label={t('Mode')}
            name="mode"
            defaultValue="live"
            options={[
              ['live', t('live: real models, charged')],
              ['test', t('test: simulated answers, free')],
            ]}
          />
        )}
        <Button
          small
          look="quiet"
          className="justify-self-start"
          aria-expanded={more}
          onClick={() => setMore(!more)}
        >
          {more ? t('Fewer options') : t('Limits, models, expiry')}
        </Button>
        {more && existing === undefined && (
          <Choice
            label={t('What it may read')}
            name="sees"
            defaultValue="own"
            options={[
              ['own', t('its own calls and responses')],
              ['all', t('those of all keys and of the chat')],
            ]}
          />
        )}
        {more && <Bounds existing={existing} wrong={wrong} />}
        {fault && <Failure error={error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{t('Cancel')}</Button>
          <Button type="submit" look="primary" busy={busy}>
            {existing ? t('Save') : t('Create the key')}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

interface BoundsProps {
  readonly existing: Key | undefined
  readonly wrong: (param: string) => string | undefined
}

function RateField({
  label,
  name,
  existing,
  wrong,
}: BoundsProps & { label: string; name: 'requests_per_minute' | 'tokens_per_minute' }) {
  return (
    <TextField
      label={label}
      name={name}
      inputMode="numeric"
      pattern="\d+"
      placeholder={t('none')}
      defaultValue={existing?.[name] ?? ''}
      error={wrong(name)}
    />
  )
}

function Bounds({ existing, wrong }: BoundsProps) {
  return (
    <>
      <div className="grid grid-cols-2 gap-3">
        <TextField
          label={t('Limit in US dollars')}
          name="limit_usd"
          inputMode="decimal"
          pattern="\d+(\.\d{1,12})?"
          placeholder={t('none')}
          defaultValue={existing?.limit_usd ?? ''}
          error={wrong('limit_usd')}
        />
        <Choice
          label={t('Counted')}
          name="limit_window"
          defaultValue={existing?.limit_window ?? 'month'}
          options={[
            ['day', t('each day')],
            ['week', t('each week')],
            ['month', t('each month')],
            ['total', t('in all')],
          ]}
        />
        <RateField
          label={t('Requests per minute')}
          name="requests_per_minute"
          existing={existing}
          wrong={wrong}
        />
        <RateField
          label={t('Tokens per minute')}
          name="tokens_per_minute"
          existing={existing}
          wrong={wrong}
        />
      </div>
      <TextField
        label={t('Models it may call')}
        name="models"
        placeholder={t('all')}
        hint={t('Ids with commas between them; * stands for any end: anthropic/*')}
        defaultValue={existing?.models?.join(', ') ?? ''}
        error={wrong('models')}
      />
      <TextField
        label={t('Networks it may come from')}
        name="networks"
        placeholder={t('all')}
        hint={t('Addresses or prefixes with commas between them: 203.0.113.0/24')}
        defaultValue={existing?.networks?.join(', ') ?? ''}
        error={wrong('networks')}
      />
      <TextField
        label={t('Expires')}
        name="expires_at"
        type="date"
        defaultValue={existing?.expires_at?.slice(0, 10) ?? ''}
        hint={t('At the end of that day in UTC; empty: never.')}
        error={wrong('expires_at')}
      />
    </>
  )
}

function hasBounds(key: Key): boolean {
  const { limit_usd, models, networks, requests_per_minute, tokens_per_minute, expires_at } = key
  return [limit_usd, models, networks, requests_per_minute, tokens_per_minute, expires_at].some(
    (bound) => bound !== null,
  )
}

/** The rights for the API; null removes a limit. */
function rightsIn(form: FormData) {
  const list = (name: string) => {
    const items = (textOf(form, name) ?? '').split(/[\s,]+/).filter((item) => item !== '')
    return items.length === 0 ? null : items
  }
  const whole = (name: string) => {
    const text = textOf(form, name)
    return text === undefined ? null : Number(text)
  }
  const date = textOf(form, 'expires_at')
  const limit = textOf(form, 'limit_usd') ?? null
  return {
    name: textOf(form, 'name') ?? '',
    mode: textOf(form, 'mode') ?? 'live',
    sees: textOf(form, 'sees') ?? 'own',
    limit_usd: limit,
    ...(limit === null ? {} : { limit_window: textOf(form, 'limit_window') }),
    requests_per_minute: whole('requests_per_minute'),
    tokens_per_minute: whole('tokens_per_minute'),
    models: list('models'),
    networks: list('networks'),
    expires_at: date === undefined ? null : `${date}T23:59:59Z`,
  }
}

function withoutUnset(rights: object): object {
  return Object.fromEntries(Object.entries(rights).filter(([, value]) => value !== null))
}
