// Basic components of all pages.

import { type ButtonHTMLAttributes, type MouseEvent, type ReactNode, useState } from 'react'
import { faultIn } from '../api/call.ts'
import { ago, moment, usd, usdShort } from '../strings/format.ts'
import { t } from '../strings/text.ts'

type Look = 'primary' | 'plain' | 'danger' | 'quiet'

const looks: Readonly<Record<Look, string>> = {
  primary: 'bg-accent text-accent-ink border-accent hover:opacity-90',
  plain: 'bg-panel border-line-strong hover:bg-paper',
  danger: 'bg-panel border-bad text-bad hover:bg-bad-soft',
  quiet: 'border-transparent text-accent hover:bg-accent-soft',
}

export function Button({
  look = 'plain',
  busy = false,
  small = false,
  className = '',
  children,
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { look?: Look; busy?: boolean; small?: boolean }) {
  return (
    <button
      type="button"
      aria-busy={busy || undefined}
      {...rest}
      disabled={rest.disabled || busy}
      className={`inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md border font-medium whitespace-nowrap disabled:opacity-50 ${
        small ? 'h-7 px-2 text-[13px]' : 'h-9 px-3.5'
      } ${looks[look]} ${className}`}
    >
      {children}
    </button>
  )
}

export function PageHead({
  title,
  children,
  about,
}: {
  title: string
  children?: ReactNode
  about?: ReactNode
}) {
  return (
    <header className="mb-5 flex flex-wrap items-start gap-x-4 gap-y-2">
      <div className="min-w-0 flex-[1_1_16rem]">
        <h1 className="text-xl font-semibold tracking-tight break-words">{title}</h1>
        {about && <p className="mt-0.5 max-w-prose text-muted">{about}</p>}
      </div>
      {children && <div className="flex flex-wrap items-center gap-2">{children}</div>}
    </header>
  )
}

export function Section({ title, children, side }: { title: string; children: ReactNode; side?: ReactNode }) {
  return (
    <section className="mt-7">
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <h2 className="flex-1 font-semibold">{title}</h2>
        {side}
      </div>
      {children}
    </section>
  )
}

type Tone = 'good' | 'warn' | 'bad' | 'accent' | 'plain'

const tones: Readonly<Record<Tone, string>> = {
  good: 'bg-good-soft text-good',
  warn: 'bg-warn-soft text-warn',
  bad: 'bg-bad-soft text-bad',
  accent: 'bg-accent-soft text-accent',
  plain: 'bg-paper text-muted border border-line',
}

export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span
      className={`inline-flex items-center rounded px-1.5 py-px text-[12px] leading-[18px] font-medium whitespace-nowrap ${tones[tone]}`}
    >
      {children}
    </span>
  )
}

export function Note({
  tone = 'plain',
  children,
  role,
}: {
  tone?: Tone
  children: ReactNode
  role?: 'status' | 'alert'
}) {
  return (
    <div role={role} className={`rounded-md px-3 py-2 ${tones[tone]} ${tone === 'plain' ? '' : 'text-ink'}`}>
      {children}
    </div>
  )
}

/** An error, with its code and a link to its explanation. */
export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const { code, message, status, metadata } = faultIn(error)
  const id = metadata['request_id']
  return (
    <div role="alert" className="rounded-md bg-bad-soft px-3 py-2">
      <p>{message}</p>
      <p className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1 text-[13px]">
        {status > 0 ? (
          <a
            className="font-mono text-bad underline"
            href={`/docs/errors#${code}`}
            target="_blank"
            rel="noreferrer"
          >
            {code}
          </a>
        ) : (
          <span className="font-mono text-bad">{code}</span>
        )}
        {typeof id === 'string' && <span className="font-mono break-all text-muted">{id}</span>}
        {retry && (
          <Button small look="quiet" onClick={retry}>
            {t('Try again')}
          </Button>
        )}
      </p>
    </div>
  )
}

export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div role="status" aria-label={t('Loading')} className="grid gap-2">
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className="h-8 animate-pulse rounded bg-line/60" />
      ))}
    </div>
  )
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="card px-6 py-10 text-center">
      <p className="font-medium">{title}</p>
      {children && (
        <div className="mx-auto mt-2 flex max-w-md flex-col items-center gap-3 text-muted">{children}</div>
      )}
    </div>
  )
}

/** An exact amount of dollars; the short form has the whole amount as its title. */
export function Usd({ amount, short = false }: { amount: string; short?: boolean }) {
  return (
    <span className="tabular-nums" title={short ? usd(amount) : undefined}>
      {short ? usdShort(amount) : usd(amount)}
    </span>
  )
}

export function Time({ at, none = '–' }: { at: string | null; none?: string }) {
  if (at === null) return <span className="text-muted">{none}</span>
  return (
    <time dateTime={at} title={moment(at)} className="whitespace-nowrap">
      {ago(at)}
    </time>
  )
}

/** A sentence with a time at its `{time}`. */
export function TimeIn({ sentence, at }: { sentence: string; at: string | null }) {
  const [before, after] = sentence.split('{time}')
  return (
    <>
      {before}
      <Time at={at} />
      {after}
    </>
  )
}

/** Copies a text, and confirms it on screen and to screen readers. */
export function Copy({ text, label, look = 'plain' }: { text: string; label?: string; look?: Look }) {
  const [done, setDone] = useState<'Copied' | 'Not copied' | null>(null)
  const copy = async ({ currentTarget }: MouseEvent<HTMLButtonElement>) => {
    setDone((await copyText(text, currentTarget)) ? 'Copied' : 'Not copied')
    setTimeout(() => setDone(null), 2_000)
  }
  return (
    <Button small look={look} onClick={(event) => void copy(event)}>
      <span aria-live="polite">{done === null ? (label ?? t('Copy')) : t(done)}</span>
    </Button>
  )
}

/** A block of code with a button that copies it. */
export function Code({ text, label }: { text: string; label: string }) {
  return (
    <div className="relative">
      <pre
        aria-label={label}
        tabIndex={0}
        role="group"
        className="overflow-x-auto rounded-md border border-line bg-paper p-3 pr-20 font-mono max-sm:pt-11 max-sm:pr-3 text-[12.5px] leading-relaxed"
      >
        {text}
      </pre>
      <div className="absolute top-2 right-2">
        <Copy text={text} />
      </div>
    </div>
  )
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-[12px] text-muted">{name}</dt>
      <dd className="break-words">{children}</dd>
    </div>
  )
}

/**
 * Copies a text. Browsers have `navigator.clipboard` on secure origins only; elsewhere the text is selected in a field
 * beside `near` (a modal dialog makes the rest of the page inert) and copied from there. Resolves with whether it was.
 */
async function copyText(text: string, near: Element): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return copySelected(text, near)
  }
}

function copySelected(text: string, near: Element): boolean {
  const focused = document.activeElement
  const field = document.createElement('textarea')
  field.value = text
  field.readOnly = true
  field.className = 'sr-only'
  near.after(field)
  field.select()
  // Deprecated, and the only way without navigator.clipboard.
  const copied = document.execCommand('copy')
  field.remove()
  if (focused instanceof HTMLElement) focused.focus()
  return copied
}

/** Water flowing over a weir. */
export function Logo() {
  return (
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#0b6e8f" />
      <path d="M5 10h11c5 0 4 12 11 12" fill="none" stroke="#fff" strokeWidth="3.5" strokeLinecap="round" />
    </svg>
  )
}

// Downloads of files that a page makes.

export function saveFile(name: string, type: string, text: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob([text], { type }))
  link.download = name
  link.click()
  URL.revokeObjectURL(link.href)
}
