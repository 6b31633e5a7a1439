// Why a request was refused: the rules that admission goes through, the one that fired, the figures of that moment, and
// the one act that would change it. Other failures have their code and what the gateway knows of them.

import { Link } from 'wouter'
import type { Refusal, RequestWhole } from '../../api/wire.ts'
import { moment, usd } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Badge, Fact, Section } from '../../ui/basics.tsx'
import { poolNames } from '../credits/pools.ts'

export function Explanation({ request }: { request: RequestWhole }) {
  const { refusal, detail, code } = request
  return (
    <Section title={refusal ? t('Why it was refused') : t('Why it failed')}>
      {refusal && <RuleTable refusal={refusal} />}
      {!refusal && (
        <div className="card p-4">
          <p>{messageIn(detail) ?? t('The gateway answered {status}.', { status: request.status })}</p>
          <p className="mt-2">
            <a
              href={`/docs/errors#${code}`}
              target="_blank"
              rel="noreferrer"
              className="font-mono text-accent underline"
            >
              {code}
            </a>
          </p>
          {detail && <Details detail={detail} />}
        </div>
      )}
    </Section>
  )
}

function RuleTable({ refusal }: { refusal: Refusal }) {
  return (
    <div className="card p-4">
      <ol className="grid gap-1" aria-label={t('Rules of admission')}>
        {refusal.rules.map(({ id, code, asks, outcome }, index) => (
          <li
            key={id}
            className={`flex flex-wrap items-baseline gap-x-3 rounded px-2 py-1 ${
              outcome === 'fired' ? 'bg-bad-soft font-medium' : outcome === 'passed' ? '' : 'text-muted'
            }`}
          >
            <span className="w-5 tabular-nums">{index + 1}.</span>
            <span className="min-w-0 flex-1">{asks}</span>
            <code className="font-mono text-[12px]">{code}</code>
            <Badge tone={outcome === 'fired' ? 'bad' : outcome === 'passed' ? 'good' : 'plain'}>
              {t(outcomeNames[outcome])}
            </Badge>
          </li>
        ))}
      </ol>
      <Figures figures={refusal.figures} />
      <Act act={refusal.act} figures={refusal.figures} />
    </div>
  )
}

const outcomeNames = { passed: 'passed', fired: 'refused here', not_reached: 'not reached' } as const

function Figures({ figures }: { figures: Refusal['figures'] }) {
  const { needed, available, held, key_limit_left: left, pools } = figures
  const facts: readonly (readonly [string, string | null | undefined])[] = [
    [t('Needed at most'), needed],
    [t('Available'), available],
    [t('Held by other calls'), held],
    [t('Left of the key’s limit'), left],
  ]
  const known = facts.filter(([, amount]) => amount != null)
  if (known.length === 0 && !pools?.length) return null
  return (
    <div className="mt-4 border-t border-line pt-3">
      <p className="mb-2 text-[12.5px] text-muted">{t('At that moment')}</p>
      <dl className="grid grid-cols-2 gap-3 sm:grid-cols-4">
        {known.map(([name, amount]) => (
          <Fact key={name} name={name}>
            <span className="font-medium tabular-nums">{usd(amount!)}</span>
          </Fact>
        ))}
        {pools?.map(({ type, remaining, counted }) => (
          <Fact key={type} name={t(poolNames[type])}>
            <span className={`tabular-nums ${counted ? '' : 'text-muted'}`}>{usd(remaining)}</span>{' '}
            {!counted && <span className="text-[12px] text-muted">{t('does not pay for it')}</span>}
          </Fact>
        ))}
      </dl>
    </div>
  )
}

const actPages: Readonly<Record<Refusal['act']['kind'], readonly [string, string] | null>> = {
  top_up: ['/credits', 'To the credits'],
  other_model: ['/models', 'Choose another model'],
  raise_key_limit: ['/keys', 'To the keys'],
  allow_model: ['/keys', 'To the keys'],
  wait: null,
  none: null,
}

/** Remedies name a field of the error, whose value the page knows. */
function withTime(text: string, { resets_at: at }: Refusal['figures']): string {
  return at == null ? text : text.replace('`resets_at`', moment(at))
}

function Act({ act, figures }: Pick<Refusal, 'act' | 'figures'>) {
  const page = actPages[act.kind]
  return (
    <p className="mt-4 flex flex-wrap items-center gap-x-3 gap-y-2 rounded-md bg-accent-soft px-3 py-2">
      <span className="min-w-0 flex-1">
        <span className="font-medium">{t('What would change it:')}</span> {withTime(act.text, figures)}
      </span>
      {page && (
        <Link href={page[0]} className="text-accent underline">
          {t(page[1])}
        </Link>
      )}
    </p>
  )
}

function messageIn(detail: RequestWhole['detail']): string | undefined {
  const message = detail?.['message'] ?? detail?.['reason']
  return typeof message === 'string' ? message : undefined
}

function Details({ detail }: { detail: Readonly<Record<string, unknown>> }) {
  const rest = Object.entries(detail).filter(([name]) => name !== 'message')
  if (rest.length === 0) return null
  return (
    <dl className="mt-3 grid grid-cols-2 gap-3 border-t border-line pt-3 sm:grid-cols-4">
      {rest.map(([name, value]) => (
        <Fact key={name} name={name}>
          <span className="break-words">{typeof value === 'string' ? value : JSON.stringify(value)}</span>
        </Fact>
      ))}
    </dl>
  )
}
