// Basic components of all pages.

import {
  type ButtonHTMLAttributes,
  type FormEvent,
  type InputHTMLAttributes,
  type MouseEvent,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react'
import { Link } from 'wouter'
import { addressOf, faultIn } from '../api/call.ts'
import { ago, moment, t, usd, usdShort } from '../strings/text.ts'
import type { SessionView } from '../../http/console/answers.ts'

type Look = 'primary' | 'plain' | 'danger' | 'quiet'

const looks: Readonly<Record<Look, string>> = {
  primary: 'bg-accent text-accent-ink border-accent hover:opacity-90',
  plain: 'bg-panel border-line-strong hover:bg-paper',
  danger: 'bg-panel border-bad text-bad hover:bg-bad-soft',
  quiet: 'border-transparent text-accent hover:bg-accent-soft',
}

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly look?: Look
  readonly busy?: boolean
  readonly small?: boolean
}

export function Button({
  look = 'plain',
  busy = false,
  small = false,
  className = '',
  children,
  ...rest
}: ButtonProps) {
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

/** A link to a page of the console within a text. */
export function TextLink({ href, title, children }: { href: string; title?: string; children: ReactNode }) {
  return (
    <Link href={href} title={title} className="text-accent underline">
      {children}
    </Link>
  )
}

interface RowButtonProps extends ButtonProps {
  /** What screen readers hear: with the name of the row. */
  readonly label: string
}

/** A small button in a row of a list. */
export function RowButton({ label, look = 'quiet', ...rest }: RowButtonProps) {
  return <Button small look={look} aria-label={label} {...rest} />
}

/** A file below the console's API. */
export function Download({ path, children = 'CSV' }: { path: string; children?: ReactNode }) {
  return (
    <a
      href={addressOf(`/console/api/${path}`)}
      download
      className="inline-flex h-9 items-center rounded-md border border-line-strong px-3.5 font-medium hover:bg-paper"
    >
      {children}
    </a>
  )
}

/** The way back to the list that a page belongs to. */
export function Back({ href, children }: { href: string; children: ReactNode }) {
  return (
    <p className="mb-2 text-[13px]">
      <TextLink href={href}>{children}</TextLink>
    </p>
  )
}

interface PageHeadProps {
  readonly title: string
  readonly children?: ReactNode
  readonly about?: ReactNode
}

export function PageHead({ title, children, about }: PageHeadProps) {
  return (
    <header className="mb-5 flex flex-wrap items-start gap-x-4 gap-y-2">
      <div className="min-w-0 flex-[1_1_16rem]">
        <h1 className="text-xl font-semibold tracking-tight break-words">{title}</h1>
        {about && <p className="mt-0.5 max-w-prose break-words text-muted">{about}</p>}
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

interface NoteProps {
  readonly tone?: Tone
  readonly children: ReactNode
  readonly role?: 'status' | 'alert'
}

export function Note({ tone = 'plain', children, role }: NoteProps) {
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
      <p className="break-words whitespace-pre-line">{message}</p>
      <p className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1 text-[13px]">
        {status > 0 ? <ErrorCode code={code} /> : <span className="font-mono text-bad">{code}</span>}
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

/** The code of an error, which leads to its explanation. */
export function ErrorCode({ code, className = 'text-bad' }: { code: string; className?: string }) {
  return (
    <a
      className={`font-mono underline ${className}`}
      href={addressOf(`/docs/errors#${code}`)}
      target="_blank"
      rel="noreferrer"
    >
      {code}
    </a>
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

interface FactProps {
  readonly name: string
  /** For ids and addresses. */
  readonly mono?: boolean
  readonly children: ReactNode
}

export function Fact({ name, mono = false, children }: FactProps) {
  return (
    <div className="min-w-0">
      <dt className="text-[12px] text-muted">{name}</dt>
      <dd className="break-words">
        {mono ? <span className="font-mono text-[12.5px] break-all">{children}</span> : children}
      </dd>
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

/** That of the brand; without one, water flowing over a weir. */
export function Logo({ src = null }: { src?: string | null }) {
  if (src !== null) return <img src={src} alt="" className="h-[26px] max-w-32 shrink-0" />
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

// Fields of forms, each with a label, a hint and its error.

interface FieldProps {
  readonly label: string
  readonly hint?: ReactNode
  readonly error?: string | undefined
}

export function TextField({
  label,
  hint,
  error,
  ...input
}: FieldProps & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId()
  return (
    <Framed id={id} label={label} hint={hint} error={error}>
      <input
        id={id}
        className="control"
        aria-invalid={error !== undefined || undefined}
        aria-describedby={describedBy(id, hint, error)}
        {...input}
      />
    </Framed>
  )
}

export function TextArea({
  label,
  hint,
  error,
  ...area
}: FieldProps & TextareaHTMLAttributes<HTMLTextAreaElement>) {
  const id = useId()
  return (
    <Framed id={id} label={label} hint={hint} error={error}>
      <textarea
        id={id}
        className="w-full rounded-md border border-line-strong bg-panel px-2.5 py-1.5"
        aria-invalid={error !== undefined || undefined}
        aria-describedby={describedBy(id, hint, error)}
        {...area}
      />
    </Framed>
  )
}

export function Choice({
  label,
  hint,
  error,
  options,
  ...select
}: FieldProps & SelectHTMLAttributes<HTMLSelectElement> & { options: OptionList }) {
  const id = useId()
  return (
    <Framed id={id} label={label} hint={hint} error={error}>
      <select id={id} className="control" aria-describedby={describedBy(id, hint, error)} {...select}>
        <Options of={options} />
      </select>
    </Framed>
  )
}

type OptionList = readonly (readonly [value: string, text: string])[]

export function Options({ of: options }: { of: OptionList }) {
  return options.map(([value, text]) => (
    <option key={value} value={value}>
      {text}
    </option>
  ))
}

interface SelectProps extends SelectHTMLAttributes<HTMLSelectElement> {
  readonly label: string
  readonly options: OptionList
  readonly onPick?: (value: string) => void
}

/** A choice beside a list, whose label is only read by screen readers. */
export function Select({ label, options, onPick, className = 'control', ...select }: SelectProps) {
  return (
    <select
      aria-label={label}
      onChange={onPick && (({ target }) => onPick(target.value))}
      className={className}
      {...select}
    >
      <Options of={options} />
    </select>
  )
}

function Framed({ id, label, hint, error, children }: FieldProps & { id: string; children: ReactNode }) {
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-[13px] font-medium">
        {label}
      </label>
      {children}
      {hint !== undefined && (
        <p id={`${id}-hint`} className="mt-1 text-[12.5px] text-muted">
          {hint}
        </p>
      )}
      {error !== undefined && (
        <p id={`${id}-error`} className="mt-1 text-[12.5px] text-bad">
          {error}
        </p>
      )}
    </div>
  )
}

function describedBy(id: string, hint: ReactNode, error: string | undefined): string | undefined {
  const ids = [...(hint === undefined ? [] : [`${id}-hint`]), ...(error === undefined ? [] : [`${id}-error`])]
  return ids.length === 0 ? undefined : ids.join(' ')
}

/** The text of a field; undefined if it is empty. */
export function textOf(form: FormData, name: string): string | undefined {
  const value = form.get(name)
  const text = typeof value === 'string' ? value.trim() : ''
  return text === '' ? undefined : text
}

// A form in a dialog that sends one act: it shows why it was refused, and cannot be sent twice at once.

interface ActFormProps {
  /** Runs the act. What it throws is shown. */
  readonly onSubmit: (given: FormData) => Promise<void>
  /** The text of its button. */
  readonly action: string
  readonly look?: 'primary' | 'danger'
  /** Names of fields that show their own faults, by the function that `children` gets. */
  readonly fields?: readonly string[]
  readonly children: ReactNode | ((faultOf: (field: string) => string | undefined) => ReactNode)
}

export function ActForm({ onSubmit, action, look = 'primary', fields = [], children }: ActFormProps) {
  const { error, busy, formAct } = useAct()
  const fault = error === null ? undefined : faultIn(error)
  const faultOf = (field: string) => (fault?.param === field ? fault.message : undefined)
  return (
    <form onSubmit={formAct(onSubmit)} className="grid gap-3.5">
      {typeof children === 'function' ? children(faultOf) : children}
      {fault && !fields.includes(fault.param ?? '') && <Failure error={error} />}
      <div>
        <Button type="submit" look={look} busy={busy}>
          {action}
        </Button>
      </div>
    </form>
  )
}

/** Runs an act: `busy` while it runs, `error` if it was refused. */
export function useAct() {
  const [error, setError] = useState<unknown>(null)
  const [busy, setBusy] = useState(false)
  const act = async (work: () => Promise<void>) => {
    setBusy(true)
    setError(null)
    try {
      await work()
    } catch (thrown) {
      setError(thrown)
    } finally {
      setBusy(false)
    }
  }
  /** Handles the sending of a form by an act. */
  const formAct =
    (work: (given: FormData, form: HTMLFormElement) => Promise<void>) =>
    (event: FormEvent<HTMLFormElement>) => {
      event.preventDefault()
      const form = event.currentTarget
      const given = new FormData(form)
      void act(() => work(given, form))
    }
  return { error, busy, act, formAct }
}

// A modal dialog: the browser's own, which keeps the focus, closes on Escape and makes the page behind it inert.

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly children: ReactNode
  readonly wide?: boolean
  /** Not closed by Escape, for content that is shown only once. */
  readonly firm?: boolean
}

/** Shown as long as it is rendered. */
export function Dialog({ title, onClose, children, wide = false, firm = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const element = dialog.current!
    element.showModal()
    // The browser would begin with the button that closes it; React's `autoFocus` comes before the dialog is open.
    element.querySelector<HTMLElement>('input, select, textarea')?.focus()
    return () => element.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        if (!firm) onClose()
      }}
      className={`card m-auto max-h-[92dvh] w-[calc(100vw-1.5rem)] overflow-y-auto p-5 text-start shadow-xl ${wide ? 'max-w-2xl' : 'max-w-md'}`}
    >
      <div className="mb-4 flex items-start gap-3">
        <h2 id={titleId} className="flex-1 text-base font-semibold">
          {title}
        </h2>
        {!firm && (
          <Button small look="quiet" aria-label={t('Close')} onClick={onClose}>
            ✕
          </Button>
        )}
      </div>
      {children}
    </dialog>
  )
}

interface RevokeButtonProps {
  readonly name: string
  readonly consequence: string
  /** Rejects with what the gateway refuses it for, which is shown. */
  readonly revoke: () => Promise<void>
}

/** Revokes a row of a table, once that is confirmed: nothing brings it back. Screen readers hear which row. */
export function RevokeButton({ name, consequence, revoke }: RevokeButtonProps) {
  const [asking, setAsking] = useState(false)
  const close = () => setAsking(false)
  return (
    <>
      <Button small look="danger" aria-label={t('Revoke {name}', { name })} onClick={() => setAsking(true)}>
        {t('Revoke')}
      </Button>
      {asking && (
        <Dialog title={t('Revoke {name}', { name })} onClose={close}>
          <ActForm onSubmit={revoke} action={t('Revoke')} look="danger">
            <p>{consequence}</p>
          </ActForm>
        </Dialog>
      )}
    </>
  )
}

interface ShownOnceProps {
  readonly title: string
  readonly warning: string
  readonly secret: string
  /** What the secret is, for screen readers. */
  readonly label: string
  /** The button that closes the dialog. */
  readonly done: string
  readonly onClose: () => void
}

/** A secret, the only time that it is shown: Escape does not close the dialog. */
export function ShownOnce({ title, warning, secret, label, done, onClose }: ShownOnceProps) {
  return (
    <Dialog title={title} onClose={onClose} firm>
      <div className="grid gap-3">
        <Note tone="warn">{warning}</Note>
        <Code text={secret} label={label} />
        <div>
          <Button look="primary" onClick={onClose}>
            {done}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}

// Whose gateway it is: its colours, and where its terms and its help are.

type Brand = SessionView['brand']

/** Has the page look like it. Repeating it changes nothing. */
export function showBrand({ accent, accent_dark: dark }: Pick<Brand, 'accent' | 'accent_dark'>): void {
  if (accent === null && dark === null) return
  const { style } = document.documentElement
  style.setProperty('--accent', `light-dark(${accent ?? '#0a6482'}, ${dark ?? '#67c5e2'})`)
  style.setProperty('--accent-soft', 'color-mix(in srgb, var(--accent) 10%, var(--panel))')
}

/** Terms, privacy and support, as far as there are any. */
export function BrandLinks({ brand }: { brand: Brand }) {
  const { terms_url: terms, privacy_url: privacy, support } = brand
  const links = [
    [t('Terms'), terms],
    [t('Privacy'), privacy],
    [t('Support'), support !== null && !support.includes(':') ? `mailto:${support}` : support],
  ] as const
  if (links.every(([, href]) => href === null)) return null
  return (
    <p className="mt-3 flex flex-wrap gap-x-4 gap-y-1 px-1 text-[12.5px]">
      {links.map(
        ([name, href]) =>
          href !== null && (
            <a key={name} href={href} target="_blank" rel="noreferrer" className="text-muted underline">
              {name}
            </a>
          ),
      )}
    </p>
  )
}
