// What is shown of a key wherever keys are listed: its name, its limits, its state, and the button that pauses it.

import { Link } from 'wouter'
import type { KeyView } from '../../http/console/answers.ts'
import { call } from '../api/call.ts'
import { elevate } from '../session/signed-out.tsx'
import { countOf, moment, t, usd, usdShort } from '../strings/text.ts'
import { Badge, Button, Failure, Time, TimeIn, useAct } from '../ui/kit.tsx'

const spentOf = {
  day: '{spent} / {limit} a day',
  week: '{spent} / {limit} a week',
  month: '{spent} / {limit} a month',
  total: '{spent} / {limit} in all',
} as const

/** `href` is a page about it, where there is one. */
export function KeyName({ keyRow, href }: { keyRow: KeyView; href?: string }) {
  return (
    <>
      {href === undefined ? (
        <span className="font-medium">{keyRow.name}</span>
      ) : (
        <Link href={href} className="font-medium text-accent underline">
          {keyRow.name}
        </Link>
      )}{' '}
      {keyRow.mode === 'test' && <Badge tone="warn">{t('test')}</Badge>}
      {keyRow.group !== null && <Badge>{t('of a group')}</Badge>}
      {keyRow.sees === 'all' && (
        <>
          {' '}
          <Badge tone="warn">{t('reads all calls')}</Badge>
        </>
      )}
      <span className="block font-mono text-[12px] text-muted">…{keyRow.last4}</span>
    </>
  )
}

export function KeyLimit({ keyRow }: { keyRow: KeyView }) {
  const { limit_usd: limit, limit_window: window, spent_usd: spent, models, networks } = keyRow
  const { requests_per_minute: requests, tokens_per_minute: tokens, cache_ttl: cached } = keyRow
  const bounds: readonly (readonly [string, string?])[] = [
    ...(models === null
      ? []
      : [[countOf(models.length, '{count} model', '{count} models'), models.join(', ')] as const]),
    ...(requests === null
      ? []
      : [[countOf(requests, '{count} request a minute', '{count} requests a minute')] as const]),
    ...(tokens === null
      ? []
      : [[countOf(tokens, '{count} token a minute', '{count} tokens a minute')] as const]),
    ...(cached === null
      ? []
      : [
          [countOf(cached, 'answers again for {count} second', 'answers again for {count} seconds')] as const,
        ]),
    ...(networks === null
      ? []
      : [[countOf(networks.length, '{count} network', '{count} networks'), networks.join(', ')] as const]),
  ]
  return (
    <>
      {limit === null ? (
        <span className="text-muted">{t('none')}</span>
      ) : (
        <span className="tabular-nums" title={`${usd(spent)} / ${usd(limit)}`}>
          {t(spentOf[window], { spent: usdShort(spent), limit: usdShort(limit) })}
        </span>
      )}
      {bounds.map(([text, whole]) => (
        <span key={text} className="block text-[12px] text-muted" title={whole}>
          {text}
        </span>
      ))}
    </>
  )
}

/** Whether a key is paused because it has leaked, or seems to have. */
export function isFrozen({ paused_by: by }: Pick<KeyView, 'paused_by'>): boolean {
  return by === 'leak' || by === 'networks'
}

export function KeyState({ keyRow }: { keyRow: KeyView }) {
  const { state, revoked_at: revoked, expires_at: expires, replaced_by: replaced } = keyRow
  const { paused_at: paused, paused_by: by } = keyRow
  if (state === 'revoked') {
    return (
      <span title={revoked === null ? undefined : moment(revoked)}>
        <Badge tone="bad">{t('revoked')}</Badge> <Time at={revoked} />
      </span>
    )
  }
  if (state === 'expired') {
    return (
      <>
        <Badge>{t('expired')}</Badge> <Time at={expires} />
      </>
    )
  }
  if (state === 'paused') {
    return (
      <>
        {isFrozen(keyRow) ? (
          <Badge tone="bad">{t('frozen')}</Badge>
        ) : (
          <Badge tone="warn">{t('paused')}</Badge>
        )}{' '}
        <Time at={paused} />
        {by === 'operator' && (
          <span className="block text-[12px] text-muted">{t('by an operator: ask for it')}</span>
        )}
        {by === 'leak' && (
          <span className="block text-[12px] text-muted">{t('reported as leaked: replace it')}</span>
        )}
        {by === 'networks' && (
          <span className="block text-[12px] text-muted">
            {t('used from many networks: replace or resume it')}
          </span>
        )}
      </>
    )
  }
  // A replaced key works until its overlap ends.
  if (replaced !== null) {
    return (
      <>
        <Badge tone="warn">{t('replaced')}</Badge>
        {expires !== null && (
          <span className="block text-[12px] text-muted">
            <TimeIn sentence={t('works until {time}')} at={expires} />
          </span>
        )}
      </>
    )
  }
  return (
    <>
      <Badge tone="good">{t('active')}</Badge>
      {expires !== null && (
        <span className="block text-[12px] text-muted">
          <TimeIn sentence={t('until {time}')} at={expires} />
        </span>
      )}
    </>
  )
}

/**
 * Pauses an active key below `path`, or resumes a paused one, without a dialog: it is taken back by the same button.
 * Nothing for a key that has ended, or that only an operator resumes.
 */
export function PauseButton({
  keyRow: { id, name, state, paused_by: by },
  path,
  operator = false,
  onDone,
}: {
  keyRow: KeyView
  path: string
  operator?: boolean
  onDone: () => unknown
}) {
  const { error, busy, act } = useAct()
  if (state !== 'active' && (state !== 'paused' || (by === 'operator' && !operator))) return null
  const verb = state === 'active' ? 'pause' : 'resume'
  const send = () => call('POST', `${path}/${encodeURIComponent(id)}/${verb}`, {})
  const change = () =>
    act(async () => {
      await (operator ? elevate(send) : send())
      await onDone()
    })
  return (
    <>
      <Button
        small
        look="quiet"
        busy={busy}
        aria-label={verb === 'pause' ? t('Pause {name}', { name }) : t('Resume {name}', { name })}
        onClick={() => void change()}
      >
        {verb === 'pause' ? t('Pause') : t('Resume')}
      </Button>
      {error !== null && <Failure error={error} />}
    </>
  )
}

export function KeySearch({ q, onChange }: { q: string; onChange: (q: string) => void }) {
  return (
    <input
      type="search"
      aria-label={t('Search keys')}
      placeholder={t('Name, id or last characters')}
      value={q}
      maxLength={200}
      onChange={(event) => onChange(event.target.value)}
      className="control mb-4 max-w-md"
    />
  )
}
